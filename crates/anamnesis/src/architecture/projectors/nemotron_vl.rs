//! Nemotron Nano VL and Omni: RADIO's ViT-H for images, and in some models a conformer (Parakeet) for sound.

use super::internvl::inverse;
use super::prelude::*;
use crate::architecture::value::unexpected;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
/// The sizes of ViT-H, which no key gives.
const HIDDEN: Size = of("vision_config", |_| Ok(1280));
const INNER: Size = of("vision_config", |_| Ok(5120));
const LAYERS: Size = of("vision_config", |_| Ok(32));
const HEADS: Size = of("vision_config", |_| Ok(16));
const QUERIES_KEYS_VALUES: Size = of("vision_config", |_| Ok(3 * 1280));
const SIDE: Size = of("vision_config.patch_size", |config| config.divisor("vision_config.patch_size"));
const PIXELS: Size = of("vision_config.patch_size", |config| product(&[CHANNELS, SIDE, SIDE], config));

const IMAGE_KEY: &str = "force_image_size";

fn image_size(config: &Config) -> Result<u64> {
    config.get(IMAGE_KEY).map_or(Ok(512), |_| config.divisor(IMAGE_KEY))
}

/// The patches of an image in each direction.
const ACROSS: Size =
    of("force_image_size, vision_config.patch_size", |config| Ok(image_size(config)? / (SIDE.of)(config)?));
const PLACES: Size = of("force_image_size, vision_config.patch_size", |config| product(&[ACROSS, ACROSS], config));
const RATIO_KEY: &str = "downsample_ratio";
/// The patches that are merged in each direction.
const FACTOR: Size = of(RATIO_KEY, |config| config.get(RATIO_KEY).map_or(Ok(2), |_| inverse(config, RATIO_KEY)));
const SHUFFLED: Size = of(RATIO_KEY, |config| product(&[HIDDEN, FACTOR, FACTOR], config));
const P_INNER: Size = of("projector_hidden_size", |config| {
    config.count(&["projector_hidden_size"])?.map_or_else(|| (ANY.of)(config), Ok)
});

const BLOCKS: Stack = Stack { hf: "vision.layers.", gguf: "v.blk.", layers: Some(LAYERS) };

const fn block(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(BLOCKS).biased(Need::Always)
}

const TOWER: &[Rule] = &[
    model("vision.patch_generator.cls_token.token", "v.class_embd", &[ANY, HIDDEN]),
    model("vision.patch_generator.embedder.weight", "v.patch_embd.weight", &[HIDDEN, CHANNELS, SIDE, SIDE])
        .with(&[Change::Shaped(&[HIDDEN, PIXELS], &[HIDDEN, CHANNELS, SIDE, SIDE])]),
    model("vision.patch_generator.pos_embed", "v.position_embd.weight", &[ONE, PLACES, HIDDEN])
        .with(&[Change::Resampled(ACROSS)]),
    block("norm1.*", "ln1.*", &[HIDDEN]),
    block("norm2.*", "ln2.*", &[HIDDEN]),
    block("attn.qkv.*", "attn_qkv.*", &[QUERIES_KEYS_VALUES, HIDDEN]),
    block("attn.proj.*", "attn_out.*", &[HIDDEN, HIDDEN]),
    block("mlp.fc1.*", "ffn_up.*", &[INNER, HIDDEN]),
    block("mlp.fc2.*", "ffn_down.*", &[HIDDEN, INNER]),
    model("mm.mlp1.0.weight", "mm.model.mlp.0.weight", &[SHUFFLED]),
    model("mm.mlp1.1.weight", "mm.model.mlp.1.weight", &[P_INNER, SHUFFLED]),
    model("mm.mlp1.3.weight", "mm.model.mlp.3.weight", &[TEXT, P_INNER]),
];

