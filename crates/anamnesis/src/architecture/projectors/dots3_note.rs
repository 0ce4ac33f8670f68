//! dots3-note: the vision tower of dots.ocr with experts in some layers, and an encoder of audio.

use super::prelude::*;
use crate::architecture::value::unexpected;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
/// `hidden_size` is the width behind the adapter.
const HIDDEN: Size = of("vision_config.embed_dim", |config| config.divisor("vision_config.embed_dim"));
const HEADS_KEY: &str = "vision_config.num_attention_heads";
const HEADS: Size = of(HEADS_KEY, |config| divides(config, config.divisor(HEADS_KEY)?, HIDDEN, HEADS_KEY));
const HEAD_SIZE: Size = of("vision_config.embed_dim, vision_config.num_attention_heads", |config| {
    Ok((HIDDEN.of)(config)? / (HEADS.of)(config)?)
});
const QUERIES_KEYS_VALUES: Size = of("vision_config.embed_dim", |config| product(&[HIDDEN, CHANNELS], config));
const MERGE: Size = of("vision_config.spatial_merge_size", |config| config.divisor("vision_config.spatial_merge_size"));
const MERGED_PATCHES: Size =
    of("vision_config.embed_dim, vision_config.spatial_merge_size", |config| product(&[HIDDEN, MERGE, MERGE], config));
const PYRAMID: &str = "vision_config.pyramid_num_routed";
const EXPERTS: Size = layer_size(experts, PYRAMID, "");
const DENSE: Need = Need::When(PYRAMID, |config, layer| Ok(needed_if(experts(config, layer)? == 0)));
const SPARSE: Need = Need::When(PYRAMID, |config, layer| Ok(needed_if(experts(config, layer)? > 0)));

const VISION_TOWER: &[Rule] = &[
    model("vision.patch_embed.proj.weight", "v.patch_embd.weight", &[HIDDEN, CHANNELS, PATCH, PATCH]),
    model("vision.patch_embed.proj.bias", "v.patch_embd.bias", &[HIDDEN]).when(OPTIONAL),
    model("vision.patch_embed.norm.weight", "v.pre_ln.weight", &[HIDDEN]),
    vision("attn.qkv.weight", "attn_qkv.weight", &[QUERIES_KEYS_VALUES, HIDDEN]),
    vision("attn.proj.weight", "attn_out.weight", &[HIDDEN, HIDDEN]),
    vision("attn.q_norm.weight", "attn_q_norm.weight", &[HEAD_SIZE]),
    vision("attn.k_norm.weight", "attn_k_norm.weight", &[HEAD_SIZE]),
    vision("norm_1.weight", "ln1.weight", &[HIDDEN]),
    vision("norm_2.weight", "ln2.weight", &[HIDDEN]),
    // x = fc2(silu(fc1(x)) * fc3(x))
    vision("mlp.fc1.weight", "ffn_gate.weight", &[V_FFN, HIDDEN]).when(DENSE),
    vision("mlp.fc2.weight", "ffn_down.weight", &[HIDDEN, V_FFN]).when(DENSE),
    vision("mlp.fc3.weight", "ffn_up.weight", &[V_FFN, HIDDEN]).when(DENSE),
    // No key gives the inner width of the experts.
    vision("mlp.experts.{X}.fc1.weight", "ffn_gate_exps.weight", &[EXPERTS, ANY, HIDDEN]).when(SPARSE),
    vision("mlp.experts.{X}.fc2.weight", "ffn_down_exps.weight", &[EXPERTS, HIDDEN, ANY]).when(SPARSE),
    vision("mlp.experts.{X}.fc3.weight", "ffn_up_exps.weight", &[EXPERTS, ANY, HIDDEN]).when(SPARSE),
    vision("mlp.gate_weight", "ffn_gate_inp.weight", &[EXPERTS, HIDDEN]).when(SPARSE),
    vision("mlp.router_bias", "exp_probs_b.weight", &[EXPERTS]).when(SPARSE),
    model("vision.post_trunk_norm.weight", "mm.post_norm.weight", &[HIDDEN]),
    biased(model("vision.adapter.ln_q.*", "mm.input_norm.*", &[HIDDEN])),
    biased(model("vision.adapter.mlp.0.*", "mm.0.*", &[MERGED_PATCHES, MERGED_PATCHES])),
    biased(model("vision.adapter.mlp.2.*", "mm.2.*", &[TEXT, MERGED_PATCHES])),
];

const A_WIDTH: Size =
    of("audio_config.whisper_config.d_model", |config| config.divisor("audio_config.whisper_config.d_model"));
