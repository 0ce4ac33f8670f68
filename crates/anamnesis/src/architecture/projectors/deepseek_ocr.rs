//! DeepSeek-OCR and Unlimited-OCR: SAM and CLIP one after another, joined in a projection.

use super::gemma3::scale_factor;
use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const FOUR: Size = of("", |_| Ok(4));
pub(super) const THREE: Size = CHANNELS;
/// The patches of CLIP and the class token.
const TOKENS: Size =
    of("vision_config.image_size, vision_config.patch_size", |config| Ok((POSITIONS.of)(config)?.saturating_add(1)));
const INNER: Size = of("vision_config.width", |config| product(&[V_HIDDEN, FOUR], config));
/// The converter writes four times the number of heads.
const WRITTEN: Size = of("vision_config.heads", |config| product(&[V_HEADS, FOUR], config));

const SAM_WIDTH: Size = of("vision_config.sam.width", |config| config.divisor("vision_config.sam.width"));
const SAM_HEADS: Size = of("vision_config.sam.heads", |config| config.divisor("vision_config.sam.heads"));
const SAM_LAYERS: Size = of("vision_config.sam.layers", |config| config.divisor("vision_config.sam.layers"));
const SAM_INNER: Size = of("vision_config.sam.width", |config| product(&[SAM_WIDTH, FOUR], config));
const SAM_QKV: Size = of("vision_config.sam.width", |config| product(&[SAM_WIDTH, THREE], config));
const SAM_HEAD: Size = of("vision_config.sam.width, vision_config.sam.heads", |config| {
    Ok((SAM_WIDTH.of)(config)? / (SAM_HEADS.of)(config)?)
});
const SAM_PATCH: Size = of("", |_| Ok(16));
/// The patches of SAM in each direction.
const SAM_SIDE: Size = of("vision_config.sam.image_size", |config| {
    Ok(config.divisor("vision_config.sam.image_size")? / (SAM_PATCH.of)(config)?)
});
/// The patches of a window in each direction.
const WINDOW: u64 = 14;
const GLOBAL: &str = "vision_config.sam.global_attn_indexes";
/// The distances of patches, in a window or in the image.
const DISTANCES: Size = layer_size(
    |config, layer| {
        let is_global = config.counts(GLOBAL)?.unwrap_or_default().contains(&layer);
        let side = if is_global { (SAM_SIDE.of)(config)? } else { WINDOW };
        Ok(side.saturating_mul(2).saturating_sub(1))
    },
    GLOBAL,
    "",
);
pub(super) const FIRST: Size = of(CHANNELS_KEY, |config| config.needed_item(CHANNELS_KEY, 0));
const SECOND: Size = of(CHANNELS_KEY, |config| config.needed_item(CHANNELS_KEY, 1));
const CHANNELS_KEY: &str = "vision_config.sam.downsample_channels";

/// Both towers side by side.
const JOINED: Size = of("vision_config.width, vision_config.sam.downsample_channels", |config| {
    Ok((V_HIDDEN.of)(config)?.saturating_add((SECOND.of)(config)?))
});

const SAM_BLOCKS: Stack = Stack { hf: "vision.sam.blocks.", gguf: "v.sam.blk.", layers: Some(SAM_LAYERS) };

const fn sam(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(SAM_BLOCKS)
}

/// SAM without its last convolution.
pub(super) const SAM: &[Rule] = &[
    model("vision.sam.patch_embed.proj.weight", "v.sam.patch_embd.weight", &[SAM_WIDTH, THREE, SAM_PATCH, SAM_PATCH]),
    model("vision.sam.patch_embed.proj.bias", "v.sam.patch_embd.bias", &[SAM_WIDTH]),
    model("vision.sam.pos_embed", "v.sam.pos_embd.weight", &[ONE, SAM_SIDE, SAM_SIDE, SAM_WIDTH]),
    biased(sam("norm1.*", "pre_ln.*", &[SAM_WIDTH])),
    biased(sam("norm2.*", "post_ln.*", &[SAM_WIDTH])),
    biased(sam("attn.qkv.*", "attn.qkv.*", &[SAM_QKV, SAM_WIDTH])),
    biased(sam("attn.proj.*", "attn.out.*", &[SAM_WIDTH, SAM_WIDTH])),
    sam("attn.rel_pos_h", "attn.pos_h.weight", &[DISTANCES, SAM_HEAD]),
    sam("attn.rel_pos_w", "attn.pos_w.weight", &[DISTANCES, SAM_HEAD]),
    biased(sam("mlp.lin1.*", "mlp.lin1.*", &[SAM_INNER, SAM_WIDTH])),
    biased(sam("mlp.lin2.*", "mlp.lin2.*", &[SAM_WIDTH, SAM_INNER])),
    // No key gives the width of the neck.
    model("vision.sam.neck.0.weight", "v.sam.neck.0.weight", &[ANY, SAM_WIDTH, ONE, ONE]),
    biased(model("vision.sam.neck.1.*", "v.sam.neck.1.*", &[ANY])),
    model("vision.sam.neck.2.weight", "v.sam.neck.2.weight", &[ANY, ANY, THREE, THREE]),
    biased(model("vision.sam.neck.3.*", "v.sam.neck.3.*", &[ANY])),
    model("vision.sam.net_2.weight", "v.sam.net_2.weight", &[FIRST, ANY, THREE, THREE]),
];

