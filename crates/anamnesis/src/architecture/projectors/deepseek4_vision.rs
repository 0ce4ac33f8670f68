//! DeepSeek V4 Flash Vision: a tower with 2D RoPE whose patches are merged 3 by 3, described by keys of the language model's.

use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const LAYERS: Size = of("vision_n_layers", |config| config.divisor("vision_n_layers"));
const HIDDEN: Size = of("vision_dim", |config| config.divisor("vision_dim"));
const FFN: Size = of("vision_inter_dim", |config| config.divisor("vision_inter_dim"));
const SIDE: Size = of("vision_patch_size", |config| config.divisor("vision_patch_size"));
const RATIO: Size = of("vision_downsample_ratio", |config| config.divisor("vision_downsample_ratio"));
const HEADS: Size =
    of("vision_n_heads", |config| divides(config, config.divisor("vision_n_heads")?, HIDDEN, "vision_n_heads"));
const QUERIES_KEYS_VALUES: Size = of("vision_dim", |config| product(&[CHANNELS, HIDDEN], config));
const PIXELS: Size = of("vision_patch_size", |config| product(&[CHANNELS, SIDE, SIDE], config));
const MERGED_PATCHES: Size =
    of("vision_dim, vision_downsample_ratio", |config| product(&[HIDDEN, RATIO, RATIO], config));

/// `gate_proj` and `up_proj` are two halves of one tensor.
const GATE: Parts = Parts { groups: ONE, parts: &[FFN, FFN], first: 0, count: 1 };
const UP: Parts = Parts { groups: ONE, parts: &[FFN, FFN], first: 1, count: 1 };

const BLOCKS: Stack = Stack { hf: "vision.layers.", gguf: "v.blk.", layers: Some(LAYERS) };

const fn block(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(BLOCKS).biased(OPTIONAL)
}

const SIZES: VisionSizes = VisionSizes {
    image: ValueSource::CountFn(warmup_size),
    patch: SIDE,
    hidden: HIDDEN,
    ffn: FFN,
    layers: LAYERS,
    heads: HEADS,
    colours: [
        ValueSource::RealsFn(|config| colours(config, "image_mean", Some([0.5; 3]))),
        ValueSource::RealsFn(|config| colours(config, "image_std", Some([0.5; 3]))),
    ],
};

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("DeepseekV4ForCausalLM", "deepseek_v4")],
    renames: &[
        Rename::Prefix("vision.blocks.", "vision.layers."),
        Rename::Prefix("vision.", "vision."),
        Rename::Prefix("aligner.", "mm."),
        Rename::Prefix("image_", "mm.image_"),
    ],
    rules: &[&[
        model("vision.patch_embed.proj.weight", "v.patch_embd.weight", &[HIDDEN, CHANNELS, SIDE, SIDE])
            .with(&[Change::Shaped(&[HIDDEN, PIXELS], &[HIDDEN, CHANNELS, SIDE, SIDE])]),
        model("vision.patch_embed.proj.bias", "v.patch_embd.bias", &[HIDDEN]).when(OPTIONAL),
        model("vision.norm.weight", "v.post_ln.weight", &[HIDDEN]),
        block("norm1.*", "ln1.*", &[HIDDEN]),
        block("norm2.*", "ln2.*", &[HIDDEN]),
        block("attn.wqkv.*", "attn_qkv.*", &[QUERIES_KEYS_VALUES, HIDDEN]),
        block("attn.wo.*", "attn_out.*", &[HIDDEN, HIDDEN]),
        block("mlp.w1.*", "ffn_gate.*", &[FFN, HIDDEN]).with(&[Change::Parts(&GATE)]),
        block("mlp.w1.*", "ffn_up.*", &[FFN, HIDDEN]).with(&[Change::Parts(&UP)]),
        block("mlp.w2.*", "ffn_down.*", &[HIDDEN, FFN]),
        // No key gives the inner width of the aligner.
        biased(model("mm.w1.*", "mm.1.*", &[ANY, MERGED_PATCHES])),
        biased(model("mm.w2.*", "mm.2.*", &[TEXT, ANY])),
        model("mm.image_start", "v.token_embd.img_start", &[TEXT]),
        model("mm.image_end", "v.token_embd.img_end", &[TEXT]),
        model("mm.image_newline", "v.image_newline", &[TEXT]),
        model("mm.image_pad", "v.token_embd.img_pad", &[TEXT]),
    ]],
    keys: &[
        &vision_keys(SIZES),
        &[
            projector(|_| Ok(Some("deepseek4v"))),
            epsilon(|_| Ok(Some(1e-6))),
            is_true("use_silu"),
            sized("vision.projector.scale_factor", RATIO),
            count_fn("vision.image_min_pixels", least_pixels),
        ],
    ],
    ..PROJECTOR
}];

/// The size of images that llama.cpp starts with: 16 by 16 merged patches.
fn warmup_size(config: &Config) -> Result<Option<u64>> {
    Ok(Some(product(&[SIDE, RATIO], config)?.saturating_mul(16)))
}

/// `vision_min_pixels`, in models with the numbers that llama.cpp has built in.
fn least_pixels(config: &Config) -> Result<Option<u64>> {
    let theta = config.real(&["vision_rope_theta"])?.unwrap_or(ROPE_THETA);
    for (key, own, known) in [
        ("vision_rope_theta", theta, ROPE_THETA),
        ("vision_max_n_token", config.needed_real("vision_max_n_token")?, 384.0),
        ("vision_max_wh_ratio", config.needed_real("vision_max_wh_ratio")?, 8.0),
    ] {
        if own != known {
            let why = format!("config.json: {} is {own}, llama.cpp supports {known} only", quoted(key));
            return Err(AnamnesisError::parse(why));
        }
    }
    config.divisor("vision_min_pixels").map(Some)
}

const ROPE_THETA: f64 = 10_000.0;
