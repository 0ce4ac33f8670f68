//! Qwen 3-VL, Qwen 3.5 and Qwen 4 Exp: attention in one tensor, and mergers of inner layers (deepstack).

use super::prelude::*;
use super::qwen2vl::RENAMES;

/// The mergers of inner layers, numbered by layer.
const DEEPSTACK: Stack = Stack { hf: "vision.deepstack_merger_list.", gguf: "v.deepstack.", layers: Some(V_LAYERS) };
pub(super) const INDEXES: &str = "vision_config.deepstack_visual_indexes";
const OF_DEEPSTACK: Need =
    Need::When(INDEXES, |config, layer| Ok(needed_if(config.counts(INDEXES)?.unwrap_or_default().contains(&layer))));

const fn deep(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(DEEPSTACK).when(OF_DEEPSTACK).biased(OF_DEEPSTACK)
}

/// The rows of the table of positions.
const TABLE: Size = size(|config| Ok(config.count(&[TABLE_KEY])?.unwrap_or(2304)), TABLE_KEY, "");
const TABLE_KEY: &str = "vision_config.num_position_embeddings";

/// The convolution with its two frames as tensors of their own.
pub(super) const TWO_FRAMES: &[Rule] = &[
    model("vision.patch_embed.proj.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
        .with(&[Change::Frame(0)]),
    model("vision.patch_embed.proj.weight", "v.patch_embd.weight.1", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
        .with(&[Change::Frame(1)]),
    model("vision.patch_embed.proj.bias", "v.patch_embd.bias", &[V_HIDDEN]),
];

/// The table of positions, and the layers.
pub(super) const BLOCKS: &[Rule] = &[
    model("vision.pos_embed.weight", "v.position_embd.weight", &[TABLE, V_HIDDEN]),
    biased(vision("attn.qkv.*", "attn_qkv.*", &[THREE_HIDDEN, V_HIDDEN])),
    biased(vision("attn.proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
    biased(vision("norm1.*", "ln1.*", &[V_HIDDEN])),
    biased(vision("norm2.*", "ln2.*", &[V_HIDDEN])),
    biased(vision("mlp.linear_fc1.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
    biased(vision("mlp.linear_fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
];

/// The mergers behind layers.
pub(super) const MERGERS: &[Rule] = &[
    deep("norm.*", "norm.*", &[MERGED]),
    deep("linear_fc1.*", "fc1.*", &[MERGED, MERGED]),
    deep("linear_fc2.*", "fc2.*", &[MERGED_OUT, MERGED]),
    biased(model("vision.merger.norm.*", "v.post_ln.*", &[V_HIDDEN])),
    biased(model("vision.merger.linear_fc1.*", "mm.0.*", &[MERGED, MERGED])),
    biased(model("vision.merger.linear_fc2.*", "mm.2.*", &[MERGED_OUT, MERGED])),
];

/// The keys behind the type of the projector.
pub(super) const fn own_keys() -> [Key; 4] {
    [
        is_true("use_gelu"),
        count("vision.spatial_merge_size", &["vision_config.spatial_merge_size"]),
        epsilon(|config| Ok(Some(config.real(&["text_config.rms_norm_eps"])?.unwrap_or(1e-6)))),
        flags_fn("vision.is_deepstack_layers", deepstack_layers),
    ]
}

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[
        class("Qwen3VLForConditionalGeneration", "qwen3_vl"),
        class("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe"),
        class("Qwen3_5ForConditionalGeneration", "qwen3_5"),
        class("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"),
        class("Qwen4ExpForConditionalGeneration", "qwen4_exp"),
    ],
    renames: RENAMES,
    numbered: &[("vision.deepstack_merger_list.", |config, place| config.needed_item(INDEXES, place))],
    rules: &[TWO_FRAMES, BLOCKS, MERGERS],
    keys: &[
        &vision_keys(VisionSizes::USUAL.with_image(image_size)),
        &[projector(|_| Ok(Some("qwen3vl_merger")))],
        &own_keys(),
    ],
    ..PROJECTOR
}];

/// `image_size`, or the side of the table of positions times that of a patch.
pub(super) fn image_size(config: &Config) -> Result<Option<u64>> {
    match config.count(&["vision_config.image_size"])? {
        Some(size) => Ok(Some(size)),
        None => Ok(Some((((TABLE.of)(config)? as f64).sqrt() * (PATCH.of)(config)? as f64) as u64)),
    }
}

fn deepstack_layers(config: &Config) -> Result<Option<Vec<bool>>> {
    let (layers, indexes) = ((V_LAYERS.of)(config)?, config.counts(INDEXES)?.unwrap_or_default());
    if let Some(index) = indexes.iter().find(|index| **index >= layers) {
        let why = format!("config.json: {} has layer {index}, there are {layers}", quoted(INDEXES));
        return Err(AnamnesisError::parse(why));
    }
    Ok((layers > 0).then(|| (0..layers).map(|layer| indexes.contains(&layer)).collect()))
}