const WIDTH: Size = of("sound_config.hidden_size", |config| config.divisor("sound_config.hidden_size"));
const TWICE: Size = of("sound_config.hidden_size", |config| product(&[WIDTH, TWO], config));
const S_INNER: Size = of("sound_config.intermediate_size", |config| config.divisor("sound_config.intermediate_size"));
/// The converter knows the names of as many layers as ViT-H has.
const S_LAYERS: Size = of(S_LAYERS_KEY, |config| match config.divisor(S_LAYERS_KEY)? {
    layers @ ..=32 => Ok(layers),
    layers => Err(unexpected(S_LAYERS_KEY, &layers.into(), "at most 32")),
});
const S_LAYERS_KEY: &str = "sound_config.num_hidden_layers";
const S_HEADS: Size = of(S_HEADS_KEY, |config| divides(config, config.divisor(S_HEADS_KEY)?, WIDTH, S_HEADS_KEY));
const S_HEADS_KEY: &str = "sound_config.num_attention_heads";
const S_HEAD: Size = of("sound_config.hidden_size, sound_config.num_attention_heads", |config| {
    Ok((WIDTH.of)(config)? / (S_HEADS.of)(config)?)
});
const MELS: Size = of("sound_config.num_mel_bins", |config| config.divisor("sound_config.num_mel_bins"));
const KERNEL: Size = of("sound_config.conv_kernel_size", |config| config.divisor("sound_config.conv_kernel_size"));
const SAMPLED: Size =
    of("sound_config.subsampling_conv_channels", |config| config.divisor("sound_config.subsampling_conv_channels"));
const SAMPLING: Size = of(SAMPLING_KEY, |config| match config.divisor(SAMPLING_KEY)? {
    8 => Ok(8),
    other => Err(unexpected(SAMPLING_KEY, &other.into(), "8")),
});
const SAMPLING_KEY: &str = "sound_config.subsampling_factor";
/// The values of a frame after three convolutions, each of which halves it.
const FRAME: Size = of("sound_config.num_mel_bins, sound_config.subsampling_conv_channels", |config| {
    Ok(((MELS.of)(config)? / (SAMPLING.of)(config)?).saturating_mul((SAMPLED.of)(config)?))
});
const S_PROJECTION: Size = of("sound_config.projection_hidden_size", |config| {
    config.count(&["sound_config.projection_hidden_size"])?.map_or_else(|| (ANY.of)(config), Ok)
});
const THREE: Size = CHANNELS;

const CONFORMER: Stack = Stack { hf: "audio.layers.", gguf: "a.blk.", layers: Some(S_LAYERS) };

const fn audio(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(CONFORMER)
}

/// The bias of a convolution of frames.
const fn sampling_bias(hf: &'static str, gguf: &'static str) -> Rule {
    model(hf, gguf, &[ONE, SAMPLED, ONE, ONE]).with(&[Change::Shaped(&[SAMPLED], &[ONE, SAMPLED, ONE, ONE])])
}

const SAMPLING_LAYERS: &[Rule] = &[
    model("audio.subsampling.layers.0.weight", "a.conv1d.0.weight", &[SAMPLED, ONE, THREE, THREE]),
    model("audio.subsampling.layers.2.weight", "a.conv1d.2.weight", &[SAMPLED, ONE, THREE, THREE]),
    model("audio.subsampling.layers.3.weight", "a.conv1d.3.weight", &[SAMPLED, SAMPLED, ONE, ONE]),
    model("audio.subsampling.layers.5.weight", "a.conv1d.5.weight", &[SAMPLED, ONE, THREE, THREE]),
    model("audio.subsampling.layers.6.weight", "a.conv1d.6.weight", &[SAMPLED, SAMPLED, ONE, ONE]),
    sampling_bias("audio.subsampling.layers.0.bias", "a.conv1d.0.bias"),
    sampling_bias("audio.subsampling.layers.2.bias", "a.conv1d.2.bias"),
    sampling_bias("audio.subsampling.layers.3.bias", "a.conv1d.3.bias"),
    sampling_bias("audio.subsampling.layers.5.bias", "a.conv1d.5.bias"),
    sampling_bias("audio.subsampling.layers.6.bias", "a.conv1d.6.bias"),
    biased(model("audio.subsampling.linear.*", "a.pre_encode.out.*", &[WIDTH, FRAME])),
    model("audio.feature_extractor.featurizer.fb", "a.mel_filters", &[ONE, MELS, ANY]).when(OPTIONAL),
    model("audio.feature_extractor.featurizer.window", "a.window", &[ANY]).when(OPTIONAL),
    model("mm.sound.norm.weight", "mm.a.norm_pre.weight", &[WIDTH]),
    model("mm.sound.linear1.weight", "mm.a.mlp.1.weight", &[S_PROJECTION, WIDTH]),
    model("mm.sound.linear2.weight", "mm.a.mlp.2.weight", &[TEXT, S_PROJECTION]),
];

