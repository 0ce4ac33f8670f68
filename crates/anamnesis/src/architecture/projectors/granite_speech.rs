//! Granite Speech: a conformer, and a Q-Former between it and the language model.

use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const HIDDEN: Size = of("encoder_config.hidden_dim", |config| config.divisor("encoder_config.hidden_dim"));
const INNER: Size = of("encoder_config.hidden_dim, encoder_config.feedforward_mult", |config| {
    Ok((HIDDEN.of)(config)?.saturating_mul(config.divisor("encoder_config.feedforward_mult")?))
});
const HEADS: Size = of("encoder_config.num_heads", |config| config.divisor("encoder_config.num_heads"));
const HEAD_ROWS: Size = of("encoder_config.num_heads, encoder_config.dim_head", |config| {
    Ok((HEADS.of)(config)?.saturating_mul((HEAD_SIZE.of)(config)?))
});
const HEAD_SIZE: Size = of("encoder_config.dim_head", |config| config.divisor("encoder_config.dim_head"));
const LAYERS: Size = of("encoder_config.num_layers", |config| config.divisor("encoder_config.num_layers"));
const INPUT: Size = of("encoder_config.input_dim", |config| config.divisor("encoder_config.input_dim"));
const OUTPUT: Size = of("encoder_config.output_dim", |config| config.divisor("encoder_config.output_dim"));
const KERNEL: Size = of("encoder_config.conv_kernel_size", |config| config.divisor("encoder_config.conv_kernel_size"));
const CHANNELS_OF_CONV: Size = of("encoder_config.hidden_dim, encoder_config.conv_expansion_factor", |config| {
    Ok((HIDDEN.of)(config)?.saturating_mul(config.divisor("encoder_config.conv_expansion_factor")?))
});
const TWICE: Size = of("encoder_config.hidden_dim, encoder_config.conv_expansion_factor", |config| {
    product(&[CHANNELS_OF_CONV, TWO], config)
});
const DISTANCES: Size = of("encoder_config.max_pos_emb", |config| {
    Ok(config.divisor("encoder_config.max_pos_emb")?.saturating_mul(2).saturating_add(1))
});
const FOUR: Size = of("", |_| Ok(4));

/// Keys and values are two halves of one tensor.
const KEYS: Parts = Parts { groups: ONE, parts: &[HEAD_ROWS, HEAD_ROWS], first: 0, count: 1 };
const VALUES: Parts = Parts { groups: ONE, parts: &[HEAD_ROWS, HEAD_ROWS], first: 1, count: 1 };

const CONFORMER: Stack = Stack { hf: "audio.layers.", gguf: "a.blk.", layers: Some(LAYERS) };

const fn audio(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(CONFORMER)
}

