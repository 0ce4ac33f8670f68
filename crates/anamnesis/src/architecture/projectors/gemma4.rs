//! Gemma 4: a vision tower with gated layers and, in some models, a conformer for audio.

use super::prelude::*;

/// The queries, keys and values of all heads.
const Q_ROWS: Size =
    size(|config| product(&[V_HEADS, HEAD], config), "vision_config.num_attention_heads, vision_config.head_dim", "");
const KV_ROWS: Size = size(
    |config| {
        let heads = config.count(&["vision_config.num_key_value_heads"])?.map_or_else(|| (V_HEADS.of)(config), Ok)?;
        Ok(heads.saturating_mul((HEAD.of)(config)?))
    },
    "vision_config.num_key_value_heads, vision_config.head_dim",
    "",
);
const TABLE: Size = size(
    |config| first(config, &["vision_config.position_embedding_size"]),
    "vision_config.position_embedding_size",
    "",
);

/// A tensor of a layer that may have bounds of its inputs and outputs.
const fn clipped(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    vision(hf, gguf, shape).with(&[Change::AsList])
}

const TOWER: &[Rule] = &[
    model("vision.patch_embedder.input_proj.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
        .with(&[Change::ChannelsFirst(PATCH)]),
    model("vision.patch_embedder.position_embedding_table", "v.position_embd.weight", &[TWO, TABLE, V_HIDDEN]),
    model("vision.std_bias", "v.std_bias", &[V_HIDDEN]).when(OF_STANDARD),
    model("vision.std_scale", "v.std_scale", &[V_HIDDEN]).when(OF_STANDARD),
    vision("input_layernorm.weight", "ln1.weight", &[V_HIDDEN]),
    vision("post_attention_layernorm.weight", "attn_post_norm.weight", &[V_HIDDEN]),
    vision("pre_feedforward_layernorm.weight", "ln2.weight", &[V_HIDDEN]),
    vision("post_feedforward_layernorm.weight", "ffn_post_norm.weight", &[V_HIDDEN]),
    vision("self_attn.q_norm.weight", "attn_q_norm.weight", &[HEAD]),
    vision("self_attn.k_norm.weight", "attn_k_norm.weight", &[HEAD]),
    clipped("self_attn.q_proj.#", "attn_q.#", &[Q_ROWS, V_HIDDEN]),
    clipped("self_attn.k_proj.#", "attn_k.#", &[KV_ROWS, V_HIDDEN]),
    clipped("self_attn.v_proj.#", "attn_v.#", &[KV_ROWS, V_HIDDEN]),
    clipped("self_attn.o_proj.#", "attn_out.#", &[V_HIDDEN, Q_ROWS]),
    clipped("mlp.gate_proj.#", "ffn_gate.#", &[V_FFN, V_HIDDEN]),
    clipped("mlp.up_proj.#", "ffn_up.#", &[V_FFN, V_HIDDEN]),
    clipped("mlp.down_proj.#", "ffn_down.#", &[V_HIDDEN, V_FFN]),
    vision("layer_scalar", "out_scale.weight", &[ONE]).with(&[Change::AsList]).when(OPTIONAL),
    model("mm.vision.embedding_projection.weight", "mm.input_projection.weight", &[TEXT, V_HIDDEN]),
];

const OF_STANDARD: Need = Need::Flag("vision_config.standardize");

const AUDIO: Stack = Stack { hf: "audio.layers.", gguf: "a.blk.", layers: Some(A_LAYERS) };

const fn audio(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(AUDIO).with(&[Change::AsList])
}

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const A_HEAD: Size = of("audio_config.hidden_size, audio_config.num_attention_heads", |config| {
    Ok((A_HIDDEN.of)(config)? / (A_HEADS.of)(config)?)
});
const FOUR: Size = of("audio_config.hidden_size", |config| product(&[A_HIDDEN, TWO, TWO], config));
const DOUBLE: Size = of("audio_config.hidden_size", |config| product(&[A_HIDDEN, TWO], config));
const KERNEL: Size = of("audio_config.conv_kernel_size", |config| config.divisor("audio_config.conv_kernel_size"));
const OUT: Size = of("audio_config.output_proj_dims", |config| config.divisor("audio_config.output_proj_dims"));
const FIRST: Size = of("audio_config.subsampling_conv_channels", |config| channels(config, 0));
const SECOND: Size = of("audio_config.subsampling_conv_channels", |config| channels(config, 1));
/// The values of a frame after both convolutions.
const SAMPLED: Size = of("audio_config.subsampling_conv_channels", |config| {
    Ok((channels(config, 0)? / 4).saturating_mul(channels(config, 1)?))
});
const THREE: Size = CHANNELS;

fn channels(config: &Config, place: u64) -> Result<u64> {
    let key = "audio_config.subsampling_conv_channels";
    let missing = || AnamnesisError::parse(format!("config.json: {} has no item {place}", quoted(key)));
    config.count_of_layer(key, place)?.ok_or_else(missing)
}

const CONFORMER: &[Rule] = &[
    audio("feed_forward1.ffw_layer_1.#", "ffn_up.#", &[FOUR, A_HIDDEN]),
    audio("feed_forward1.ffw_layer_2.#", "ffn_down.#", &[A_HIDDEN, FOUR]),
    audio("feed_forward1.pre_layer_norm.weight", "ffn_norm.weight", &[A_HIDDEN]),
    audio("feed_forward1.post_layer_norm.weight", "ffn_post_norm.weight", &[A_HIDDEN]),
    audio("feed_forward2.ffw_layer_1.#", "ffn_up_1.#", &[FOUR, A_HIDDEN]),
    audio("feed_forward2.ffw_layer_2.#", "ffn_down_1.#", &[A_HIDDEN, FOUR]),
    audio("feed_forward2.pre_layer_norm.weight", "ffn_norm_1.weight", &[A_HIDDEN]),
    audio("feed_forward2.post_layer_norm.weight", "ffn_post_norm_1.weight", &[A_HIDDEN]),
    audio("lconv1d.conv_norm.weight", "norm_conv.weight", &[A_HIDDEN]),
    audio("lconv1d.depthwise_conv1d.weight", "conv_dw.weight", &[A_HIDDEN, KERNEL]).with(&[Change::WithoutMiddle]),
    audio("lconv1d.linear_end.#", "conv_pw2.#", &[A_HIDDEN, A_HIDDEN]),
    audio("lconv1d.linear_start.#", "conv_pw1.#", &[DOUBLE, A_HIDDEN]),
    audio("lconv1d.pre_layer_norm.weight", "conv_norm.weight", &[A_HIDDEN]),
    audio("norm_out.weight", "ln2.weight", &[A_HIDDEN]),
    audio("norm_post_attn.weight", "attn_post_norm.weight", &[A_HIDDEN]),
    audio("norm_pre_attn.weight", "attn_pre_norm.weight", &[A_HIDDEN]),
    audio("self_attn.q_proj.#", "attn_q.#", &[A_HIDDEN, A_HIDDEN]),
    audio("self_attn.k_proj.#", "attn_k.#", &[A_HIDDEN, A_HIDDEN]),
    audio("self_attn.v_proj.#", "attn_v.#", &[A_HIDDEN, A_HIDDEN]),
    audio("self_attn.post.#", "attn_out.#", &[A_HIDDEN, A_HIDDEN]),
    audio("self_attn.relative_k_proj.weight", "attn_k_rel.weight", &[A_HIDDEN, A_HIDDEN]),
    audio("self_attn.per_dim_scale", "per_dim_scale.weight", &[A_HEAD]).with(&[Change::Softplus]),
    biased(model("audio.output_proj.*", "a.pre_encode.out.*", &[OUT, A_HIDDEN])),
    model(
        "audio.subsample_conv_projection.input_proj_linear.weight",
        "a.input_projection.weight",
        &[A_HIDDEN, SAMPLED],
    ),
    model("audio.subsample_conv_projection.layer0.conv.weight", "a.conv1d.0.weight", &[FIRST, ONE, THREE, THREE]),
    model("audio.subsample_conv_projection.layer0.norm.weight", "a.conv1d.0.norm.weight", &[FIRST]),
    model("audio.subsample_conv_projection.layer1.conv.weight", "a.conv1d.1.weight", &[SECOND, FIRST, THREE, THREE]),
    model("audio.subsample_conv_projection.layer1.norm.weight", "a.conv1d.1.norm.weight", &[SECOND]),
    model("mm.audio.embedding_projection.weight", "mm.a.input_projection.weight", &[TEXT, OUT]),
];

const RENAMES: &[Rename] = &[
    Rename::Prefix("model.vision_tower.encoder.layers.", "vision.layers."),
    Rename::Prefix("model.vision_tower.", "vision."),
    Rename::Prefix("model.audio_tower.", "audio."),
    Rename::Prefix("model.embed_vision.", "mm.vision."),
    Rename::Prefix("model.embed_audio.", "mm.audio."),
    Rename::Anywhere(".linear.", "."),
];

const VISION_KEYS: &[Key] = &[
    text_fn("vision.projector_type", |_| Ok(Some("gemma4v"))),
    epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
];

const AUDIO_KEYS: &[Key] = &[
    text_fn("audio.projector_type", |_| Ok(Some("gemma4a"))),
    count_fn("audio.num_mel_bins", |config| Ok(Some(config.count(&["audio_config.input_feat_size"])?.unwrap_or(128)))),
    real_fn("audio.attention.layer_norm_epsilon", |config| {
        Ok(Some(config.real(&["audio_config.layer_norm_eps"])?.unwrap_or(1e-6)))
    }),
];

/// llama.cpp does not use the size of images.
const SIZES: VisionSizes = VisionSizes::USUAL.with_image(|_| Ok(Some(224)));

const GEMMA4: Architecture = Architecture {
    classes: &[class("Gemma4ForConditionalGeneration", "gemma4")],
    renames: RENAMES,
    types: TypeRules::PROJECTOR.and_f32(&["position_embd.", "a.conv1d.", ".conv_dw.", "^a.input_projection."]),
    ..PROJECTOR
};

pub(super) const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        applies: has_audio,
        rules: &[TOWER, CONFORMER],
        keys: &[
            &vision_keys(SIZES),
            &audio_keys(AudioSizes { ffn: FOUR, ..AudioSizes::USUAL }),
            VISION_KEYS,
            AUDIO_KEYS,
        ],
        ..GEMMA4
    },
    Architecture { rules: &[TOWER], keys: &[&vision_keys(SIZES), VISION_KEYS], ..GEMMA4 },
];

fn has_audio(raw: &serde_json::Map<String, serde_json::Value>) -> bool {
    raw.get("audio_config").and_then(serde_json::Value::as_object).is_some_and(|audio| !audio.is_empty())
}
