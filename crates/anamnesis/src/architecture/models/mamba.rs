//! Mamba and Falcon Mamba: state-space layers only.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "mamba",
    classes: &[
        Class { name: "MambaForCausalLM", model_type: "mamba", defaults: TIED },
        Class { name: "FalconMambaForCausalLM", model_type: "falcon_mamba", defaults: TIED },
        // The class of its authors, whose checkpoints have the embedding as the head, too.
        Class { name: "MambaLMHeadModel", model_type: "mamba", defaults: TIED },
    ],
    layer_prefix: "backbone.layers.",
    renames: &[Rename::Prefix("backbone.embedding.", "backbone.embeddings.")],
    head: Head::UnlessEqual(EMBEDDING, HEAD),
    read_tensors: &[read(EMBEDDING, Measure::Digest), read(HEAD, Measure::Digest)],
    rules: &[TENSORS],
    keys: &[KEYS],
    tokenizer: TokenizerRules {
        pieces: PiecesUse::Last,
        pad_to: Some(8),
        pre: &[(PreTokenizer::Gpt2, "olmo")],
        classes: &[
            ("mamba", TokenizerClass::Registered("GPTNeoXTokenizer")),
            ("falcon_mamba", TokenizerClass::Registered("GPTNeoXTokenizer")),
        ],
        ..BPE
    },
    restore: Some(|file, config| {
        if let Some(rank) = file.count("ssm.time_step_rank") {
            set(config, "time_step_rank", rank);
        }
        restore::state_space(file, config);
        Ok(usize::from(file.flag("ssm.dt_b_c_rms") == Some(true)))
    }),
    restore_note: Some("the states of the model are logarithms in a checkpoint, which are rounded anew"),
    ..DECODER
};

/// The tensors that may be equal.
const EMBEDDING: &str = "backbone.embeddings.weight";
const HEAD: &str = "lm_head.weight";

/// Embeddings are tied by default.
const TIED: &[&[ClassDefault]] = &[&[("tie_word_embeddings", Flag(true))]];

const TENSORS: &[Rule] = &[
    model("backbone.embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("backbone.norm_f.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("norm.*", "attn_norm.*", &[HIDDEN]),
    layer("mixer.in_proj.*", "ssm_in.*", &[TWO_INNER, HIDDEN]).biased(BIAS),
    layer("mixer.conv1d.bias", "ssm_conv1d.bias", &[INNER]).when(CONV_BIAS),
    layer("mixer.conv1d.weight", "ssm_conv1d.weight", &[INNER, KERNEL]).with(&[Change::WithoutMiddle]),
    layer("mixer.x_proj.*", "ssm_x.*", &[DT_B_C, INNER]),
    layer("mixer.dt_proj.*", "ssm_dt.*", &[INNER, DT_RANK]).biased(Need::Always),
    layer("mixer.A_log", "ssm_a", &[INNER, STATE]).with(&[Change::NegativeExponential]),
    layer("mixer.D", "ssm_d", &[INNER]),
    layer("mixer.out_proj.*", "ssm_out.*", &[HIDDEN, INNER]).biased(BIAS),
];

/// The rows of the embedding, which the authors' class pads.
const PADDED: &str = "pad_vocab_size_multiple";
const VOCAB: Size = size(
    |config| {
        let tokens = config.needed("vocab_size")?;
        let multiple = match config.count(&[PADDED])? {
            Some(_) => config.divisor(PADDED)?,
            None => 1,
        };
        Ok(tokens.checked_next_multiple_of(multiple).unwrap_or(u64::MAX))
    },
    "vocab_size, pad_vocab_size_multiple",
    "vocab_size, tokenizer.ggml.tokens",
);
const BIAS: Need = Need::Flag("use_bias");
const HIDDEN: Size = size(width, "hidden_size", "embedding_length");
const INNER: Size = size(inner, "intermediate_size, hidden_size", "ssm.inner_size");
const TWO_INNER: Size =
    size(|config| Ok(inner(config)?.saturating_mul(2)), "intermediate_size, hidden_size", "ssm.inner_size");
const DT_RANK: Size = size(dt_rank, "time_step_rank, hidden_size", "ssm.time_step_rank");
const DT_B_C: Size = size(
    |config| Ok(dt_rank(config)?.saturating_add(state(config)?.saturating_mul(2))),
    "time_step_rank, state_size",
    "ssm.time_step_rank, ssm.state_size",
);
const STATE: Size = size(state, "state_size", "ssm.state_size");
const KEYS: &[Key] = &[
    count_fn("context_length", |_| Ok(Some(CONTEXT_LENGTH))),
    count("embedding_length", &["hidden_size", "d_model"]),
    count_fn("feed_forward_length", |_| Ok(Some(0))),
    count_fn("attention.head_count", |_| Ok(Some(0))),
    count("block_count", LAYER_KEYS),
    Key { gguf: "ssm.conv_kernel", from: ValueSource::CountOr(CONV, CONV_KERNEL) },
    count_fn("ssm.inner_size", |config| inner(config).map(Some)),
    Key { gguf: "ssm.state_size", from: ValueSource::CountOr(STATES, STATE_SIZE) },
    count_fn("ssm.time_step_rank", |config| dt_rank(config).map(Some)),
    real_or("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon", "rms_norm_eps"], 1e-5),
    Key {
        gguf: "ssm.dt_b_c_rms",
        from: ValueSource::BoolFn(|config| Ok(Some(config.text("model_type")? == Some("falcon_mamba")))),
    },
    FILE_TYPE,
];

fn width(config: &Config) -> Result<u64> {
    match config.count(&["hidden_size", "d_model"])? {
        Some(width) => Ok(width),
        None => config.needed("hidden_size"),
    }
}

/// The state size: its configuration keys and its default.
const STATES: &[&str] = &["state_size", "d_state"];
const STATE_SIZE: u64 = 16;

fn state(config: &Config) -> Result<u64> {
    Ok(config.count(STATES)?.unwrap_or(STATE_SIZE))
}

/// The rank of `dt_proj`.
fn dt_rank(config: &Config) -> Result<u64> {
    match config.count(&["time_step_rank", "dt_rank"])? {
        Some(rank) => Ok(rank),
        None => Ok(width(config)?.div_ceil(16)),
    }
}

fn inner(config: &Config) -> Result<u64> {
    match config.count(&["intermediate_size", "d_inner"])? {
        Some(inner) => Ok(inner),
        None => Ok(width(config)?.saturating_mul(2)),
    }
}
