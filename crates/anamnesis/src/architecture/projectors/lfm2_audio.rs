//! LFM2-Audio: a conformer, and an adapter behind it.

use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const HIDDEN: Size = of("encoder.d_model", |config| config.divisor("encoder.d_model"));
const LAYERS: Size = of("encoder.n_layers", |config| config.divisor("encoder.n_layers"));
const MELS: Size = of("encoder.feat_in", |config| config.divisor("encoder.feat_in"));
const KERNEL: Size = of("encoder.conv_kernel_size", |config| config.divisor("encoder.conv_kernel_size"));
const SAMPLED: Size =
    of("encoder.subsampling_conv_channels", |config| config.divisor("encoder.subsampling_conv_channels"));
const INNER: Size = of("encoder.d_model, encoder.ff_expansion_factor", |config| {
    let factor = config.count(&["encoder.ff_expansion_factor"])?.unwrap_or(4);
    Ok((HIDDEN.of)(config)?.saturating_mul(factor))
});
const HEADS: Size =
    of("encoder.n_heads", |config| divides(config, config.divisor("encoder.n_heads")?, HIDDEN, "encoder.n_heads"));
const HEAD_SIZE: Size = of("encoder.d_model, encoder.n_heads", |config| Ok((HIDDEN.of)(config)? / (HEADS.of)(config)?));
const TWICE: Size = of("encoder.d_model", |config| product(&[HIDDEN, TWO], config));
/// The values of a frame after three convolutions, each of which halves it.
const FRAME: Size = of("encoder.feat_in, encoder.subsampling_conv_channels", |config| {
    Ok((MELS.of)(config)?.div_ceil(2).div_ceil(2).div_ceil(2).saturating_mul((SAMPLED.of)(config)?))
});
const THREE: Size = CHANNELS;
const FOUR: Size = of("", |_| Ok(4));

const CONFORMER: Stack = Stack { hf: "audio.layers.", gguf: "a.blk.", layers: Some(LAYERS) };

const fn audio(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(CONFORMER)
}

/// The bias of a convolution in two dimensions.
const fn convolution_bias(hf: &'static str, gguf: &'static str) -> Rule {
    model(hf, gguf, &[SAMPLED, ONE, ONE]).with(&[Change::Shaped(&[SAMPLED], &[SAMPLED, ONE, ONE])])
}

const SUBSAMPLING: &[Rule] = &[
    model("audio.pre_encode.conv.0.weight", "a.conv1d.0.weight", &[SAMPLED, ONE, THREE, THREE]),
    model("audio.pre_encode.conv.2.weight", "a.conv1d.2.weight", &[SAMPLED, ONE, THREE, THREE]),
    model("audio.pre_encode.conv.3.weight", "a.conv1d.3.weight", &[SAMPLED, SAMPLED, ONE, ONE]),
    model("audio.pre_encode.conv.5.weight", "a.conv1d.5.weight", &[SAMPLED, ONE, THREE, THREE]),
    model("audio.pre_encode.conv.6.weight", "a.conv1d.6.weight", &[SAMPLED, SAMPLED, ONE, ONE]),
    convolution_bias("audio.pre_encode.conv.0.bias", "a.conv1d.0.bias"),
    convolution_bias("audio.pre_encode.conv.2.bias", "a.conv1d.2.bias"),
    convolution_bias("audio.pre_encode.conv.3.bias", "a.conv1d.3.bias"),
    convolution_bias("audio.pre_encode.conv.5.bias", "a.conv1d.5.bias"),
    convolution_bias("audio.pre_encode.conv.6.bias", "a.conv1d.6.bias"),
    biased(model("audio.pre_encode.out.*", "a.pre_encode.out.*", &[HIDDEN, FRAME])),
];

