//! Gemma 3n: MobileNetV5 for images, a conformer for audio, and the embeddings of both.

use super::mobilenet::{STAGES, STEM_AND_FUSION};
use super::prelude::*;
use crate::architecture::value::unexpected;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const V_TOKENS: Size = of("vision_config.vocab_size", |config| config.divisor("vision_config.vocab_size"));
const A_TOKENS: Size = of("audio_config.vocab_size", |config| config.divisor("audio_config.vocab_size"));
const LAYERS: Size =
    of("audio_config.conf_num_hidden_layers", |config| config.divisor("audio_config.conf_num_hidden_layers"));
const HEADS: Size = of(HEADS_KEY, |config| divides(config, config.divisor(HEADS_KEY)?, A_HIDDEN, HEADS_KEY));
const HEADS_KEY: &str = "audio_config.conf_num_attention_heads";
const HEAD_SIZE: Size = of("audio_config.hidden_size, audio_config.conf_num_attention_heads", |config| {
    Ok((A_HIDDEN.of)(config)? / (HEADS.of)(config)?)
});
const KERNEL: Size =
    of("audio_config.conf_conv_kernel_size", |config| config.divisor("audio_config.conf_conv_kernel_size"));
const TWICE: Size = of("audio_config.hidden_size", |config| product(&[A_HIDDEN, TWO], config));
const INNER: Size = of("audio_config.hidden_size", |config| product(&[A_HIDDEN, TWO, TWO], config));
const MELS: Size = of("audio_config.input_feat_size", |config| config.divisor("audio_config.input_feat_size"));

const CHANNELS_KEY: &str = "audio_config.sscp_conv_channel_size";
const FIRST: Size = of(CHANNELS_KEY, |config| config.needed_item(CHANNELS_KEY, 0));
const SECOND: Size = of(CHANNELS_KEY, |config| config.needed_item(CHANNELS_KEY, 1));
const KERNELS_KEY: &str = "audio_config.sscp_conv_kernel_size";
const HEIGHTS: [Size; 2] = [
    of(KERNELS_KEY, |config| pair(config, KERNELS_KEY, 0, 0)),
    of(KERNELS_KEY, |config| pair(config, KERNELS_KEY, 1, 0)),
];
const WIDTHS: [Size; 2] = [
    of(KERNELS_KEY, |config| pair(config, KERNELS_KEY, 0, 1)),
    of(KERNELS_KEY, |config| pair(config, KERNELS_KEY, 1, 1)),
];
const STRIDES_KEY: &str = "audio_config.sscp_conv_stride_size";
/// The values of a frame after both convolutions, which pad the frequencies by one on each side.
const SAMPLED: Size = of(
    "audio_config.input_feat_size, audio_config.sscp_conv_channel_size, audio_config.sscp_conv_kernel_size, \
     audio_config.sscp_conv_stride_size",
    |config| {
        let mut frequencies = (MELS.of)(config)?;
        for (place, width) in WIDTHS.iter().enumerate() {
            let (width, stride) = ((width.of)(config)?, pair(config, STRIDES_KEY, place, 1)?);
            frequencies = frequencies.saturating_add(2).saturating_sub(width) / stride + 1;
        }
        Ok(frequencies.saturating_mul((SECOND.of)(config)?))
    },
);

/// A height or a width, which must not be zero: of the first or the second of two convolutions.
fn pair(config: &Config, key: &str, place: usize, side: usize) -> Result<u64> {
    let own = config.get(key);
    let item = own.and_then(|pairs| pairs.get(place)?.get(side)?.as_u64()).filter(|size| *size > 0);
    item.ok_or_else(|| unexpected(key, &own.cloned().unwrap_or_default(), "two pairs of sizes"))
}

const CONFORMER: Stack = Stack { hf: "audio.layers.", gguf: "a.blk.", layers: Some(LAYERS) };

const fn audio(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(CONFORMER)
}

