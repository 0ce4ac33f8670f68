//! dots.ocr.

use super::exaone::{MAX_PIXELS, MIN_PIXELS};
use super::prelude::*;

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("DotsOCRForCausalLM", "dots_ocr")],
    renames: &[Rename::Prefix("vision_tower.blocks.", "vision.layers."), Rename::Prefix("vision_tower.", "vision.")],
    rules: &[&[
        model("vision.patch_embed.patchifier.proj.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH]),
        model("vision.patch_embed.patchifier.proj.bias", "v.patch_embd.bias", &[V_HIDDEN]),
        model("vision.patch_embed.patchifier.norm.weight", "v.pre_ln.weight", &[V_HIDDEN]),
        vision("attn.qkv.*", "attn_qkv.*", &[THREE_HIDDEN, V_HIDDEN]).biased(OPTIONAL),
        vision("attn.proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN]).biased(OPTIONAL),
        // x = fc2(silu(fc1(x)) * fc3(x))
        vision("mlp.fc1.*", "ffn_gate.*", &[V_FFN, V_HIDDEN]).biased(OPTIONAL),
        vision("mlp.fc3.*", "ffn_up.*", &[V_FFN, V_HIDDEN]).biased(OPTIONAL),
        vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN]).biased(OPTIONAL),
        vision("norm1.weight", "ln1.weight", &[V_HIDDEN]),
        vision("norm2.weight", "ln2.weight", &[V_HIDDEN]),
        model("vision.post_trunk_norm.weight", "mm.post_norm.weight", &[V_HIDDEN]),
        biased(model("vision.merger.ln_q.*", "mm.input_norm.*", &[V_HIDDEN])),
        biased(model("vision.merger.mlp.0.*", "mm.0.*", &[MERGED, MERGED])),
        biased(model("vision.merger.mlp.2.*", "mm.2.*", &[TEXT, MERGED])),
    ]],
    keys: &[
        // 0: the size of images varies.
        &vision_keys(VisionSizes::USUAL.with_image(|_| Ok(Some(0)))),
        &[
            projector(|_| Ok(Some("dots_ocr"))),
            sized("vision.image_min_pixels", MIN_PIXELS),
            sized("vision.image_max_pixels", MAX_PIXELS),
            epsilon(|config| config.needed_real("vision_config.rms_norm_eps").map(Some)),
            count_fn("vision.projector.scale_factor", |config| {
                config.divisor("vision_config.spatial_merge_size").map(Some)
            }),
            is_true("use_silu"),
        ],
    ],
    ..PROJECTOR
}];
