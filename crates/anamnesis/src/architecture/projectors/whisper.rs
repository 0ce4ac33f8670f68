//! Whisper's encoder, in Qwen 2-Audio, Ultravox, Voxtral, Audio Flamingo 3, GLM-ASR and MERaLiON 2.

use super::prelude::*;

const AUDIO: Stack = Stack { hf: "audio.layers.", gguf: "a.blk.", layers: Some(A_LAYERS) };

const fn audio(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(AUDIO)
}

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
pub(super) const MELS: Size = of("audio_config.num_mel_bins", |config| config.divisor("audio_config.num_mel_bins"));
const TIMES: Size =
    of("audio_config.max_source_positions", |config| config.divisor("audio_config.max_source_positions"));
const THREE: Size = of("", |_| Ok(3));

/// The table of positions, and the norm behind the layers.
const ENDS: &[Rule] = &[
    model("audio.embed_positions.weight", "a.position_embd.weight", &[TIMES, A_HIDDEN]),
    biased(model("audio.layer_norm.*", "a.post_ln.*", &[A_HIDDEN])),
];

/// The convolutions in front of the layers.
pub(super) const CONVOLUTIONS: &[Rule] = &[
    model("audio.conv1.weight", "a.conv1d.1.weight", &[A_HIDDEN, MELS, THREE]),
    model("audio.conv1.bias", "a.conv1d.1.bias", &[A_HIDDEN, ONE]).with(&[Change::Column]),
    model("audio.conv2.weight", "a.conv1d.2.weight", &[A_HIDDEN, A_HIDDEN, THREE]),
    model("audio.conv2.bias", "a.conv1d.2.bias", &[A_HIDDEN, ONE]).with(&[Change::Column]),
];

pub(super) const LAYERS: &[Rule] = &[
    biased(audio("fc1.*", "ffn_up.*", &[A_FFN, A_HIDDEN])),
    biased(audio("fc2.*", "ffn_down.*", &[A_HIDDEN, A_FFN])),
    biased(audio("final_layer_norm.*", "ln2.*", &[A_HIDDEN])),
    biased(audio("self_attn_layer_norm.*", "ln1.*", &[A_HIDDEN])),
    biased(audio("self_attn.q_proj.*", "attn_q.*", &[A_HIDDEN, A_HIDDEN])),
    // Whisper's keys have no bias.
    audio("self_attn.k_proj.*", "attn_k.*", &[A_HIDDEN, A_HIDDEN]).biased(OPTIONAL),
    biased(audio("self_attn.v_proj.*", "attn_v.*", &[A_HIDDEN, A_HIDDEN])),
    biased(audio("self_attn.out_proj.*", "attn_out.*", &[A_HIDDEN, A_HIDDEN])),
];

const RENAMES: &[Rename] = &[
    Rename::Prefix("audio_tower.", "audio."),
    Rename::Prefix("multi_modal_projector.", "mm."),
    Rename::Prefix("model.audio_tower.", "audio."),
    Rename::Prefix("model.multi_modal_projector.", "mm."),
];

/// The keys of all, after the type of the projector.
const fn own_keys(name: fn(&Config) -> Result<Option<&'static str>>) -> [Key; 3] {
    [projector(name), sized("audio.num_mel_bins", MELS), audio_epsilon()]
}

/// The epsilon of the norms.
pub(super) const fn audio_epsilon() -> Key {
    real_fn("audio.attention.layer_norm_epsilon", |config| {
        Ok(Some(config.real(&["audio_config.layer_norm_eps"])?.unwrap_or(1e-5)))
    })
}

const WHISPER: Architecture = Architecture {
    renames: RENAMES,
    types: TypeRules::PROJECTOR.and_f16(&["a.conv1d.1.weight", "a.conv1d.2.weight"]),
    ..PROJECTOR
};

/// The hidden states that Ultravox stacks.
const STACKED: Size = of("stack_factor, audio_config.d_model", |config| {
    Ok((A_HIDDEN.of)(config)?.saturating_mul(config.divisor("stack_factor")?))
});

/// The hidden states that GLM-ASR merges.
const MERGED_FRAMES: Size = of("merge_factor, whisper_config.d_model", |config| {
    Ok((A_HIDDEN.of)(config)?.saturating_mul(config.divisor("merge_factor")?))
});
const TWICE_TEXT: Size = of("lm_config.hidden_size", |config| product(&[TEXT, TWO], config));
/// The embeddings around a recording: before it, and behind it.
const MARKS: [Parts; 2] = [mark(0), mark(1)];

const fn mark(first: usize) -> Parts {
    Parts { groups: ONE, parts: &[ONE, ONE], first, count: 1 }
}

