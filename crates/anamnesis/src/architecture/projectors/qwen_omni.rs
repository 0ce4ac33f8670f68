//! Qwen 2.5 Omni, Qwen 3 Omni and Qwen 3 ASR: the vision towers of Qwen, and encoders of audio whose table of positions is
//! derived.

use super::prelude::*;
use super::qwen2vl::{self, GATED, SHARED, WINDOW_PATTERN};
use super::qwen3vl::{self, BLOCKS, INDEXES, MERGERS, TWO_FRAMES};
use super::whisper::{CONVOLUTIONS, LAYERS, MELS, audio_epsilon};

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const OUT: Size = of("audio_config.output_dim", |config| {
    config.count(&["audio_config.output_dim"])?.map_or_else(|| (TEXT.of)(config), Ok)
});
const SAMPLED: Size =
    of("audio_config.downsample_hidden_size", |config| config.divisor("audio_config.downsample_hidden_size"));
/// The values of a frame after three convolutions, each of which halves it.
const FRAME: Size = of("audio_config.downsample_hidden_size, audio_config.num_mel_bins", |config| {
    Ok((MELS.of)(config)?.div_ceil(2).div_ceil(2).div_ceil(2).saturating_mul((SAMPLED.of)(config)?))
});

const PREFIXES: [Rename; 8] = [
    Rename::Prefix("thinker.visual.blocks.", "vision.layers."),
    Rename::Prefix("thinker.visual.", "vision."),
    Rename::Prefix("thinker.audio_tower.", "audio."),
    Rename::Prefix("visual.blocks.", "vision.layers."),
    Rename::Prefix("visual.", "vision."),
    Rename::Prefix("model.visual.blocks.", "vision.layers."),
    Rename::Prefix("model.visual.", "vision."),
    Rename::Prefix("audio_tower.", "audio."),
];
/// The same, and the mergers under their names in Qwen 3-VL.
const QWEN3_RENAMES: &[Rename] = &{
    let [a, b, c, d, e, f, g, h] = PREFIXES;
    [
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        Rename::Anywhere("vision.merger_list.", "vision.deepstack_merger_list."),
        Rename::Anywhere(".ln_q.", ".norm."),
        Rename::Anywhere(".mlp.0.", ".linear_fc1."),
        Rename::Anywhere(".mlp.2.", ".linear_fc2."),
    ]
};