const LAYERS_OF_SOUND: &[Rule] = &[
    audio("conv.norm.weight", "conv_norm.weight", &[WIDTH]),
    audio("conv.norm.bias", "conv_norm.bias", &[WIDTH]),
    audio("conv.norm.running_mean", "conv_norm_mean", &[WIDTH]),
    audio("conv.norm.running_var", "conv_norm_var", &[WIDTH]),
    // A counter of training.
    audio("conv.norm.unused", "", &[]).left_out(),
    audio("conv.depthwise_conv.weight", "conv_dw.weight", &[ONE, ONE, WIDTH, KERNEL])
        .with(&[Change::Shaped(&[WIDTH, ONE, KERNEL], &[ONE, ONE, WIDTH, KERNEL])]),
    audio("conv.depthwise_conv.bias", "conv_dw.bias", &[WIDTH]).when(OPTIONAL),
    audio("conv.pointwise_conv1.weight", "conv_pw1.weight", &[TWICE, WIDTH]).with(&[Change::WithoutLast]),
    audio("conv.pointwise_conv1.bias", "conv_pw1.bias", &[ONE, TWICE, ONE, ONE])
        .with(&[Change::Shaped(&[TWICE], &[ONE, TWICE, ONE, ONE])])
        .when(OPTIONAL),
    audio("conv.pointwise_conv2.weight", "conv_pw2.weight", &[WIDTH, WIDTH]).with(&[Change::WithoutLast]),
    audio("conv.pointwise_conv2.bias", "conv_pw2.bias", &[ONE, WIDTH, ONE, ONE])
        .with(&[Change::Shaped(&[WIDTH], &[ONE, WIDTH, ONE, ONE])])
        .when(OPTIONAL),
    audio("feed_forward1.linear1.*", "ffn_up.*", &[S_INNER, WIDTH]).biased(OPTIONAL),
    audio("feed_forward1.linear2.*", "ffn_down.*", &[WIDTH, S_INNER]).biased(OPTIONAL),
    audio("feed_forward2.linear1.*", "ffn_up_1.*", &[S_INNER, WIDTH]).biased(OPTIONAL),
    audio("feed_forward2.linear2.*", "ffn_down_1.*", &[WIDTH, S_INNER]).biased(OPTIONAL),
    biased(audio("norm_conv.*", "norm_conv.*", &[WIDTH])),
    biased(audio("norm_feed_forward1.*", "ffn_norm.*", &[WIDTH])),
    biased(audio("norm_feed_forward2.*", "ffn_norm_1.*", &[WIDTH])),
    biased(audio("norm_self_att.*", "ln1.*", &[WIDTH])),
    biased(audio("norm_out.*", "ln2.*", &[WIDTH])),
    audio("self_attn.q_proj.*", "attn_q.*", &[WIDTH, WIDTH]).biased(OPTIONAL),
    audio("self_attn.k_proj.*", "attn_k.*", &[WIDTH, WIDTH]).biased(OPTIONAL),
    audio("self_attn.v_proj.*", "attn_v.*", &[WIDTH, WIDTH]).biased(OPTIONAL),
    audio("self_attn.o_proj.*", "attn_out.*", &[WIDTH, WIDTH]).biased(OPTIONAL),
    audio("self_attn.relative_k_proj.weight", "linear_pos.weight", &[WIDTH, WIDTH]),
    audio("self_attn.bias_u", "pos_bias_u", &[S_HEADS, S_HEAD]),
    audio("self_attn.bias_v", "pos_bias_v", &[S_HEADS, S_HEAD]),
];