const ENCODER: &[Rule] = &[
    audio("conv.batch_norm.{weight|running_var}", "conv_norm.weight", &[HIDDEN])
        .with(&[Change::Shaped(&[TWO, HIDDEN], &[TWO, HIDDEN]), Change::NormScale]),
    audio("conv.batch_norm.{weight|bias|running_mean|running_var}", "conv_norm.bias", &[HIDDEN])
        .with(&[Change::Shaped(&[FOUR, HIDDEN], &[FOUR, HIDDEN]), Change::NormShift]),
    // A counter of training.
    audio("conv.batch_norm.unused", "", &[]).left_out(),
    audio("conv.depthwise_conv.weight", "conv_dw.weight", &[HIDDEN, KERNEL]).with(&[Change::WithoutMiddle]),
    audio("conv.depthwise_conv.bias", "conv_dw.bias", &[HIDDEN]),
    audio("conv.pointwise_conv1.weight", "conv_pw1.weight", &[TWICE, HIDDEN]).with(&[Change::WithoutLast]),
    audio("conv.pointwise_conv1.bias", "conv_pw1.bias", &[TWICE]),
    audio("conv.pointwise_conv2.weight", "conv_pw2.weight", &[HIDDEN, HIDDEN]).with(&[Change::WithoutLast]),
    audio("conv.pointwise_conv2.bias", "conv_pw2.bias", &[HIDDEN]),
    biased(audio("feed_forward1.linear1.*", "ffn_up.*", &[INNER, HIDDEN])),
    biased(audio("feed_forward1.linear2.*", "ffn_down.*", &[HIDDEN, INNER])),
    biased(audio("feed_forward2.linear1.*", "ffn_up_1.*", &[INNER, HIDDEN])),
    biased(audio("feed_forward2.linear2.*", "ffn_down_1.*", &[HIDDEN, INNER])),
    biased(audio("norm_conv.*", "norm_conv.*", &[HIDDEN])),
    biased(audio("norm_feed_forward1.*", "ffn_norm.*", &[HIDDEN])),
    biased(audio("norm_feed_forward2.*", "ffn_norm_1.*", &[HIDDEN])),
    biased(audio("norm_self_att.*", "ln1.*", &[HIDDEN])),
    biased(audio("norm_out.*", "ln2.*", &[HIDDEN])),
    biased(audio("self_attn.linear_q.*", "attn_q.*", &[HIDDEN, HIDDEN])),
    biased(audio("self_attn.linear_k.*", "attn_k.*", &[HIDDEN, HIDDEN])),
    biased(audio("self_attn.linear_v.*", "attn_v.*", &[HIDDEN, HIDDEN])),
    biased(audio("self_attn.linear_out.*", "attn_out.*", &[HIDDEN, HIDDEN])),
    audio("self_attn.linear_pos.weight", "linear_pos.weight", &[HIDDEN, HIDDEN]),
    audio("self_attn.pos_bias_u", "pos_bias_u", &[HEADS, HEAD_SIZE]),
    audio("self_attn.pos_bias_v", "pos_bias_v", &[HEADS, HEAD_SIZE]),
];

/// The adapter, whose inner width no key gives, and the embedding of the tokens of audio.
const ADAPTER: &[Rule] = &[
    biased(model("mm.adapter.0.*", "mm.a.mlp.0.*", &[HIDDEN])),
    biased(model("mm.adapter.1.*", "mm.a.mlp.1.*", &[ANY, HIDDEN])),
    biased(model("mm.adapter.3.*", "mm.a.mlp.3.*", &[TEXT, ANY])),
    model("mm.embedding.embedding.weight", "a.position_embd.weight", &[ANY, TEXT]),
    model("mm.embedding.embedding_norm.weight", "a.position_embd_norm.weight", &[TEXT]),
    model("mm.embedding.to_logits.weight", "a.embd_to_logits.weight", &[ANY, TEXT]),
];

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Lfm2AudioForConditionalGeneration", "lfm2_audio")],
    renames: &[
        Rename::Prefix("conformer.", "audio."),
        Rename::Prefix("audio_adapter.model.", "mm.adapter."),
        Rename::Prefix("audio_embedding.", "mm.embedding."),
        Rename::Ending(".num_batches_tracked", ".unused"),
    ],
    rules: &[SUBSAMPLING, ENCODER, ADAPTER],
    keys: &[
        // The converter writes the hidden size as that of the feed-forward network.
        &audio_keys(AudioSizes { hidden: HIDDEN, ffn: HIDDEN, layers: LAYERS, heads: HEADS }),
        &[
            projector(|_| Ok(Some("lfm2a"))),
            sized("audio.num_mel_bins", MELS),
            real_fn("audio.attention.layer_norm_epsilon", |_| Ok(Some(1e-5))),
        ],
    ],
    types: TypeRules::PROJECTOR.and_f32(&["a.conv1d.", ".conv_dw.", ".conv_pw1.", ".conv_pw2."]),
    ..PROJECTOR
}];
