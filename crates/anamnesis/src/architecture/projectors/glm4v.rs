//! GLM 4.1V, 4.5V, OCR and 5-Next: a tower like that of Qwen, downsampled by a convolution.

use super::prelude::*;
use super::qwen2vl::{GATED, RENAMES};
use super::qwen3vl::TWO_FRAMES;

const MERGE: Size = size(
    |config| Ok(config.count(&["vision_config.spatial_merge_size"])?.unwrap_or(2)),
    "vision_config.spatial_merge_size",
    "",
);

/// The tensors that all have.
const SHARED: &[Rule] = &[
    vision("attn.qkv.*", "attn_qkv.*", &[THREE_HIDDEN, V_HIDDEN]).biased(OF_BIAS),
    vision("attn.proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN]).biased(OPTIONAL),
    vision("norm1.weight", "ln1.weight", &[V_HIDDEN]),
    vision("norm2.weight", "ln2.weight", &[V_HIDDEN]),
    model("vision.downsample.weight", "mm.patch_merger.weight", &[MERGED_OUT, V_HIDDEN, MERGE, MERGE]),
    model("vision.downsample.bias", "mm.patch_merger.bias", &[MERGED_OUT]),
    model("vision.merger.proj.weight", "mm.model.fc.weight", &[MERGED_OUT, MERGED_OUT]),
    biased(model("vision.merger.post_projection_norm.*", "mm.post_norm.*", &[MERGED_OUT])),
    model("vision.post_layernorm.weight", "v.post_ln.weight", &[V_HIDDEN]),
];

const OF_BIAS: Need = Need::Flag("vision_config.attention_bias");

/// The feed-forward network of the merger, of this size.
const fn merger(inner: &'static [Size; 2], outer: &'static [Size; 2]) -> [Rule; 3] {
    [
        model("vision.merger.gate_proj.weight", "mm.gate.weight", inner),
        model("vision.merger.up_proj.weight", "mm.up.weight", inner),
        model("vision.merger.down_proj.weight", "mm.down.weight", outer),
    ]
}

/// Norms of queries and keys.
const QK_NORMS: &[Rule] = &[
    vision("attn.q_norm.weight", "attn_q_norm.weight", &[HEAD]),
    vision("attn.k_norm.weight", "attn_k_norm.weight", &[HEAD]),
];

/// In GLM 4V, the layers are as wide as the output.
const GATED_BY_OUTPUT: &[Rule] = &[
    vision("mlp.gate_proj.*", "ffn_gate.*", &[MERGED_OUT, V_HIDDEN]).biased(OPTIONAL),
    vision("mlp.up_proj.*", "ffn_up.*", &[MERGED_OUT, V_HIDDEN]).biased(OPTIONAL),
    vision("mlp.down_proj.*", "ffn_down.*", &[V_HIDDEN, MERGED_OUT]).biased(OPTIONAL),
];

const fn keys(name: fn(&Config) -> Result<Option<&'static str>>) -> [Key; 4] {
    let [gelu, silu] = activation();
    let eps = epsilon(|config| Ok(Some(config.real(&["vision_config.rms_norm_eps"])?.unwrap_or(1e-5))));
    [projector(name), gelu, silu, eps]
}

/// The width of the merger of GLM-OCR.
const OCR_INNER: Size = size(|config| product(&[MERGED_OUT, CHANNELS], config), "vision_config.out_hidden_size", "");
const NEXT_INNER: Size = size(
    |config| first(config, &["vision_config.projection_intermediate_size"]),
    "vision_config.projection_intermediate_size",
    "",
);

pub(super) const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &[
            class("Glm4vForConditionalGeneration", "glm4v"),
            class("Glm4vMoeForConditionalGeneration", "glm4v_moe"),
        ],
        renames: RENAMES,
        rules: &[
            TWO_FRAMES,
            SHARED,
            GATED_BY_OUTPUT,
            &merger(&[V_FFN, MERGED_OUT], &[MERGED_OUT, V_FFN]),
            &[
                model("vision.embeddings.position_embedding.weight", "v.position_embd.weight", &[POSITIONS, V_HIDDEN]),
                model("vision.post_conv_layernorm.weight", "v.norm_embd.weight", &[V_HIDDEN]),
            ],
        ],
        keys: &[&vision_keys(VisionSizes::USUAL), &keys(|_| Ok(Some("glm4v")))],
        ..PROJECTOR
    },
    Architecture {
        classes: &[class("GlmOcrForConditionalGeneration", "glm_ocr")],
        renames: RENAMES,
        rules: &[TWO_FRAMES, SHARED, GATED, QK_NORMS, &merger(&[OCR_INNER, MERGED_OUT], &[MERGED_OUT, OCR_INNER])],
        keys: &[&vision_keys(VisionSizes::USUAL), &keys(|_| Ok(Some("glm4v")))],
        ..PROJECTOR
    },
    Architecture {
        classes: &[class("Glm5NextForConditionalGeneration", "glm5_next")],
        renames: RENAMES,
        rules: &[TWO_FRAMES, SHARED, GATED, QK_NORMS, &merger(&[NEXT_INNER, MERGED_OUT], &[MERGED_OUT, NEXT_INNER])],
        keys: &[
            &vision_keys(VisionSizes::USUAL),
            &keys(|_| Ok(Some("glm5v"))),
            &[
                count_fn("vision.spatial_merge_size", |config| (MERGE.of)(config).map(Some)),
                real("vision.swiglu_clamp", &["vision_config.swiglu_limit"]),
                count_fn("vision.image_min_pixels", |config| pixels(config, "preprocessor_config.min_image_tokens")),
                count_fn("vision.image_max_pixels", |config| pixels(config, "preprocessor_config.max_image_tokens")),
            ],
        ],
        ..PROJECTOR
    },
];

/// The pixels of a number of tokens.
fn pixels(config: &Config, key: &str) -> Result<Option<u64>> {
    let patch = config.count(&["preprocessor_config.patch_size"])?.unwrap_or(14);
    let side = patch.saturating_mul(config.count(&["preprocessor_config.merge_size"])?.unwrap_or(2));
    Ok(config.count(&[key])?.map(|tokens| tokens.saturating_mul(side.saturating_mul(side))))
}