const ENCODER: &[Rule] = &[
    biased(model("audio.input_linear.*", "a.input_projection.*", &[HIDDEN, INPUT])),
    biased(model("audio.out.*", "a.enc_ctc_out.*", &[OUTPUT, HIDDEN])),
    biased(model("audio.out_mid.*", "a.enc_ctc_out_mid.*", &[HIDDEN, OUTPUT])),
    biased(audio("attn.pre_norm.*", "ln1.*", &[HIDDEN])),
    audio("attn.rel_pos_emb.weight", "attn_rel_pos_emb", &[DISTANCES, HEAD_SIZE]),
    audio("attn.to_kv.weight", "attn_k.weight", &[HEAD_ROWS, HIDDEN]).with(&[Change::Parts(&KEYS)]),
    audio("attn.to_kv.weight", "attn_v.weight", &[HEAD_ROWS, HIDDEN]).with(&[Change::Parts(&VALUES)]),
    biased(audio("attn.to_out.*", "attn_out.*", &[HIDDEN, HEAD_ROWS])),
    audio("attn.to_q.weight", "attn_q.weight", &[HEAD_ROWS, HIDDEN]),
    audio("conv.batch_norm.{weight|running_var}", "conv_norm_var.weight", &[CHANNELS_OF_CONV])
        .with(&[Change::Shaped(&[TWO, CHANNELS_OF_CONV], &[TWO, CHANNELS_OF_CONV]), Change::NormScale]),
    audio("conv.batch_norm.{weight|bias|running_mean|running_var}", "conv_norm_var.bias", &[CHANNELS_OF_CONV])
        .with(&[Change::Shaped(&[FOUR, CHANNELS_OF_CONV], &[FOUR, CHANNELS_OF_CONV]), Change::NormShift]),
    audio("conv.depth_conv.conv.weight", "conv_dw.weight", &[CHANNELS_OF_CONV, KERNEL]).with(&[Change::WithoutMiddle]),
    audio("conv.down_conv.weight", "conv_pw2.weight", &[HIDDEN, CHANNELS_OF_CONV]).with(&[Change::WithoutLast]),
    audio("conv.down_conv.bias", "conv_pw2.bias", &[HIDDEN]),
    audio("conv.up_conv.weight", "conv_pw1.weight", &[TWICE, HIDDEN]).with(&[Change::WithoutLast]),
    audio("conv.up_conv.bias", "conv_pw1.bias", &[TWICE]),
    biased(audio("conv.norm.*", "norm_conv.*", &[HIDDEN])),
    biased(audio("ff1.down_proj.*", "ffn_down.*", &[HIDDEN, INNER])),
    biased(audio("ff1.pre_norm.*", "ffn_norm.*", &[HIDDEN])),
    biased(audio("ff1.up_proj.*", "ffn_up.*", &[INNER, HIDDEN])),
    biased(audio("ff2.down_proj.*", "ffn_down_1.*", &[HIDDEN, INNER])),
    biased(audio("ff2.pre_norm.*", "ffn_norm_1.*", &[HIDDEN])),
    biased(audio("ff2.up_proj.*", "ffn_up_1.*", &[INNER, HIDDEN])),
    biased(audio("post_norm.*", "ln2.*", &[HIDDEN])),
];

