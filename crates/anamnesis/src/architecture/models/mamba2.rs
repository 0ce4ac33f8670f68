//! Mamba 2: state-space layers with heads and groups.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "mamba2",
    classes: &[Class {
        name: "Mamba2ForCausalLM",
        model_type: "mamba2",
        defaults: &[&[("n_groups", Count(1)), ("tie_word_embeddings", Flag(false))]],
    }],
    layer_prefix: "backbone.layers.",
    rules: &[TENSORS],
    keys: &[KEYS],
    tokenizer: TokenizerRules {
        pieces: PiecesUse::First,
        pad_to: Some(16),
        pre: &[(PreTokenizer::Gpt2, "olmo")],
        classes: &[("mamba2", TokenizerClass::Registered("GPTNeoXTokenizer"))],
        ..BPE
    },
    restore: Some(|file, config| {
        let heads = file.count("ssm.time_step_rank").filter(|heads| *heads > 0);
        if let (Some(inner), Some(heads)) = (file.count("ssm.inner_size"), heads) {
            set(config, "num_heads", heads);
            set(config, "head_dim", inner / heads);
        }
        if let Some(epsilon) = file.real("attention.layer_norm_rms_epsilon") {
            set(config, "layer_norm_epsilon", epsilon);
        }
        restore::state_space(file, config);
        Ok(0)
    }),
    restore_note: Some("the states of the model are logarithms in a checkpoint, which are rounded anew"),
    ..DECODER
};

const TENSORS: &[Rule] = &[
    model("backbone.embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("backbone.norm_f.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("norm.*", "attn_norm.*", &[HIDDEN]),
    layer("mixer.in_proj.*", "ssm_in.*", &[INPUTS, HIDDEN]).biased(BIAS),
    layer("mixer.conv1d.bias", "ssm_conv1d.bias", &[CONVOLVED]).when(CONV_BIAS),
    layer("mixer.conv1d.weight", "ssm_conv1d.weight", &[CONVOLVED, KERNEL]).with(&[Change::WithoutMiddle]),
    layer("mixer.dt_bias", "ssm_dt.bias", &[HEADS]),
    layer("mixer.A_log", "ssm_a", &[HEADS, ONE]).with(&[Change::NegativeExponential, Change::Column]),
    layer("mixer.D", "ssm_d", &[HEADS, ONE]).with(&[Change::Column]),
    layer("mixer.norm.*", "ssm_norm.*", &[GROUPS, GROUP]).with(&[Change::Groups("n_groups")]),
    layer("mixer.out_proj.*", "ssm_out.*", &[HIDDEN, INNER]).biased(BIAS),
];

const BIAS: Need = Need::Flag("use_bias");

const HIDDEN: Size = size(width, "hidden_size", "embedding_length");
const INNER: Size = size(inner, "expand, intermediate_size, hidden_size", "ssm.inner_size");
const HEADS: Size = size(heads, "head_dim, expand, hidden_size", "ssm.time_step_rank, ssm.inner_size");
const GROUPS: Size = size(|config| config.divisor("n_groups"), "n_groups", "ssm.group_count");
const GROUP: Size = size(
    |config| Ok(inner(config)? / config.divisor("n_groups")?),
    "n_groups, expand, hidden_size",
    "ssm.group_count, ssm.inner_size",
);
const CONVOLVED: Size =
    size(convolved, "expand, hidden_size, n_groups, state_size", "ssm.inner_size, ssm.group_count, ssm.state_size");
const INPUTS: Size = size(
    |config| Ok(convolved(config)?.saturating_add(inner(config)?).saturating_add(heads(config)?)),
    "expand, hidden_size, n_groups, state_size, head_dim",
    "ssm.inner_size, ssm.group_count, ssm.state_size, ssm.time_step_rank",
);

/// The state size: its configuration keys and its default.
const STATES: &[&str] = &["state_size", "d_state"];
const STATE_SIZE: u64 = 128;

/// The channels of the convolution: x, and B and C of every group.
fn convolved(config: &Config) -> Result<u64> {
    let states = config.count(STATES)?.unwrap_or(STATE_SIZE);
    let states = config.needed("n_groups")?.saturating_mul(states).saturating_mul(2);
    Ok(inner(config)?.saturating_add(states))
}

const KEYS: &[Key] = &[
    count_fn("context_length", |_| Ok(Some(CONTEXT_LENGTH))),
    count("embedding_length", &["hidden_size", "d_model", "dim"]),
    count_fn("feed_forward_length", |_| Ok(Some(0))),
    count_fn("attention.head_count", |_| Ok(Some(0))),
    count("block_count", LAYER_KEYS),
    Key { gguf: "ssm.conv_kernel", from: ValueSource::CountOr(CONV, CONV_KERNEL) },
    count_fn("ssm.inner_size", |config| inner(config).map(Some)),
    Key { gguf: "ssm.state_size", from: ValueSource::CountOr(STATES, STATE_SIZE) },
    count_fn("ssm.time_step_rank", |config| heads(config).map(Some)),
    count("ssm.group_count", &["n_groups"]),
    real_or("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon", "rms_norm_eps"], 1e-5),
    FILE_TYPE,
];

fn width(config: &Config) -> Result<u64> {
    first(config, &["hidden_size", "d_model", "dim"])
}

fn inner(config: &Config) -> Result<u64> {
    let expanded = config.count(&["mamba_expand", "expand"])?.unwrap_or(2).saturating_mul(width(config)?);
    match config.count(&["mamba_d_ssm", "intermediate_size", "d_inner"])? {
        Some(inner) if inner != expanded => Err(AnamnesisError::parse(format!(
            "config.json: intermediate_size is {inner}, hidden_size by expand {expanded}"
        ))),
        _ => Ok(expanded),
    }
}

fn heads(config: &Config) -> Result<u64> {
    let (inner, size) = (inner(config)?, config.count(&["mamba_d_head", "head_dim"])?.unwrap_or(64));
    match inner.checked_rem(size) {
        Some(0) => Ok(inner / size),
        _ => Err(AnamnesisError::parse(format!(
            "config.json: {inner} values do not divide into heads of {size} (head_dim)"
        ))),
    }
}
