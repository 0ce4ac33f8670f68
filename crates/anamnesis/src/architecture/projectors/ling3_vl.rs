//! Ling 3 VL: the tower of Qwen 3-VL, whose merger is a norm, and a projection behind it.

use super::prelude::*;
use super::qwen3vl::{BLOCKS, image_size};

const NORM_ONLY: &str = "vision_config.disable_merger_proj";
const OUT: Size = size(|config| config.divisor("vision_config.out_hidden_size"), "vision_config.out_hidden_size", "");

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("BailingMoeV3VLForConditionalGeneration", "bailing_moe_v3_vl")],
    renames: &[
        Rename::Prefix("visual.blocks.", "vision.layers."),
        Rename::Prefix("visual.", "vision."),
        Rename::Prefix("model.visual.blocks.", "vision.layers."),
        Rename::Prefix("model.visual.", "vision."),
        Rename::Prefix("linear_proj.", "mm."),
    ],
    rules: &[
        BLOCKS,
        &[
            model("vision.patch_embed.proj.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
                .with(&[Change::Frame(0)]),
            model("vision.patch_embed.proj.weight", "v.patch_embd.weight.1", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
                .with(&[Change::Frame(1)]),
            model("vision.patch_embed.proj.bias", "v.patch_embd.bias", &[V_HIDDEN]).when(OPTIONAL),
            biased(model("vision.merger.norm.*", "mm.input_norm.*", &[V_HIDDEN])),
            biased(model("mm.0.*", "mm.0.*", &[TEXT, OUT])),
            biased(model("mm.2.*", "mm.2.*", &[TEXT, TEXT])),
        ],
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL.with_image(image_size)),
        &[
            projector(|config| match config.flag(NORM_ONLY)? {
                Some(true) => Ok(Some("ling3vl")),
                _ => Err(AnamnesisError::parse(format!("config.json: {} must be true", quoted(NORM_ONLY)))),
            }),
            is_true("use_gelu"),
            count("vision.spatial_merge_size", &["vision_config.spatial_merge_size"]),
            epsilon(|config| Ok(Some(config.real(&["text_config.rms_norm_eps"])?.unwrap_or(1e-6)))),
        ],
    ],
    ..PROJECTOR
}];