const A_INNER: Size = of("audio_config.whisper_config.encoder_ffn_dim", |config| {
    config.divisor("audio_config.whisper_config.encoder_ffn_dim")
});
const A_HEADS_KEY: &str = "audio_config.whisper_config.encoder_attention_heads";
const A_ALL_HEADS: Size = of(A_HEADS_KEY, |config| divides(config, config.divisor(A_HEADS_KEY)?, A_WIDTH, A_HEADS_KEY));
const A_COUNT: Size = of("audio_config.whisper_config.encoder_layers", |config| {
    config.divisor("audio_config.whisper_config.encoder_layers")
});
const MELS: Size =
    of("audio_config.whisper_config.num_mel_bins", |config| config.divisor("audio_config.whisper_config.num_mel_bins"));
const THREE: Size = CHANNELS;

/// Gate and up projection are two halves of one tensor.
const GATE: Parts = Parts { groups: ONE, parts: &[A_INNER, A_INNER], first: 0, count: 1 };
const UP: Parts = Parts { groups: ONE, parts: &[A_INNER, A_INNER], first: 1, count: 1 };

const SPEECH: Stack = Stack { hf: "audio.speech_encoder.layers.", gguf: "a.blk.", layers: Some(A_COUNT) };

const fn audio(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(SPEECH).biased(OPTIONAL)
}

/// The encoder of audio; no key gives the width of its convolutions and of its adapter.
const AUDIO_TOWER: &[Rule] = &[
    model("audio.speech_encoder.conv2d1.weight", "a.conv2d.1.weight", &[ANY, ONE, THREE, THREE]),
    model("audio.speech_encoder.conv2d1.bias", "a.conv2d.1.bias", &[ANY]),
    model("audio.speech_encoder.conv2d2.weight", "a.conv2d.2.weight", &[ANY, ANY, THREE, THREE]),
    model("audio.speech_encoder.conv2d2.bias", "a.conv2d.2.bias", &[ANY]),
    model("audio.speech_encoder.conv2d3.weight", "a.conv2d.3.weight", &[ANY, ANY, THREE, THREE]),
    model("audio.speech_encoder.conv2d3.bias", "a.conv2d.3.bias", &[ANY]),
    model("audio.speech_encoder.conv_out.weight", "a.conv_out.weight", &[A_WIDTH, ANY]),
    model("audio.speech_encoder.layer_norm.weight", "a.post_ln.weight", &[A_WIDTH]),
    audio("self_attn_layer_norm.weight", "ln1.weight", &[A_WIDTH]),
    audio("final_layer_norm.weight", "ln2.weight", &[A_WIDTH]),
    audio("self_attn.q_proj.*", "attn_q.*", &[A_WIDTH, A_WIDTH]),
    audio("self_attn.k_proj.*", "attn_k.*", &[A_WIDTH, A_WIDTH]),
    audio("self_attn.v_proj.*", "attn_v.*", &[A_WIDTH, A_WIDTH]),
    audio("self_attn.out_proj.*", "attn_out.*", &[A_WIDTH, A_WIDTH]),
    audio("fc1.*", "ffn_gate.*", &[A_INNER, A_WIDTH]).with(&[Change::Parts(&GATE)]),
    audio("fc1.*", "ffn_up.*", &[A_INNER, A_WIDTH]).with(&[Change::Parts(&UP)]),
    audio("fc2.*", "ffn_down.*", &[A_WIDTH, A_INNER]),
    biased(model("mm.proj.0.*", "mm.a.norm_pre.*", &[A_WIDTH])),
    biased(model("mm.proj.1.*", "mm.a.mlp.1.*", &[ANY, A_WIDTH])),
    biased(model("mm.proj.3.*", "mm.a.mlp.3.*", &[TEXT, ANY])),
];

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Dots3NoteForConditionalGeneration", "dots3_note"), class("Dots3NoteForCausalLM", "dots3_note")],
    renames: &[
        Rename::Prefix("vision_encoder.blocks.", "vision.layers."),
        Rename::Prefix("vision_encoder.", "vision."),
        Rename::Prefix("audio_encoder.dots_encoder.", "audio."),
        Rename::Prefix("audio_encoder.audio_adapter.", "mm."),
        Rename::Prefix("audio_encoder.", "audio."),
    ],
    rules: &[VISION_TOWER, AUDIO_TOWER],
    keys: &[
        // 0: the size of images varies.
        &vision_keys(VisionSizes { hidden: HIDDEN, heads: HEADS, ..VisionSizes::USUAL }.with_image(known_variant)),
        &audio_keys(AudioSizes { hidden: A_WIDTH, ffn: A_INNER, layers: A_COUNT, heads: A_ALL_HEADS }),
        &[
            text_fn("vision.projector_type", |_| Ok(Some("dots3note_v"))),
            is_true("use_silu"),
            epsilon(|config| config.needed_real("vision_config.rms_norm_eps").map(Some)),
            sized("vision.spatial_merge_size", MERGE),
            count_fn("vision.image_min_pixels", |config| pixels(config, "min_pixels")),
            count_fn("vision.image_max_pixels", |config| pixels(config, "max_pixels")),
            ints_fn("vision.expert_count_per_layer", |config| {
                let counts = pyramid(config)?.into_iter();
                Ok(Some(counts.map(|count| i32::try_from(count).unwrap_or(i32::MAX)).collect()))
            }),
            count_fn("vision.expert_used_count", |config| {
                let key = "vision_config.capacity_factor";
                let factor = config.needed_real(key)?;
                match factor >= 1.0 && factor <= f64::from(u16::MAX) {
                    true => Ok(Some(factor as u64)),
                    false => Err(unexpected(key, &factor.into(), "a number of at least 1")),
                }
            }),
            text_fn("audio.projector_type", |_| Ok(Some("dots3note_a"))),
            sized("audio.num_mel_bins", MELS),
            real_fn("audio.attention.layer_norm_epsilon", |_| Ok(Some(1e-6))),
        ],
    ],
    types: TypeRules::PROJECTOR.and_f32(&[".ffn_gate_inp.", ".exp_probs_b.", ".conv2d", "a.conv_out"]),
    ..PROJECTOR
}];