const fn of_projector(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const P_HIDDEN: Size =
    of_projector("projector_config.hidden_size", |config| config.divisor("projector_config.hidden_size"));
const P_INNER: Size =
    of_projector("projector_config.intermediate_size", |config| config.divisor("projector_config.intermediate_size"));
const P_INPUT: Size = of_projector("projector_config.encoder_hidden_size", |config| {
    config.divisor("projector_config.encoder_hidden_size")
});
const P_LAYERS: Size =
    of_projector("projector_config.num_hidden_layers", |config| config.divisor("projector_config.num_hidden_layers"));
const P_HEADS: Size = of_projector("projector_config.num_attention_heads", |config| {
    config.divisor("projector_config.num_attention_heads")
});
const WINDOW: Size = of("window_size", |config| config.divisor("window_size"));
const RATE: Size = of("downsample_rate", |config| config.divisor("downsample_rate"));
const QUERIES: Size = of("window_size, downsample_rate", |config| Ok((WINDOW.of)(config)? / (RATE.of)(config)?));

const QFORMER: Stack = Stack { hf: "mm.qformer.encoder.layer.", gguf: "a.proj_blk.", layers: Some(P_LAYERS) };

const fn qformer(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(QFORMER).biased(Need::Always)
}

const PROJECTION: &[Rule] = &[
    model("mm.query", "a.proj_query", &[ONE, QUERIES, P_HIDDEN]),
    biased(model("mm.linear.*", "a.proj_linear.*", &[TEXT, P_HIDDEN])),
    biased(model("mm.qformer.layernorm.*", "a.proj_norm.*", &[P_HIDDEN])),
    qformer("attention.attention.key.*", "self_attn_k.*", &[P_HIDDEN, P_HIDDEN]),
    qformer("attention.attention.query.*", "self_attn_q.*", &[P_HIDDEN, P_HIDDEN]),
    qformer("attention.attention.value.*", "self_attn_v.*", &[P_HIDDEN, P_HIDDEN]),
    qformer("attention.output.LayerNorm.*", "self_attn_norm.*", &[P_HIDDEN]),
    qformer("attention.output.dense.*", "self_attn_out.*", &[P_HIDDEN, P_HIDDEN]),
    qformer("crossattention.attention.key.*", "cross_attn_k.*", &[P_HIDDEN, P_INPUT]),
    qformer("crossattention.attention.query.*", "cross_attn_q.*", &[P_HIDDEN, P_HIDDEN]),
    qformer("crossattention.attention.value.*", "cross_attn_v.*", &[P_HIDDEN, P_INPUT]),
    qformer("crossattention.output.LayerNorm.*", "cross_attn_norm.*", &[P_HIDDEN]),
    qformer("crossattention.output.dense.*", "cross_attn_out.*", &[P_HIDDEN, P_HIDDEN]),
    qformer("intermediate_query.dense.*", "ffn_up.*", &[P_INNER, P_HIDDEN]),
    qformer("output_query.LayerNorm.*", "ffn_norm.*", &[P_HIDDEN]),
    qformer("output_query.dense.*", "ffn_down.*", &[P_HIDDEN, P_INNER]),
];

const SIZES: AudioSizes = AudioSizes { hidden: HIDDEN, ffn: INNER, layers: LAYERS, heads: HEADS };

const OWN_KEYS: &[Key] = &[
    projector(|_| Ok(Some("granite_speech"))),
    sized("audio.num_mel_bins", INPUT),
    real_fn("audio.attention.layer_norm_epsilon", |_| Ok(Some(1e-5))),
    count_fn("audio.chunk_size", |config| config.divisor("encoder_config.context_size").map(Some)),
    sized("audio.conv_kernel_size", KERNEL),
    count_fn("audio.max_pos_emb", |config| config.divisor("encoder_config.max_pos_emb").map(Some)),
    sized("audio.projector.window_size", WINDOW),
    sized("audio.projector.downsample_rate", RATE),
    sized("audio.projector.head_count", P_HEADS),
];

const GRANITE_SPEECH: Architecture = Architecture {
    classes: &[class("GraniteSpeechForConditionalGeneration", "granite_speech")],
    renames: &[
        Rename::Prefix("encoder.", "audio."),
        Rename::Prefix("projector.", "mm."),
        Rename::Prefix("model.encoder.", "audio."),
        Rename::Prefix("model.projector.", "mm."),
        // A counter of training, and a table that follows from the sizes.
        Rename::Ending(".num_batches_tracked", ".unused"),
    ],
    rules: &[
        ENCODER,
        PROJECTION,
        &[
            audio("conv.batch_norm.unused", "", &[]).left_out(),
            audio("attn.attention_dists", "", &[]).left_out(),
            model("audio.attention_dists", "", &[]).left_out(),
        ],
    ],
    keys: &[&audio_keys(SIZES), OWN_KEYS],
    types: TypeRules::PROJECTOR.and_f32(&[".conv_dw.", ".conv_pw1.", ".conv_pw2."]),
    ..PROJECTOR
};

pub(super) const ARCHITECTURES: &[Architecture] = &[
    GRANITE_SPEECH,
    Architecture {
        classes: &[class("GraniteSpeechPlusForConditionalGeneration", "granite_speech_plus")],
        keys: &[&audio_keys(SIZES), OWN_KEYS, &[ints_fn("audio.feature_layer", feature_layers)]],
        ..GRANITE_SPEECH
    },
];

/// The layers whose outputs the projector gets besides that of the last.
fn feature_layers(config: &Config) -> Result<Option<Vec<i32>>> {
    let key = "encoder_config.cat_hidden_layers";
    let Some(layers) = config.counts(key)?.filter(|layers| !layers.is_empty()) else { return Ok(None) };
    let (count, input) = (layers.len() as u64 + 1, (P_INPUT.of)(config)?);
    if (HIDDEN.of)(config)?.checked_mul(count) != Some(input) {
        let why = format!("config.json: {} is {input}, {count} times hidden_dim is needed", quoted(P_INPUT.hf));
        return Err(AnamnesisError::parse(why));
    }
    Ok(Some(layers.iter().map(|layer| i32::try_from(*layer).unwrap_or(i32::MAX)).collect()))
}