pub(super) const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &[class("Qwen2AudioForConditionalGeneration", "qwen2_audio")],
        rules: &[ENDS, CONVOLUTIONS, LAYERS, &[biased(model("mm.linear.*", "mm.a.fc.*", &[TEXT, A_HIDDEN]))]],
        keys: &[&audio_keys(AudioSizes::USUAL), &own_keys(|_| Ok(Some("qwen2a")))],
        ..WHISPER
    },
    Architecture {
        classes: &[class("VoxtralForConditionalGeneration", "voxtral")],
        rules: &[
            ENDS,
            CONVOLUTIONS,
            LAYERS,
            &[
                // As many hidden states are stacked as the feed-forward network has of their size.
                model("mm.linear_1.weight", "mm.a.mlp.1.weight", &[TEXT, A_FFN]),
                model("mm.linear_2.weight", "mm.a.mlp.2.weight", &[TEXT, TEXT]),
            ],
        ],
        keys: &[
            &audio_keys(AudioSizes::USUAL),
            &own_keys(|_| Ok(Some("voxtral"))),
            &[count_fn("audio.projector.stack_factor", |_| Ok(Some(4)))],
        ],
        ..WHISPER
    },
    Architecture {
        classes: &[class("AudioFlamingo3ForConditionalGeneration", "audioflamingo3")],
        rules: &[
            ENDS,
            CONVOLUTIONS,
            LAYERS,
            &[
                biased(model("mm.linear_1.*", "mm.a.mlp.1.*", &[TEXT, A_HIDDEN])),
                biased(model("mm.linear_2.*", "mm.a.mlp.2.*", &[TEXT, TEXT])),
            ],
        ],
        keys: &[&audio_keys(AudioSizes::USUAL), &own_keys(|_| Ok(Some("musicflamingo")))],
        types: TypeRules::PROJECTOR.and_f32(&["a.conv1d.1.weight", "a.conv1d.2.weight"]),
        ..WHISPER
    },
    Architecture {
        classes: &[class("UltravoxModel", "ultravox")],
        rules: &[
            ENDS,
            CONVOLUTIONS,
            LAYERS,
            &[
                model("mm.ln_pre.weight", "mm.a.norm_pre.weight", &[STACKED]),
                // No key gives the width between the two layers.
                model("mm.linear_1.weight", "mm.a.mlp.1.weight", &[]),
                model("mm.ln_mid.weight", "mm.a.norm_mid.weight", &[]),
                model("mm.linear_2.weight", "mm.a.mlp.2.weight", &[]),
            ],
        ],
        keys: &[
            &audio_keys(AudioSizes::USUAL),
            &own_keys(|_| Ok(Some("ultravox"))),
            &[count_fn("audio.projector.stack_factor", |config| config.divisor("stack_factor").map(Some))],
        ],
        ..WHISPER
    },
    Architecture {
        classes: &[class("GlmasrModel", "Glmasr")],
        renames: &[
            Rename::Prefix("audio_encoder.whisper.", "audio."),
            Rename::Prefix("audio_encoder.adapting.0.", "mm.linear_1."),
            Rename::Prefix("audio_encoder.adapting.2.", "mm.linear_2."),
            Rename::Prefix("audio_encoder.", "mm."),
        ],
        rules: &[
            CONVOLUTIONS,
            LAYERS,
            &[
                model("audio.embed_positions.weight", "a.position_embd.weight", &[TIMES, A_HIDDEN]).when(OPTIONAL),
                biased(model("mm.layer_norm.*", "mm.a.norm_pre.*", &[A_HIDDEN])),
                biased(model("mm.linear_1.*", "mm.a.mlp.1.*", &[TWICE_TEXT, MERGED_FRAMES])),
                biased(model("mm.linear_2.*", "mm.a.mlp.2.*", &[TEXT, TWICE_TEXT])),
                model("mm.audio_bos_eos_token.weight", "v.boi", &[TEXT])
                    .with(&[Change::Parts(&MARKS[0]), Change::Shaped(&[ONE, TEXT], &[TEXT])]),
                model("mm.audio_bos_eos_token.weight", "v.eoi", &[TEXT])
                    .with(&[Change::Parts(&MARKS[1]), Change::Shaped(&[ONE, TEXT], &[TEXT])]),
            ],
        ],
        keys: &[
            &audio_keys(AudioSizes::USUAL),
            &own_keys(|_| Ok(Some("glma"))),
            &[count_fn("audio.projector.stack_factor", |config| config.divisor("merge_factor").map(Some))],
        ],
        ..WHISPER
    },
    Architecture {
        classes: &[class("MERaLiON2ForConditionalGeneration", "meralion2")],
        renames: &[
            Rename::Prefix("speech_encoder.", "audio."),
            Rename::Prefix("ln_speech.", "mm.ln_speech."),
            Rename::Prefix("speech_audio_adapter.", "mm."),
        ],
        rules: &[
            ENDS,
            CONVOLUTIONS,
            LAYERS,
            &[
                biased(model("mm.ln_speech.*", "mm.a.norm_pre.*", &[A_HIDDEN])),
                // No key gives the width between the layers.
                biased(model("mm.mlp_adapter.0.*", "mm.a.mlp.0.*", &[])),
                biased(model("mm.gate_proj.*", "mm.a.mlp.1.*", &[])),
                biased(model("mm.pool_proj.*", "mm.a.mlp.2.*", &[])),
                biased(model("mm.out_proj.*", "mm.a.mlp.3.*", &[])),
            ],
        ],
        keys: &[
            &audio_keys(AudioSizes::USUAL),
            &own_keys(|_| Ok(Some("meralion"))),
            &[count_fn("audio.projector.stack_factor", |config| {
                Ok(Some(config.count(&["speech_mlp_scale_factor"])?.unwrap_or(15)))
            })],
        ],
        ..WHISPER
    },
];