/// A convolution in two dimensions; its bias has three.
const fn convolution(
    [hf, gguf]: [&'static str; 2],
    [hf_bias, gguf_bias]: [&'static str; 2],
    shape: &'static [Size],
) -> [Rule; 2] {
    [
        model(hf, gguf, shape),
        model(hf_bias, gguf_bias, &[SAMPLED, ONE, ONE]).with(&[Change::Shaped(&[SAMPLED], &[SAMPLED, ONE, ONE])]),
    ]
}

const QWEN3_AUDIO: &[Rule] = &[
    model("audio.conv_out.weight", "a.conv_out.weight", &[A_HIDDEN, FRAME]),
    biased(model("audio.ln_post.*", "a.post_ln.*", &[A_HIDDEN])),
    biased(model("audio.proj1.*", "mm.a.mlp.1.*", &[A_HIDDEN, A_HIDDEN])),
    biased(model("audio.proj2.*", "mm.a.mlp.2.*", &[OUT, A_HIDDEN])),
];
const CONV1: [Rule; 2] = convolution(
    ["audio.conv2d1.weight", "a.conv2d.1.weight"],
    ["audio.conv2d1.bias", "a.conv2d.1.bias"],
    &[SAMPLED, ONE, CHANNELS, CHANNELS],
);
const CONV2: [Rule; 2] = convolution(
    ["audio.conv2d2.weight", "a.conv2d.2.weight"],
    ["audio.conv2d2.bias", "a.conv2d.2.bias"],
    &[SAMPLED, SAMPLED, CHANNELS, CHANNELS],
);
const CONV3: [Rule; 2] = convolution(
    ["audio.conv2d3.weight", "a.conv2d.3.weight"],
    ["audio.conv2d3.bias", "a.conv2d.3.bias"],
    &[SAMPLED, SAMPLED, CHANNELS, CHANNELS],
);

const AUDIO_KEYS: &[Key] = &[sized("audio.num_mel_bins", MELS), audio_epsilon()];

const OMNI: Architecture = Architecture {
    renames: &PREFIXES,
    derived_tensors: &[DerivedTensor { name: "a.position_embd.weight", row: Some(A_HIDDEN), values: positions }],
    types: TypeRules::PROJECTOR.and_f16(&[
        "a.conv1d.1.weight",
        "a.conv1d.2.weight",
        "a.conv2d.1.weight",
        "a.conv2d.2.weight",
        "a.conv2d.3.weight",
        "a.conv_out.weight",
    ]),
    ..PROJECTOR
};

pub(super) const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &[class("Qwen2_5OmniModel", "qwen2_5_omni")],
        dropped: &["audio.audio_bos_eos_token."],
        rules: &[
            SHARED,
            GATED,
            CONVOLUTIONS,
            LAYERS,
            &[
                biased(vision("attn.q.*", "attn_q.*", &[V_HIDDEN, V_HIDDEN])),
                biased(vision("attn.k.*", "attn_k.*", &[V_HIDDEN, V_HIDDEN])),
                biased(vision("attn.v.*", "attn_v.*", &[V_HIDDEN, V_HIDDEN])),
                biased(model("audio.ln_post.*", "a.post_ln.*", &[A_HIDDEN])),
                biased(model("audio.proj.*", "mm.a.fc.*", &[OUT, A_HIDDEN])),
            ],
        ],
        keys: &[
            &vision_keys(VisionSizes::USUAL.with_image(qwen2vl::image_size)),
            &audio_keys(AudioSizes::USUAL),
            AUDIO_KEYS,
            &[projector(|_| Ok(Some("qwen2.5o"))), is_true("use_silu"), WINDOW_PATTERN, epsilon(qwen2vl::norm_epsilon)],
        ],
        ..OMNI
    },
    Architecture {
        classes: &[class("Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe")],
        renames: QWEN3_RENAMES,
        numbered: &[("vision.deepstack_merger_list.", |config, place| config.needed_item(INDEXES, place))],
        rules: &[TWO_FRAMES, BLOCKS, MERGERS, LAYERS, QWEN3_AUDIO, &CONV1, &CONV2, &CONV3],
        keys: &[
            &vision_keys(VisionSizes::USUAL.with_image(qwen3vl::image_size)),
            &audio_keys(AudioSizes::USUAL),
            AUDIO_KEYS,
            &qwen3vl::own_keys(),
            &[
                text_fn("vision.projector_type", |_| Ok(Some("qwen3vl_merger"))),
                text_fn("audio.projector_type", |_| Ok(Some("qwen3a"))),
            ],
        ],
        ..OMNI
    },
    Architecture {
        classes: &[class("Qwen3ASRForConditionalGeneration", "qwen3_asr")],
        rules: &[LAYERS, QWEN3_AUDIO, &CONV1, &CONV2, &CONV3],
        keys: &[&audio_keys(AudioSizes::USUAL), AUDIO_KEYS, &[text_fn("audio.projector_type", |_| Ok(Some("qwen3a")))]],
        ..OMNI
    },
];

/// The rows of the table of positions.
const TIMES: u16 = 1500;
/// The longest period of its waves, in steps of one radian.
const LONGEST: f64 = 10000.0;

/// Sines and cosines of each time, of periods that grow from column to column, each computed to the last bit of F32.
fn positions(config: &Config) -> Result<Option<Vec<f32>>> {
    let half = (A_HIDDEN.of)(config)? / 2;
    let step = -(LONGEST.ln() / (half as f64 - 1.0)) as f32;
    let rates: Vec<f32> = (0..half).map(|column| f64::from(step * column as f32).exp() as f32).collect();
    let mut table = Vec::new();
    for time in 0..TIMES {
        let angles = || rates.iter().map(|rate| f64::from(f32::from(time) * rate));
        table.extend(angles().map(|angle| angle.sin() as f32));
        table.extend(angles().map(|angle| angle.cos() as f32));
    }
    Ok(Some(table))
}
