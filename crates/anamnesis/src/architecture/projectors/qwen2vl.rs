//! Qwen 2-VL and 2.5-VL, and towers like theirs.

use super::prelude::*;

/// The tensors of both: fused attention is split, the two frames of the convolution are tensors of their own.
pub(super) const SHARED: &[Rule] = &[
    model("vision.patch_embed.proj.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
        .with(&[Change::Frame(0)]),
    model("vision.patch_embed.proj.weight", "v.patch_embd.weight.1", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
        .with(&[Change::Frame(1)]),
    vision("attn.proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN]).biased(OPTIONAL),
    vision("norm1.*", "ln1.*", &[V_HIDDEN]).biased(OPTIONAL),
    vision("norm2.*", "ln2.*", &[V_HIDDEN]).biased(OPTIONAL),
    model("vision.merger.ln_q.*", "v.post_ln.*", &[V_HIDDEN]).biased(OPTIONAL),
    biased(model("vision.merger.mlp.0.*", "mm.0.*", &[MERGED, MERGED])),
    biased(model("vision.merger.mlp.2.*", "mm.2.*", &[TEXT, MERGED])),
];

/// The feed-forward network of Qwen 2.5-VL.
pub(super) const GATED: &[Rule] = &[
    vision("mlp.gate_proj.*", "ffn_gate.*", &[V_FFN, V_HIDDEN]).biased(OPTIONAL),
    vision("mlp.up_proj.*", "ffn_up.*", &[V_FFN, V_HIDDEN]).biased(OPTIONAL),
    vision("mlp.down_proj.*", "ffn_down.*", &[V_HIDDEN, V_FFN]).biased(OPTIONAL),
];

pub(super) const RENAMES: &[Rename] = &[
    Rename::Prefix("visual.blocks.", "vision.layers."),
    Rename::Prefix("visual.", "vision."),
    Rename::Prefix("model.visual.blocks.", "vision.layers."),
    Rename::Prefix("model.visual.", "vision."),
];

/// The hidden size of Qwen 2-VL, whose `hidden_size` is that of the language model.
const EMBED: Size = size(|config| first(config, &["vision_config.embed_dim"]), "vision_config.embed_dim", "");
/// The rows of its feed-forward network.
const INNER: Size = size(
    |config| {
        let ratio = config.real(&["vision_config.mlp_ratio"])?.unwrap_or(4.0);
        Ok(((EMBED.of)(config)? as f64 * ratio) as u64)
    },
    "vision_config.embed_dim, vision_config.mlp_ratio",
    "",
);
const MERGED_EMBED: Size = size(
    |config| {
        let merge = config.count(&["vision_config.spatial_merge_size"])?.unwrap_or(2);
        Ok((EMBED.of)(config)?.saturating_mul(merge.saturating_mul(merge)))
    },
    "vision_config.embed_dim, vision_config.spatial_merge_size",
    "",
);
const EMBED_QKV: [Parts; 3] = [embed_part(0), embed_part(1), embed_part(2)];

const fn embed_part(first: usize) -> Parts {
    Parts { groups: ONE, parts: &[EMBED, EMBED, EMBED], first, count: 1 }
}

const QWEN2: &[Rule] = &[
    model("vision.patch_embed.proj.weight", "v.patch_embd.weight", &[EMBED, CHANNELS, PATCH, PATCH])
        .with(&[Change::Frame(0)]),
    model("vision.patch_embed.proj.weight", "v.patch_embd.weight.1", &[EMBED, CHANNELS, PATCH, PATCH])
        .with(&[Change::Frame(1)]),
    biased(vision("attn.qkv.*", "attn_q.*", &[EMBED, EMBED]).with(&[Change::Parts(&EMBED_QKV[0])])),
    biased(vision("attn.qkv.*", "attn_k.*", &[EMBED, EMBED]).with(&[Change::Parts(&EMBED_QKV[1])])),
    biased(vision("attn.qkv.*", "attn_v.*", &[EMBED, EMBED]).with(&[Change::Parts(&EMBED_QKV[2])])),
    biased(vision("attn.proj.*", "attn_out.*", &[EMBED, EMBED])),
    biased(vision("norm1.*", "ln1.*", &[EMBED])),
    biased(vision("norm2.*", "ln2.*", &[EMBED])),
    biased(vision("mlp.fc1.*", "ffn_up.*", &[INNER, EMBED])),
    biased(vision("mlp.fc2.*", "ffn_down.*", &[EMBED, INNER])),
    biased(model("vision.merger.ln_q.*", "v.post_ln.*", &[EMBED])),
    biased(model("vision.merger.mlp.0.*", "mm.0.*", &[MERGED_EMBED, MERGED_EMBED])),
    biased(model("vision.merger.mlp.2.*", "mm.2.*", &[V_HIDDEN, MERGED_EMBED])),
];

/// The epsilon that the converter finds outside the language model: none in the configurations of transformers.
pub(super) fn norm_epsilon(config: &Config) -> Result<Option<f64>> {
    let is_known = matches!(config.text("model_type")?, Some("qwen2_vl" | "qwen2_5_vl"));
    Ok(Some(config.real(&["rms_norm_eps"])?.filter(|_| !is_known).unwrap_or(1e-6)))
}

/// 560 by default.
pub(super) fn image_size(config: &Config) -> Result<Option<u64>> {
    Ok(Some(config.count(&["vision_config.image_size"])?.unwrap_or(560)))
}

pub(super) const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &[
            class("Qwen2VLForConditionalGeneration", "qwen2_vl"),
            class("Qwen2VLModel", "qwen2_vl"),
            class("Sarashina2VisionForCausalLM", "sarashina2_vision"),
        ],
        renames: RENAMES,
        rules: &[QWEN2],
        keys: &[
            // The converter writes the hidden size of the language model as that of the feed-forward network.
            &vision_keys(VisionSizes { hidden: EMBED, ffn: V_HIDDEN, ..VisionSizes::USUAL }.with_image(image_size)),
            &[projector(|_| Ok(Some("qwen2vl_merger"))), epsilon(norm_epsilon)],
        ],
        ..PROJECTOR
    },
    Architecture {
        classes: &[class("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl")],
        renames: RENAMES,
        rules: &[SHARED, &split_qkv("attn.qkv.*"), GATED],
        keys: &[
            &vision_keys(VisionSizes::USUAL.with_image(image_size)),
            &[projector(|_| Ok(Some("qwen2.5vl_merger"))), is_true("use_silu"), WINDOW_PATTERN, epsilon(norm_epsilon)],
        ],
        ..PROJECTOR
    },
];

/// The distance of layers with attention over the whole image.
pub(super) const WINDOW_PATTERN: Key = count_fn("vision.n_wa_pattern", |config| match window_pattern(config)? {
    None => Err(AnamnesisError::parse(format!("config.json has no {}", quoted(FULL_ATTENTION)))),
    pattern => Ok(pattern),
});

/// The layers with attention over the whole image.
const FULL_ATTENTION: &str = "vision_config.fullatt_block_indexes";

/// The distance of layers with attention over the whole image, which must be equal; `None` if there are none.
pub(super) fn window_pattern(config: &Config) -> Result<Option<u64>> {
    let Some(layers) = config.counts(FULL_ATTENTION)?.filter(|layers| !layers.is_empty()) else { return Ok(None) };
    let pattern = layers[0].saturating_add(1);
    if layers.windows(2).any(|pair| pair[1].checked_sub(pair[0]) != Some(pattern)) {
        let why =
            format!("config.json: {} is {layers:?}, layers at equal distances are needed", quoted(FULL_ATTENTION));
        return Err(AnamnesisError::parse(why));
    }
    Ok(Some(pattern))
}
