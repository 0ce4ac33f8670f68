//! PLaMo 2 and 3: norms stored as the difference from several numbers.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static PLAMO2: Architecture = Architecture {
    name: "plamo2",
    classes: &[class("Plamo2ForCausalLM", "plamo2"), class("PLaMo2ForCausalLM", "plamo2")],
    rules: &[COMMON_TENSORS, STATE_SPACE],
    keys: &[PLAMO2_KEYS],
    ..PLAMO
};

pub(super) static PLAMO3: Architecture = Architecture {
    name: "plamo3",
    classes: &[class("Plamo3ForCausalLM", "plamo3"), class("PLaMo3ForCausalLM", "plamo3")],
    rules: &[COMMON_TENSORS, PLAMO3_ATTENTION],
    keys: &[COMMON, PLAMO3_KEYS],
    ..PLAMO
};

const PLAMO: Architecture = Architecture {
    layer_prefix: "model.layers.layers.",
    tokenizer: TokenizerRules { kind: VocabularyKind::Plamo, ..BPE },
    ..PLAIN
};

/// 1/5 and 1/5 to the power of 1.5: the scales of norms after a layer's parts.
const FIFTH: &[Change] = &[Change::Plus(1.0 / 5.0)];
const SMALL_FIFTH: &[Change] = &[Change::Plus(0.089_442_72)];
const PLUS: &[Change] = &[Change::PlusOne];

const COMMON_TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).with(PLUS),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("pre_mixer_norm.*", "attn_norm.*", &[HIDDEN]).with(PLUS),
    layer("post_mixer_norm.weight", "post_attention_norm", &[HIDDEN]).with(FIFTH),
    layer("pre_mlp_norm.*", "ffn_norm.*", &[HIDDEN]).with(PLUS),
    layer("post_mlp_norm.weight", "post_ffw_norm", &[HIDDEN]).with(SMALL_FIFTH),
    layer("mlp.gate_up_proj.*", "ffn_up.*", &[TWO_FFN, HIDDEN]),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];

const PLAMO3_ATTENTION: &[Rule] = &[
    layer("mixer.qkv_proj.*", "attn_qkv.*", &[QKV_DIM, HIDDEN]),
    layer("mixer.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("mixer.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]).with(PLUS),
    layer("mixer.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).with(PLUS),
];

const PLAMO3_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    count("attention.sliding_window", &["window_size", "sliding_window"]),
    count_fn("attention.sliding_window_pattern", |config| match config.count(&["window_size", "sliding_window"])? {
        Some(_) => config.count(&["sliding_window_pattern"]),
        None => Ok(None),
    }),
];

/// Whether a layer is a state-space layer.
fn is_state_space(config: &Config, layer: u64) -> Result<bool> {
    if !config.flag("mamba_enabled")?.unwrap_or(true) {
        return Ok(false);
    }
    let (step, layers) = (config.count(&["mamba_step"])?.unwrap_or(2), config.layers()?);
    match step {
        0 => config.divisor("mamba_step").map(|_| false),
        _ if layers <= step / 2 => Ok(layer + 1 != layers),
        _ => Ok(layer % step != step / 2),
    }
}

const OF: &str = "mamba_step, mamba_enabled";
const STATES: Need = Need::When(OF, |config, layer| Ok(needed_if(is_state_space(config, layer)?)));
const FULL: Need = Need::When(OF, |config, layer| Ok(needed_if(!is_state_space(config, layer)?)));

const HEAD: Size = size(
    |config| Ok(config.count(&["hidden_size_per_head"])?.unwrap_or(128)),
    "hidden_size_per_head",
    "attention.key_length",
);
const Q: Size = size(
    |config| Ok(heads(config)?.saturating_mul((HEAD.of)(config)?)),
    "num_attention_heads, hidden_size_per_head",
    "attention.head_count",
);
const QKV: Size = size(
    |config| {
        let keys = kv_heads(config)?.saturating_mul((HEAD.of)(config)?).saturating_mul(2);
        Ok((Q.of)(config)?.saturating_add(keys))
    },
    "num_attention_heads, num_key_value_heads, hidden_size_per_head",
    "attention.head_count, attention.head_count_kv",
);
const KV_HEADS: Size = size(kv_heads, "num_key_value_heads", "attention.head_count_kv");
const STATE_HEADS: Size =
    size(|config| Ok(config.count(&["mamba_num_heads"])?.unwrap_or(64)), "mamba_num_heads", "ssm.time_step_rank");