const AUDIO: &[Rule] = &[
    model(
        "audio.subsample_conv_projection.conv_0.conv.weight",
        "a.conv1d.0.weight",
        &[FIRST, ONE, HEIGHTS[0], WIDTHS[0]],
    ),
    // The converter lost this name with Gemma 4; it is that of gguf 0.18.
    model("audio.subsample_conv_projection.conv_0.norm.weight", "a.conv1d.0.norm.weight", &[FIRST]),
    model(
        "audio.subsample_conv_projection.conv_1.conv.weight",
        "a.conv1d.1.weight",
        &[SECOND, FIRST, HEIGHTS[1], WIDTHS[1]],
    ),
    model("audio.subsample_conv_projection.conv_1.norm.weight", "a.conv1d.1.norm.weight", &[SECOND]),
    model("audio.subsample_conv_projection.input_proj_linear.weight", "a.pre_encode.out.weight", &[A_HIDDEN, SAMPLED]),
    audio("ffw_layer_start.pre_layer_norm.weight", "ffn_norm.weight", &[A_HIDDEN]),
    audio("ffw_layer_start.ffw_layer_1.weight", "ffn_up.weight", &[INNER, A_HIDDEN]),
    audio("ffw_layer_start.ffw_layer_2.weight", "ffn_down.weight", &[A_HIDDEN, INNER]),
    audio("ffw_layer_start.post_layer_norm.weight", "ffn_post_norm.weight", &[A_HIDDEN]),
    audio("ffw_layer_end.pre_layer_norm.weight", "ffn_norm_1.weight", &[A_HIDDEN]),
    audio("ffw_layer_end.ffw_layer_1.weight", "ffn_up_1.weight", &[INNER, A_HIDDEN]),
    audio("ffw_layer_end.ffw_layer_2.weight", "ffn_down_1.weight", &[A_HIDDEN, INNER]),
    audio("ffw_layer_end.post_layer_norm.weight", "ffn_post_norm_1.weight", &[A_HIDDEN]),
    audio("attention.pre_attn_norm.weight", "ln1.weight", &[A_HIDDEN]),
    audio("attention.attn.per_dim_scale", "per_dim_scale", &[HEAD_SIZE]),
    audio("attention.attn.relative_position_embedding.pos_proj.weight", "linear_pos.weight", &[A_HIDDEN, A_HIDDEN]),
    audio("attention.attn.q_proj.weight", "attn_q.weight", &[A_HIDDEN, A_HIDDEN]),
    audio("attention.attn.k_proj.weight", "attn_k.weight", &[A_HIDDEN, A_HIDDEN]),
    audio("attention.attn.v_proj.weight", "attn_v.weight", &[A_HIDDEN, A_HIDDEN]),
    audio("attention.post.weight", "attn_out.weight", &[A_HIDDEN, A_HIDDEN]),
    audio("attention.post_norm.weight", "ln2.weight", &[A_HIDDEN]),
    audio("lconv1d.pre_layer_norm.weight", "conv_norm.weight", &[A_HIDDEN]),
    audio("lconv1d.linear_start.weight", "conv_pw1.weight", &[TWICE, A_HIDDEN]),
    audio("lconv1d.depthwise_conv1d.weight", "conv_dw.weight", &[A_HIDDEN, ONE, KERNEL]),
    audio("lconv1d.conv_norm.weight", "norm_conv.weight", &[A_HIDDEN]),
    audio("lconv1d.linear_end.weight", "conv_pw2.weight", &[A_HIDDEN, A_HIDDEN]),
    audio("norm.weight", "layer_pre_norm.weight", &[A_HIDDEN]),
];

