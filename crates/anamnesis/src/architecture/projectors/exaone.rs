//! EXAONE 4.5: a tower like that of Qwen 2.5-VL with fewer heads of keys and values.

use super::prelude::*;
use super::qwen2vl::{GATED, RENAMES, image_size, window_pattern};

/// The rows of queries, keys and values.
const QKV_ROWS: Size = size(
    |config| {
        let kv = config.count(&["vision_config.num_key_value_heads"])?.map_or_else(|| (V_HEADS.of)(config), Ok)?;
        let heads = (V_HEADS.of)(config)?.saturating_add(kv.saturating_mul(2));
        Ok(heads.saturating_mul((HEAD.of)(config)?))
    },
    "vision_config.num_heads, vision_config.num_key_value_heads, vision_config.hidden_size",
    "",
);

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Exaone4_5_ForConditionalGeneration", "exaone4_5")],
    renames: RENAMES,
    rules: &[
        &[
            model("vision.patch_embed.proj.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
                .with(&[Change::Frame(0)]),
            model("vision.patch_embed.proj.weight", "v.patch_embd.weight.1", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
                .with(&[Change::Frame(1)]),
            vision("attn.qkv.*", "attn_qkv.*", &[QKV_ROWS, V_HIDDEN]).biased(OPTIONAL),
            vision("attn.proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN]).biased(OPTIONAL),
            vision("norm1.weight", "ln1.weight", &[V_HIDDEN]),
            vision("norm2.weight", "ln2.weight", &[V_HIDDEN]),
            model("vision.merger.ln_q.weight", "v.post_ln.weight", &[V_HIDDEN]),
            biased(model("vision.merger.mlp.0.*", "mm.0.*", &[MERGED, MERGED])),
            biased(model("vision.merger.mlp.2.*", "mm.2.*", &[MERGED_OUT, MERGED])),
        ],
        GATED,
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL.with_image(image_size)),
        &[
            projector(|_| Ok(Some("exaone4_5"))),
            is_true("use_silu"),
            sized("vision.image_min_pixels", MIN_PIXELS),
            sized("vision.image_max_pixels", MAX_PIXELS),
            count("vision.attention.head_count_kv", &["vision_config.num_key_value_heads"]),
            epsilon(|config| Ok(Some(config.real(&["vision_config.rms_norm_eps", "rms_norm_eps"])?.unwrap_or(1e-6)))),
            count("vision.window_size", &["vision_config.window_size"]),
            count_fn("vision.n_wa_pattern", window_pattern),
        ],
    ],
    ..PROJECTOR
}];

/// The smallest and the largest images.
pub(super) const MIN_PIXELS: Size =
    size(|config| config.needed("preprocessor_config.min_pixels"), "preprocessor_config.min_pixels", "");
pub(super) const MAX_PIXELS: Size =
    size(|config| config.needed("preprocessor_config.max_pixels"), "preprocessor_config.max_pixels", "");
