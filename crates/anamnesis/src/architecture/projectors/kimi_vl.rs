//! Kimi-VL, Kimi K2.5 and GLM 5V: MoonViT with a table of positions for rows and columns.

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

/// The tensors that all have.
const MOONVIT: &[Rule] = &[
    model("vision.patch_embed.proj.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH]),
    model("vision.patch_embed.proj.bias", "v.patch_embd.bias", &[V_HIDDEN]),
    biased(vision("norm0.*", "ln1.*", &[V_HIDDEN])),
    biased(vision("norm1.*", "ln2.*", &[V_HIDDEN])),
    biased(vision("mlp.fc0.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
    biased(vision("mlp.fc1.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
    biased(vision("wo.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
    biased(model("vision.encoder.final_layernorm.*", "v.post_ln.*", &[V_HIDDEN])),
    biased(model("mm.pre_norm.*", "mm.input_norm.*", &[V_HIDDEN])),
];

const KIMI_VL: Architecture = Architecture {
    classes: &[class("KimiVLForConditionalGeneration", "kimi_vl")],
    renames: &[
        Rename::Prefix("vision_tower.encoder.blocks.", "vision.layers."),
        Rename::Prefix("vision_tower.", "vision."),
        Rename::Prefix("multi_modal_projector.", "mm."),
    ],
    rules: &[
        MOONVIT,
        &[
            model("vision.patch_embed.pos_emb.weight", "v.position_embd.weight", &[CELLS, V_HIDDEN])
                .with(&[Change::Shaped(&[HEIGHT, WIDTH, V_HIDDEN], &[CELLS, V_HIDDEN])]),
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
};

/// The patches that Kimi K2.5 merges.
const MERGED_PATCHES: Size = of("vision_config.merge_kernel_size, vision_config.hidden_size", |config| {
    Ok((V_HIDDEN.of)(config)?.saturating_mul(kernel(config, 0)?).saturating_mul(kernel(config, 1)?))
});

/// 2 by default, in each direction.
fn kernel(config: &Config, place: u64) -> Result<u64> {
    Ok(config.count_of_layer("vision_config.merge_kernel_size", place)?.unwrap_or(2))
}

const KIMI_K25: Architecture = Architecture {
    classes: &[class("KimiK25ForConditionalGeneration", "kimi_k25"), class("Glm5vForConditionalGeneration", "glm5v")],
    renames: &[
        Rename::Prefix("vision_tower.encoder.blocks.", "vision.layers."),
        Rename::Prefix("vision_tower.", "vision."),
        Rename::Prefix("mm_projector.proj.0.", "mm.linear_1."),
        Rename::Prefix("mm_projector.proj.2.", "mm.linear_2."),
        Rename::Prefix("mm_projector.", "mm."),
    ],
    rules: &[
        MOONVIT,
        &[
            model("vision.patch_embed.pos_emb.weight", "v.position_embd.weight", &[HEIGHT, WIDTH, V_HIDDEN]),
            biased(vision("wqkv.*", "attn_qkv.*", &[THREE_HIDDEN, V_HIDDEN])).with(&[Change::HalvedPairs(V_HEADS)]),
            biased(model("mm.linear_1.*", "mm.1.*", &[MERGED_PATCHES, MERGED_PATCHES])),
            biased(model("mm.linear_2.*", "mm.2.*", &[TEXT, MERGED_PATCHES])),
        ],
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL.with_image(|config| Ok(Some(product(&[HEIGHT, PATCH], config)?)))),
        &[
            projector(|_| Ok(Some("kimik25"))),
            sized("vision.pos_emb_height", HEIGHT),
            sized("vision.pos_emb_width", WIDTH),
            count_fn("vision.pos_emb_time", |config| {
                Ok(Some(config.count(&["vision_config.init_pos_emb_time"])?.unwrap_or(4)))
            }),
            flag_fn("use_gelu", |config| {
                Ok(Some(config.text("vision_config.projector_hidden_act")?.is_none_or(|name| name == "gelu")))
            }),
            epsilon(|config| Ok(Some(config.real(&["vision_config.projector_ln_eps"])?.unwrap_or(1e-5)))),
            count_fn("vision.projector.scale_factor", |config| kernel(config, 0).map(Some)),
            count_fn("vision.image_min_pixels", |config| pixels(config, 8)),
            count_fn("vision.image_max_pixels", |config| {
                pixels(config, config.count(&["preprocessor_config.in_patch_limit"])?.unwrap_or(16384))
            }),
        ],
    ],
    ..PROJECTOR
};

/// The pixels of a number of patches.
fn pixels(config: &Config, patches: u64) -> Result<Option<u64>> {
    Ok(Some(product(&[PATCH, PATCH], config)?.saturating_mul(patches)))
}

pub(super) const ARCHITECTURES: &[Architecture] = &[KIMI_VL, KIMI_K25];