const CLIP: &[Rule] = &[
    model("vision.sam.net_3.weight", "v.sam.net_3.weight", &[SECOND, FIRST, THREE, THREE]),
    model("vision.embeddings.class_embedding", "v.class_embd", &[V_HIDDEN]),
    model("vision.embeddings.patch_embedding.weight", "v.patch_embd.weight", &[V_HIDDEN, THREE, PATCH, PATCH]),
    model("vision.embeddings.position_embedding.weight", "v.position_embd.weight", &[TOKENS, V_HIDDEN]),
    biased(model("vision.pre_layrnorm.*", "v.pre_ln.*", &[V_HIDDEN])),
    biased(vision("layer_norm1.*", "ln1.*", &[V_HIDDEN])),
    biased(vision("layer_norm2.*", "ln2.*", &[V_HIDDEN])),
    biased(vision("self_attn.qkv_proj.*", "attn_qkv.*", &[THREE_HIDDEN, V_HIDDEN])),
    biased(vision("self_attn.out_proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
    biased(vision("mlp.fc1.*", "ffn_up.*", &[INNER, V_HIDDEN])),
    biased(vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, INNER])),
    biased(model("mm.layers.*", "mm.model.fc.*", &[TEXT, JOINED])),
    model("mm.image_newline", "v.image_newline", &[TEXT]),
    SEPARATOR,
];
pub(super) const SEPARATOR: Rule =
    model("mm.view_seperator", "v.view_seperator", &[ONE, TEXT]).with(&[Change::Shaped(&[TEXT], &[ONE, TEXT])]);

const CLIP_KEYS: &[Key] = &[projector(|_| Ok(Some("deepseekocr")))];
/// The size of patches, which configurations of DeepSeek-OCR 2 leave out.
pub(super) const PATCH_SIZE: Size =
    of("vision_config.patch_size", |config| Ok(config.count(&["vision_config.patch_size"])?.unwrap_or(16)));
/// The keys behind the kind of projector, up to the number of tiles.
pub(super) const KEYS: &[Key] = &[
    epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
    is_true("use_gelu"),
    count_fn("vision.projector.scale_factor", |config| scale_factor(config, PATCH_SIZE)),
    count_fn("vision.window_size", |config| Ok(Some(config.count(&["vision_config.window_size"])?.unwrap_or(WINDOW)))),
    count_fn("vision.preproc_min_tiles", |_| Ok(Some(2))),
];
pub(super) const SAM_KEYS: &[Key] = &[
    sized("vision.sam.block_count", SAM_LAYERS),
    sized("vision.sam.embedding_length", SAM_WIDTH),
    sized("vision.sam.head_count", SAM_HEADS),
];

pub(super) const OCR: Architecture = Architecture {
    renames: &[
        Rename::Prefix("model.sam_model.", "vision.sam."),
        Rename::Prefix("model.vision_model.transformer.layers.", "vision.layers."),
        Rename::Prefix("model.vision_model.", "vision."),
        Rename::Prefix("model.projector.", "mm."),
        Rename::Prefix("model.image_newline", "mm.image_newline"),
        Rename::Prefix("model.view_seperator", "mm.view_seperator"),
    ],
    rules: &[SAM, CLIP],
    types: TypeRules::PROJECTOR.and_f32(&[
        "^v.patch_embd.",
        "v.position_embd.",
        "v.sam.pos_embd.",
        ".attn.pos_h.",
        ".attn.pos_w.",
        "v.sam.neck.",
        "v.sam.net_",
    ]),
    ..PROJECTOR
};

const SIZES: VisionSizes = VisionSizes { ffn: WRITTEN, ..VisionSizes::USUAL };

pub(super) const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &[class("DeepseekOCRForCausalLM", "deepseek_vl_v2")],
        keys: &[
            &vision_keys(SIZES),
            CLIP_KEYS,
            KEYS,
            &[count_fn("vision.preproc_max_tiles", |_| Ok(Some(9)))],
            SAM_KEYS,
        ],
        ..OCR
    },
    Architecture {
        classes: &[class("UnlimitedOCRForCausalLM", "deepseek_vl_v2")],
        keys: &[
            &vision_keys(SIZES),
            CLIP_KEYS,
            KEYS,
            &[count_fn("vision.preproc_max_tiles", |_| Ok(Some(32)))],
            SAM_KEYS,
        ],
        ..OCR
    },
];