const EMBEDDINGS: &[Rule] = &[
    model("mm.vision.embedding.weight", "mm.embedding.weight", &[V_TOKENS, V_HIDDEN]),
    model("mm.vision.hard_embedding_norm.weight", "mm.hard_emb_norm.weight", &[V_HIDDEN]),
    model("mm.vision.soft_embedding_norm.weight", "mm.soft_emb_norm.weight", &[V_HIDDEN]),
    model("mm.vision.embedding_projection.weight", "mm.input_projection.weight", &[TEXT, V_HIDDEN]),
    model("mm.audio.embedding.weight", "mm.a.embedding.weight", &[A_TOKENS, A_HIDDEN]),
    model("mm.audio.hard_embedding_norm.weight", "mm.a.hard_emb_norm.weight", &[A_HIDDEN]),
    model("mm.audio.soft_embedding_norm.weight", "mm.a.soft_emb_norm.weight", &[A_HIDDEN]),
    model("mm.audio.embedding_projection.weight", "mm.a.input_projection.weight", &[TEXT, A_HIDDEN]),
];

const IMAGE_SIZE: &str = "preprocessor_config.size.height";
const IMAGE_TOKENS: &str = "preprocessor_config.image_seq_length";

/// The size of an image, 768 without a description of preprocessing.
fn image_size(config: &Config) -> Result<u64> {
    match config.get("preprocessor_config.size") {
        None => Ok(768),
        Some(_) => config.divisor(IMAGE_SIZE),
    }
}

/// The quotient of two sizes that llama.cpp does not use.
const PATCHES: Size = of("preprocessor_config.size, preprocessor_config.image_seq_length", |config| {
    let tokens = config.get(IMAGE_TOKENS).map_or(Ok(256), |_| config.divisor(IMAGE_TOKENS))?;
    Ok(image_size(config)? / tokens)
});
/// The converter writes sizes of layers that this tower does not have.
const V_INNER: Size = of("vision_config.intermediate_size", |config| {
    Ok(config.count(&["vision_config.intermediate_size"])?.unwrap_or(2048).saturating_mul(4))
});
const V_HEADS_OR_EIGHT: Size = of("vision_config.num_attention_heads", |config| {
    Ok(config.count(&["vision_config.num_attention_heads"])?.unwrap_or(8))
});
const V_BLOCKS: Size = of("", |_| Ok(128));
const A_INNER: Size = of("audio_config.intermediate_size", |config| {
    Ok(config.count(&["audio_config.intermediate_size"])?.unwrap_or(6144))
});

const SIZES: VisionSizes = VisionSizes {
    image: ValueSource::CountFn(|config| image_size(config).map(Some)),
    patch: PATCHES,
    hidden: V_HIDDEN,
    ffn: V_INNER,
    layers: V_BLOCKS,
    heads: V_HEADS_OR_EIGHT,
    colours: [ValueSource::RealsFn(|_| Ok(Some(vec![0.0; 3]))), ValueSource::RealsFn(|_| Ok(Some(vec![1.0; 3])))],
};

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Gemma3nForConditionalGeneration", "gemma3n")],
    renames: &[
        Rename::Prefix("model.vision_tower.timm_model.", "vision."),
        Rename::Prefix("model.vision_tower.", "vision.tower."),
        Rename::Prefix("model.audio_tower.conformer.", "audio.layers."),
        Rename::Prefix("model.audio_tower.", "audio."),
        Rename::Prefix("model.embed_vision.", "mm.vision."),
        Rename::Prefix("model.embed_audio.", "mm.audio."),
    ],
    rules: &[STEM_AND_FUSION, STAGES[0], STAGES[1], STAGES[2], STAGES[3], AUDIO, EMBEDDINGS],
    keys: &[
        &vision_keys(SIZES),
        &audio_keys(AudioSizes { hidden: A_HIDDEN, ffn: A_INNER, layers: LAYERS, heads: HEADS }),
        &[
            text_fn("vision.projector_type", |_| Ok(Some("gemma3nv"))),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
            text_fn("audio.projector_type", |_| Ok(Some("gemma3na"))),
            sized("audio.num_mel_bins", MELS),
            real_fn("audio.attention.layer_norm_epsilon", |_| Ok(Some(1e-5))),
        ],
    ],
    types: TypeRules::PROJECTOR.and_f32(&["v.conv_stem.", "a.conv1d.", ".conv_dw."]).and_f16(&["a.pre_encode.out."]),
    ..PROJECTOR
}];