const INNER: Size = size(
    |config| Ok((STATE_HEADS.of)(config)?.saturating_mul((HEAD.of)(config)?)),
    "mamba_num_heads, hidden_size_per_head",
    "ssm.inner_size",
);
const TWO_INNER: Size = size(|config| Ok((INNER.of)(config)?.saturating_mul(2)), INNER.hf, INNER.gguf);
const STATE: Size =
    size(|config| Ok(config.count(&["mamba_d_state"])?.unwrap_or(64)), "mamba_d_state", "ssm.state_size");
const KERNEL: Size =
    size(|config| Ok(config.count(&["mamba_d_conv"])?.unwrap_or(4)), "mamba_d_conv", "ssm.conv_kernel");
const RANK: Size = size(|config| Ok((config.needed("hidden_size")? / 16).max(64)), "hidden_size", "embedding_length");
const BCDT: Size = size(
    |config| Ok((STATE.of)(config)?.saturating_mul(2).saturating_add((RANK.of)(config)?)),
    "mamba_d_state, hidden_size",
    "ssm.state_size",
);

const STATE_SPACE: &[Rule] = &[
    layer("mixer.in_proj.*", "ssm_in.*", &[TWO_INNER, HIDDEN]).when(STATES),
    layer("mixer.conv1d.weight", "ssm_conv1d.weight", &[INNER, KERNEL]).with(&[Change::WithoutMiddle]).when(STATES),
    layer("mixer.bcdt_proj.*", "ssm_x.*", &[BCDT, INNER]).when(STATES),
    layer("mixer.dt_proj.weight", "ssm_dt.weight", &[STATE_HEADS, RANK]).when(STATES),
    layer("mixer.dt_bias", "ssm_dt.bias", &[STATE_HEADS]).when(STATES),
    layer("mixer.A_log", "ssm_a", &[STATE_HEADS]).with(&[Change::NegativeExponential]).when(STATES),
    layer("mixer.D", "ssm_d", &[STATE_HEADS]).when(STATES),
    layer("mixer.B_norm_weight", "ssm_b_norm", &[STATE]).when(STATES),
    layer("mixer.C_norm_weight", "ssm_c_norm", &[STATE]).when(STATES),
    layer("mixer.dt_norm_weight", "ssm_dt_norm", &[RANK]).when(STATES),
    layer("mixer.out_proj.*", "ssm_out.*", &[HIDDEN, INNER]).when(STATES),
    layer("mixer.qkv_proj.*", "attn_qkv.*", &[QKV, HIDDEN]).when(FULL),
    layer("mixer.q_weight", "attn_q_norm.weight", &[HEADS, HEAD]).when(FULL),
    layer("mixer.k_weight", "attn_k_norm.weight", &[KV_HEADS, HEAD]).when(FULL),
    layer("mixer.o_proj.*", "attn_output.*", &[HIDDEN, Q]).when(FULL),
];

/// Heads by layer, none in state-space layers.
fn by_layer(config: &Config, heads: u64) -> Result<Option<Vec<i32>>> {
    if !config.flag("mamba_enabled")?.unwrap_or(true) {
        return Ok(None);
    }
    config.per_layer(|layer| Ok(if is_state_space(config, layer)? { 0 } else { heads as i32 })).map(Some)
}

const PLAMO2_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    ints_fn("attention.head_count_kv", |config| by_layer(config, config.count(&["num_key_value_heads"])?.unwrap_or(4))),
    ints_fn("attention.head_count", |config| by_layer(config, config.count(&["num_attention_heads"])?.unwrap_or(32))),
    Key { gguf: "context_length", from: ValueSource::CountOr(&["max_position_embeddings"], 2048) },
    Key { gguf: "embedding_length", from: ValueSource::CountOr(&["hidden_size"], 4096) },
    Key { gguf: "attention.key_length", from: ValueSource::CountOr(&["hidden_size_per_head"], 128) },
    Key { gguf: "attention.value_length", from: ValueSource::CountOr(&["hidden_size_per_head"], 128) },
    count("block_count", LAYER_KEYS),
    real_or("attention.layer_norm_rms_epsilon", &["rms_norm_eps"], 1e-6),
    real_fn("rope.freq_base", |config| Ok(Some(config.rope().theta()?.unwrap_or(10_000.0)))),
    count_fn("ssm.state_size", |config| (STATE.of)(config).map(Some)),
    count_fn("ssm.conv_kernel", |config| (KERNEL.of)(config).map(Some)),
    count_fn("ssm.time_step_rank", |config| (STATE_HEADS.of)(config).map(Some)),
    count_fn("ssm.inner_size", |config| (INNER.of)(config).map(Some)),
    count_fn("ssm.group_count", |_| Ok(Some(0))),
    Key { gguf: "feed_forward_length", from: ValueSource::CountOr(&["intermediate_size"], 13_312) },
    FILE_TYPE,
];
