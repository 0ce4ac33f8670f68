//! HunYuan-VL.

use super::exaone::{MAX_PIXELS, MIN_PIXELS};
use super::prelude::*;

/// The patches of the largest image.
const TABLE: Size = size(
    |config| {
        let side = image_size(config)?.unwrap_or(0) / config.divisor("vision_config.patch_size")?;
        Ok(side.saturating_mul(side))
    },
    "vision_config.max_image_size, vision_config.patch_size",
    "",
);
const TWO_HIDDEN: Size = size(|config| product(&[V_HIDDEN, TWO], config), "vision_config.hidden_size", "");
const FOUR_HIDDEN: Size = size(|config| product(&[V_HIDDEN, TWO, TWO], config), "vision_config.hidden_size", "");
const MERGE: Size = size(
    |config| Ok(config.count(&["vision_config.spatial_merge_size"])?.unwrap_or(2)),
    "vision_config.spatial_merge_size",
    "",
);

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("HunYuanVLForConditionalGeneration", "hunyuan_vl")],
    renames: &[
        Rename::Prefix("vit.layers.", "vision.layers."),
        Rename::Prefix("vit.perceive.", "mm."),
        Rename::Prefix("vit.", "vision."),
        Rename::Prefix("model.vit.layers.", "vision.layers."),
        Rename::Prefix("model.vit.perceive.", "mm."),
        Rename::Prefix("model.vit.", "vision."),
    ],
    rules: &[
        CONVOLUTION,
        &[
            // The first row is that of a class token.
            model("vision.embeddings.position_embedding.weight", "v.position_embd.weight", &[TABLE, V_HIDDEN])
                .with(&[Change::WithoutFirst(ONE)]),
            biased(vision("input_layernorm.*", "ln1.*", &[V_HIDDEN])),
            biased(vision("post_attention_layernorm.*", "ln2.*", &[V_HIDDEN])),
            biased(vision("mlp.dense_h_to_4h.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
            biased(vision("mlp.dense_4h_to_h.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
            biased(vision("self_attn.q_proj.*", "attn_q.*", &[V_HIDDEN, V_HIDDEN])),
            biased(vision("self_attn.k_proj.*", "attn_k.*", &[V_HIDDEN, V_HIDDEN])),
            biased(vision("self_attn.v_proj.*", "attn_v.*", &[V_HIDDEN, V_HIDDEN])),
            biased(vision("self_attn.o_proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
            model("mm.before_rms.weight", "mm.pre_norm.weight", &[V_HIDDEN]),
            model("mm.after_rms.weight", "mm.post_norm.weight", &[MERGED_OUT]),
            model("mm.image_begin", "mm.image_begin", &[MERGED_OUT]),
            model("mm.image_end", "mm.image_end", &[MERGED_OUT]),
            model("mm.image_newline", "v.image_newline", &[FOUR_HIDDEN]),
            model("mm.image_sep", "v.view_seperator", &[MERGED_OUT]),
            model("mm.proj.0.weight", "mm.0.weight", &[TWO_HIDDEN, V_HIDDEN, MERGE, MERGE]),
            model("mm.proj.0.bias", "mm.0.bias", &[TWO_HIDDEN]),
            model("mm.proj.2.weight", "mm.2.weight", &[FOUR_HIDDEN, TWO_HIDDEN, ONE, ONE]),
            model("mm.proj.2.bias", "mm.2.bias", &[FOUR_HIDDEN]),
            biased(model("mm.mlp.*", "mm.model.fc.*", &[MERGED_OUT, FOUR_HIDDEN])),
        ],
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL.with_image(image_size)),
        &[
            projector(|_| Ok(Some("hunyuanvl"))),
            is_true("use_gelu"),
            epsilon(|config| Ok(Some(config.real(&["vision_config.rms_norm_eps"])?.unwrap_or(1e-5)))),
            sized("vision.spatial_merge_size", MERGE),
            sized("vision.image_min_pixels", MIN_PIXELS),
            sized("vision.image_max_pixels", MAX_PIXELS),
        ],
    ],
    types: TypeRules::PROJECTOR.and_f16_or_f32(&[
        ".patch_embd.weight",
        ".patch_merger.weight",
        "mm.0.weight",
        "mm.2.weight",
    ]),
    ..PROJECTOR
}];

fn image_size(config: &Config) -> Result<Option<u64>> {
    Ok(Some(config.count(&["vision_config.image_size", "vision_config.max_image_size"])?.unwrap_or(2048)))
}