/// The number of routed experts of each layer; a negative one stands for none.
fn pyramid(config: &Config) -> Result<Vec<u64>> {
    let layers = (V_LAYERS.of)(config)?;
    let values = config.reals(PYRAMID)?.ok_or_else(|| unexpected(PYRAMID, &().into(), "a list of counts"))?;
    if values.len() as u64 != layers {
        let why = format!("config.json: {} has {} items, there are {layers} layers", quoted(PYRAMID), values.len());
        return Err(AnamnesisError::parse(why));
    }
    let count = |value: f64| match value.fract() == 0.0 && value <= f64::from(u16::MAX) {
        true => Ok(value.max(0.0) as u64),
        false => Err(unexpected(PYRAMID, &value.into(), "a count")),
    };
    values.into_iter().map(count).collect()
}

fn experts(config: &Config, layer: u64) -> Result<u64> {
    Ok(pyramid(config)?.get(layer as usize).copied().unwrap_or(0))
}

/// A limit of preprocessing, which is described in an object for images.
fn pixels(config: &Config, name: &str) -> Result<Option<u64>> {
    let (inner, outer) = (format!("preprocessor_config.vision_config.{name}"), format!("preprocessor_config.{name}"));
    first(config, &[&inner, &outer]).map(Some)
}

/// The size of images, 0, for models of the variant that llama.cpp knows.
fn known_variant(config: &Config) -> Result<Option<u64>> {
    let refused = |key: &str, wanted: &str| Err(unexpected(key, config.get(key).unwrap_or(&().into()), wanted));
    for (key, wanted) in [
        ("vision_config.adapter_type", "patch_merger"),
        ("vision_config.router_scoring_func", "sigmoid"),
        ("audio_config.whisper_config.activation_function", "swiglu"),
    ] {
        let is_default = key.ends_with("router_scoring_func") && config.get(key).is_none();
        if !is_default && config.text(key)? != Some(wanted) {
            return refused(key, wanted);
        }
    }
    for (key, wanted) in [
        ("vision_config.pre_pixel_shuffle", true),
        ("vision_config.use_qk_norm", true),
        ("vision_config.use_bias", false),
        ("audio_config.use_conv2d_stem", true),
        ("audio_config.use_rope", true),
        ("audio_config.use_rms_norm", true),
        ("audio_config.use_causal", false),
    ] {
        if config.is_set(key)? != wanted {
            return refused(key, if wanted { "true" } else { "false" });
        }
    }
    for (key, wanted, default) in [
        ("vision_config.router_scale", 1.0, Some(1.0)),
        ("vision_config.temporal_patch_size", 1.0, Some(1.0)),
        ("audio_config.merge_factor", 1.0, Some(1.0)),
        ("audio_config.chunk_seconds", 60.0, None),
        ("audio_config.rope_parameters.partial_rotary_factor", 0.5, None),
        ("audio_config.rope_parameters.rope_theta", 10_000.0, None),
    ] {
        if config.real(&[key])?.or(default) != Some(wanted) {
            return refused(key, &wanted.to_string());
        }
    }
    Ok(Some(0))
}
