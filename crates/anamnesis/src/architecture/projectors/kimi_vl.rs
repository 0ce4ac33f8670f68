//! Kimi-VL: MoonViT with a table of positions for rows and columns.

use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const HEIGHT: Size =
    of("vision_config.init_pos_emb_height", |config| config.divisor("vision_config.init_pos_emb_height"));
const WIDTH: Size = of("vision_config.init_pos_emb_width", |config| config.divisor("vision_config.init_pos_emb_width"));
const CELLS: Size = of("vision_config.init_pos_emb_height, vision_config.init_pos_emb_width", |config| {
    product(&[HEIGHT, WIDTH], config)
});
/// The hidden states of the four patches that become one.
const FOUR: Size = of("vision_config.hidden_size", |config| product(&[V_HIDDEN, TWO, TWO], config));

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("KimiVLForConditionalGeneration", "kimi_vl")],
    renames: &[
        Rename::Prefix("vision_tower.encoder.blocks.", "vision.layers."),
        Rename::Prefix("vision_tower.", "vision."),
        Rename::Prefix("multi_modal_projector.", "mm."),
    ],
    rules: &[
        &[
            model("vision.patch_embed.proj.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH]),
            model("vision.patch_embed.proj.bias", "v.patch_embd.bias", &[V_HIDDEN]),
            model("vision.patch_embed.pos_emb.weight", "v.position_embd.weight", &[CELLS, V_HIDDEN])
                .with(&[Change::Shaped(&[HEIGHT, WIDTH, V_HIDDEN], &[CELLS, V_HIDDEN])]),
            biased(vision("norm0.*", "ln1.*", &[V_HIDDEN])),
            biased(vision("norm1.*", "ln2.*", &[V_HIDDEN])),
            biased(vision("mlp.fc0.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
            biased(vision("mlp.fc1.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
            biased(vision("wo.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
            biased(model("vision.encoder.final_layernorm.*", "v.post_ln.*", &[V_HIDDEN])),
            biased(model("mm.pre_norm.*", "mm.input_norm.*", &[V_HIDDEN])),
            biased(model("mm.linear_1.*", "mm.1.*", &[FOUR, FOUR])),
            biased(model("mm.linear_2.*", "mm.2.*", &[TEXT, FOUR])),
        ],
        &split_qkv("wqkv.*"),
    ],
    keys: &[
        // The size of images varies; llama.cpp needs one.
        &vision_keys(VisionSizes::USUAL.with_image(|_| Ok(Some(64 * 14)))),
        &[
            projector(|_| Ok(Some("kimivl"))),
            is_true("use_gelu"),
            count_fn("vision.projector.scale_factor", |_| Ok(Some(2))),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-5)))),
        ],
    ],
    ..PROJECTOR
}];