const SIZES: VisionSizes = VisionSizes {
    image: ValueSource::CountFn(|config| image_size(config).map(Some)),
    patch: SIDE,
    hidden: HIDDEN,
    ffn: INNER,
    layers: LAYERS,
    heads: HEADS,
    colours: [
        ValueSource::RealsFn(|config| colours(config, "image_mean", Some([0.485, 0.456, 0.406]))),
        ValueSource::RealsFn(|config| colours(config, "image_std", Some([0.229, 0.224, 0.225]))),
    ],
};
const SOUND_SIZES: AudioSizes = AudioSizes { hidden: WIDTH, ffn: S_INNER, layers: S_LAYERS, heads: S_HEADS };

const OWN_KEYS: &[Key] =
    &[epsilon(|_| Ok(Some(1e-6))), is_true("use_gelu"), sized("vision.projector.scale_factor", FACTOR)];

const NEMOTRON: Architecture = Architecture {
    classes: &[class("NemotronH_Nano_VL_V2", "NemotronH_Nano_VL_V2"), class("RADIOModel", "radio")],
    renames: &[
        Rename::Prefix("vision_model.radio_model.model.blocks.", "vision.layers."),
        Rename::Prefix("vision_model.radio_model.model.", "vision."),
        Rename::Prefix("vision_model.", "vision.other."),
        Rename::Prefix("mlp1.", "mm.mlp1."),
        Rename::Prefix("sound_encoder.encoder.layers.", "audio.layers."),
        Rename::Prefix("sound_encoder.encoder.", "audio."),
        Rename::Prefix("sound_encoder.", "audio.other."),
        Rename::Prefix("sound_projection.", "mm.sound."),
        Rename::Ending(".num_batches_tracked", ".unused"),
    ],
    // The colours of images are subtracted before the tower. llama.cpp has no videos.
    dropped: &[
        "vision.other.radio_model.input_conditioner.",
        "vision.other.radio_model.summary_idxs",
        "vision.patch_generator.video_embedder.",
    ],
    types: TypeRules::PROJECTOR.and_f32(&["a.conv1d.", ".conv_dw.", ".conv_pw1.", ".conv_pw2."]),
    ..PROJECTOR
};

pub(super) const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        applies: |raw| raw.get("sound_config").is_some_and(|sound| !sound.is_null()),
        rules: &[TOWER, SAMPLING_LAYERS, LAYERS_OF_SOUND],
        keys: &[
            &[
                sized("audio.num_mel_bins", MELS),
                real_fn("audio.attention.layer_norm_epsilon", |_| Ok(Some(1e-5))),
                sized("audio.subsampling_factor", SAMPLING),
                sized("audio.conv_kernel_size", KERNEL),
                text_fn("audio.projector_type", |_| Ok(Some("parakeet"))),
                text_fn("vision.projector_type", |_| Ok(Some("nemotron_v2_vl"))),
            ],
            &vision_keys(SIZES),
            &audio_keys(SOUND_SIZES),
            OWN_KEYS,
        ],
        ..NEMOTRON
    },
    Architecture {
        rules: &[TOWER],
        keys: &[&[projector(|_| Ok(Some("nemotron_v2_vl")))], &vision_keys(SIZES), OWN_KEYS],
        ..NEMOTRON
    },
];
