//! RWKV 6 and 7.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static RWKV6: Architecture = Architecture {
    name: "rwkv6",
    classes: &[class("Rwkv6ForCausalLM", "rwkv6")],
    layer_prefix: "rwkv.blocks.",
    rules: &[RWKV6_TENSORS],
    keys: &[RWKV6_KEYS],
    tokenizer: WORDS,
    restore: None,
    not_held: Some("settings of its class such as attention_hidden_size and head_size_divisor"),
    ..PLAIN
};

/// RWKV 6 with the feed-forward network of Qwen 2.
pub(super) static RWKV6_QWEN2: Architecture = Architecture {
    name: "rwkv6qwen2",
    classes: &[class("RWKV6Qwen2ForCausalLM", "rwkv6qwen2")],
    rules: &[EMBED_NORM_HEAD, NORMS, GATED_FFN, QWEN2_TIME_MIX],
    keys: &[QWEN2_KEYS],
    tokenizer: PIECES_OR_BPE,
    restore: None,
    not_held: Some("settings of its class such as attention_hidden_size and head_size_divisor"),
    ..PLAIN
};

pub(super) static RWKV7: Architecture = Architecture {
    name: "rwkv7",
    classes: &[class("RWKV7ForCausalLM", "rwkv7"), class("Rwkv7ForCausalLM", "rwkv7")],
    renames: &[
        Rename::Anywhere("blocks", "layers"),
        Rename::Anywhere("ffn", "feed_forward"),
        Rename::Anywhere("self_attn", "attention"),
        Rename::Anywhere("attn", "attention"),
        Rename::Anywhere("time_mixer.", ""),
        Rename::Anywhere("feed_forward_norm", "ln2"),
        Rename::Anywhere("g_norm", "ln_x"),
        Rename::Anywhere("_lora.lora.0.weight", "1.weight"),
        Rename::Anywhere("_lora.lora.2.weight", "2.weight"),
        Rename::Anywhere("_lora.lora.2.bias", "0.weight"),
    ],
    // The first layer has no values of a layer before it.
    dropped: &["model.layers.0.attention.v0", "model.layers.0.attention.v1", "model.layers.0.attention.v2"],
    rules: &[RWKV7_TENSORS],
    keys: &[RWKV7_KEYS],
    tokenizer: WORDS,
    restore: None,
    not_held: Some("settings of its class such as attention_hidden_size and head_size_divisor"),
    ..PLAIN
};

const WORDS: TokenizerRules = TokenizerRules { kind: VocabularyKind::Rwkv, ..BPE };

/// The context of a model without attention.
pub(super) const CONTEXT: Key = count_fn("context_length", |_| Ok(Some(1 << 20)));
pub(super) const NO_HEADS: Key = count_fn("attention.head_count", |_| Ok(Some(0)));

/// The width of attention.
const ATTENTION_DIM: Size = size(
    |config| match config.count(&["attention_hidden_size"])? {
        Some(width) => Ok(width),
        None => (HIDDEN.of)(config),
    },
    "attention_hidden_size, hidden_size",
    "embedding_length",
);
pub(super) const HEAD_SIZE: Size = size(
    |config| match config.count(&["head_size", "head_dim"])? {
        Some(size) => Ok(size),
        None => Err(AnamnesisError::parse("config.json has no \"head_size\" or \"head_dim\"")),
    },
    "head_size, head_dim",
    "wkv.head_size",
);
pub(super) const HEAD_COUNT: Size = size(
    |config| {
        let width = (ATTENTION_DIM.of)(config)?;
        width
            .checked_div((HEAD_SIZE.of)(config)?)
            .ok_or_else(|| AnamnesisError::parse("config.json: \"head_size\" or \"head_dim\" is 0"))
    },
    "attention_hidden_size, head_size, head_dim",
    "wkv.head_size",
);

fn inner(config: &Config) -> Result<u64> {
    match config.count(&["intermediate_size"])? {
        Some(width) => Ok(width),
        None => Ok(((HIDDEN.of)(config)? as f64 * 3.5 / 32.0).floor() as u64 * 32),
    }
}

const INNER: Size = size(inner, "intermediate_size", "feed_forward_length");
const FIVE: Size = size(|_| Ok(5), "", "");

/// The size of the low-rank parts of the time mix and of its decay: those of the configuration, or by the width.
fn rank(config: &Config, key: &str, is_large: fn(u64) -> bool, sizes: [u64; 2]) -> Result<u64> {
    match config.count(&[key])? {
        Some(rank) => Ok(rank),
        None => Ok(sizes[usize::from(is_large((HIDDEN.of)(config)?))]),
    }
}

const MIX_RANK: Size = size(
    |config| rank(config, "lora_rank_tokenshift", |width| width == 4096, [32, 64]),
    "lora_rank_tokenshift, hidden_size",
    "time_mix_extra_dim",
);
const MIX_RANKS: Size = size(|config| Ok((MIX_RANK.of)(config)?.saturating_mul(5)), MIX_RANK.hf, MIX_RANK.gguf);
const DECAY_RANK: Size = size(
    |config| rank(config, "lora_rank_decay", |width| width == 4096, [64, 128]),
    "lora_rank_decay, hidden_size",
    "time_decay_extra_dim",
);

pub(super) const TRANSPOSED: &[Change] = &[Change::Transposed];
pub(super) const SQUEEZED: &[Change] = &[Change::Shaped(&[ONE, ONE, HIDDEN], &[HIDDEN])];
/// Halved once for every so many layers.
const RESCALED: &[Change] = &[Change::Times(Factor::Derived(|config, layer| {
    let every = config.count(&["rescale_every"])?.unwrap_or(0);
    let times = layer.unwrap_or(0).checked_div(every).unwrap_or(0);
    Ok((-(times as f32)).exp2())
}))];

const RWKV6_TENSORS: &[Rule] = &[
    model("rwkv.embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("rwkv.blocks.0.pre_ln.*", "token_embd_norm.*", &[HIDDEN]).biased(Need::Always),
    model("rwkv.ln_out.*", "output_norm.*", &[HIDDEN]).biased(Need::Always),
    model("head.*", "output.*", &[VOCAB, HIDDEN]),
    layer("ln1.*", "attn_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("ln2.*", "attn_norm_2.*", &[HIDDEN]).biased(Need::Always),
    layer("attention.time_maa_x", "time_mix_lerp_x.weight", &[HIDDEN]).with(SQUEEZED),
    layer("attention.time_maa_{w|k|v|r|g}", "time_mix_lerp_fused.weight", &[FIVE, ONE, ONE, HIDDEN]),
    layer("attention.time_maa_w1", "time_mix_w1.weight", &[MIX_RANKS, HIDDEN]).with(TRANSPOSED),
    layer("attention.time_maa_w2", "time_mix_w2.weight", &[FIVE, HIDDEN, MIX_RANK]).with(TRANSPOSED),
    layer("attention.time_decay", "time_mix_decay.weight", &[HIDDEN]).with(SQUEEZED),
    layer("attention.time_decay_w1", "time_mix_decay_w1.weight", &[DECAY_RANK, HIDDEN]).with(TRANSPOSED),
    layer("attention.time_decay_w2", "time_mix_decay_w2.weight", &[HIDDEN, DECAY_RANK]).with(TRANSPOSED),
    layer("attention.time_faaaa", "time_mix_first.weight", &[HEAD_COUNT, HEAD_SIZE]),
    layer("attention.key.*", "time_mix_key.*", &[ATTENTION_DIM, HIDDEN]),
    layer("attention.value.*", "time_mix_value.*", &[ATTENTION_DIM, HIDDEN]),
    layer("attention.receptance.*", "time_mix_receptance.*", &[ATTENTION_DIM, HIDDEN]),
    layer("attention.gate.*", "time_mix_gate.*", &[ATTENTION_DIM, HIDDEN]),
    layer("attention.output.*", "time_mix_output.*", &[HIDDEN, ATTENTION_DIM]).with(RESCALED),
    layer("attention.ln_x.*", "time_mix_ln.*", &[ATTENTION_DIM]).biased(Need::Always),
    layer("feed_forward.time_maa_k", "channel_mix_lerp_k.weight", &[HIDDEN]).with(SQUEEZED),
    layer("feed_forward.time_maa_r", "channel_mix_lerp_r.weight", &[HIDDEN]).with(SQUEEZED),
    layer("feed_forward.key.*", "channel_mix_key.*", &[INNER, HIDDEN]),
    layer("feed_forward.receptance.*", "channel_mix_receptance.*", &[HIDDEN, HIDDEN]),
    layer("feed_forward.value.*", "channel_mix_value.*", &[HIDDEN, INNER]).with(RESCALED),
];

const RWKV6_KEYS: &[Key] = &[
    CONTEXT,
    count("embedding_length", &["hidden_size"]),
    count("block_count", LAYER_KEYS),
    needed_real("attention.layer_norm_epsilon", "layer_norm_epsilon"),
    needed("rescale_every_n_layers", "rescale_every"),
    count_fn("wkv.head_size", |config| (HEAD_SIZE.of)(config).map(Some)),
    count_fn("time_mix_extra_dim", |config| (MIX_RANK.of)(config).map(Some)),
    count_fn("time_decay_extra_dim", |config| (DECAY_RANK.of)(config).map(Some)),
    count_fn("feed_forward_length", |config| inner(config).map(Some)),
    FILE_TYPE,
    NO_HEADS,
];

const QWEN2_MIX_RANK: Size =
    size(|config| rank(config, "lora_rank_tokenshift", |width| width >= 4096, [32, 64]), MIX_RANK.hf, MIX_RANK.gguf);
const QWEN2_MIX_RANKS: Size =
    size(|config| Ok((QWEN2_MIX_RANK.of)(config)?.saturating_mul(5)), MIX_RANK.hf, MIX_RANK.gguf);
const QWEN2_DECAY_RANK: Size =
    size(|config| rank(config, "lora_rank_decay", |width| width >= 4096, [64, 128]), DECAY_RANK.hf, DECAY_RANK.gguf);
/// The blocks of the first and of the fourth projection change places.
const REORDERED: &[Change] = &[Change::Transposed, Change::ExchangedBlocks(5, [0, 3])];

const QWEN2_TIME_MIX: &[Rule] = &[
    layer("self_attn.time_maa_x", "time_mix_lerp_x.weight", &[HIDDEN]).with(SQUEEZED),
    layer("self_attn.time_maa_{w|k|v|r|g}", "time_mix_lerp_fused.weight", &[FIVE, ONE, ONE, HIDDEN]),
    layer("self_attn.time_maa_w1", "time_mix_w1.weight", &[QWEN2_MIX_RANKS, HIDDEN]).with(REORDERED),
    layer("self_attn.time_maa_w2", "time_mix_w2.weight", &[FIVE, HIDDEN, QWEN2_MIX_RANK]).with(REORDERED),
    layer("self_attn.time_decay", "time_mix_decay.weight", &[HIDDEN]).with(SQUEEZED),
    layer("self_attn.time_decay_w1", "time_mix_decay_w1.weight", &[QWEN2_DECAY_RANK, HIDDEN]).with(TRANSPOSED),
    layer("self_attn.time_decay_w2", "time_mix_decay_w2.weight", &[HIDDEN, QWEN2_DECAY_RANK]).with(TRANSPOSED),
    layer("self_attn.k_proj.*", "time_mix_key.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.v_proj.*", "time_mix_value.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.q_proj.*", "time_mix_receptance.*", &[Q_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.gate.*", "time_mix_gate.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.o_proj.*", "time_mix_output.*", &[HIDDEN, Q_DIM]).with(RESCALED).biased(OPTIONAL),
];

const QWEN2_KEYS: &[Key] = &[
    CONTEXT,
    count("embedding_length", &["hidden_size"]),
    count("block_count", LAYER_KEYS),
    count_fn("wkv.head_size", |config| config.share_of_width().map(Some)),
    count_fn("time_mix_extra_dim", |config| (QWEN2_MIX_RANK.of)(config).map(Some)),
    count_fn("time_decay_extra_dim", |config| (QWEN2_DECAY_RANK.of)(config).map(Some)),
    count("feed_forward_length", &["intermediate_size"]),
    FILE_TYPE,
    real("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    count_fn("token_shift_count", |_| Ok(Some(1))),
    count("attention.head_count_kv", &["num_key_value_heads"]),
    NO_HEADS,
];

/// A low rank of RWKV 7: that of the configuration, or a multiple of 32 by the width.
fn low_rank(config: &Config, keys: &[&str], exponent: f64, factor: f64) -> Result<u64> {
    match config.count(keys)? {
        Some(rank) => Ok(rank),
        None => {
            let width = (HIDDEN.of)(config)? as f64;
            Ok((width.powf(exponent) * factor / 32.0).round_ties_even().max(1.0) as u64 * 32)
        }
    }
}

const DECAY: Size = size(
    |config| low_rank(config, &["lora_rank_decay", "decay_low_rank_dim"], 0.5, 1.8),
    "decay_low_rank_dim",
    "attention.decay_lora_rank",
);
const RATE: Size = size(
    |config| low_rank(config, &["lora_rank_iclr", "a_low_rank_dim"], 0.5, 1.8),
    "a_low_rank_dim",
    "attention.iclr_lora_rank",
);
const VALUE_MIX: Size = size(
    |config| low_rank(config, &["lora_rank_value_residual_mix", "v_low_rank_dim"], 0.5, 1.3),
    "v_low_rank_dim",
    "attention.value_residual_mix_lora_rank",
);
const GATE: Size = size(
    |config| low_rank(config, &["lora_rank_gate", "gate_low_rank_dim"], 0.8, 0.6),
    "gate_low_rank_dim",
    "attention.gate_lora_rank",
);
/// The rank of the first layer's values is that of the rates.
const VALUE_OR_RATE: Size = layer_size(
    |config, layer| if layer == 0 { (RATE.of)(config) } else { (VALUE_MIX.of)(config) },
    "v_low_rank_dim, a_low_rank_dim",
    "attention.value_residual_mix_lora_rank, attention.iclr_lora_rank",
);
pub(super) const LERPS: Size = size(
    |config| Ok(if config.flag("wkv_has_gate")?.unwrap_or(true) { 6 } else { 5 }),
    "wkv_has_gate",
    "attention.gate_lora_rank",
);
const FOUR_HIDDEN: Size = size(
    |config| match config.count(&["intermediate_size"])? {
        Some(width) => Ok(width),
        None => Ok((HIDDEN.of)(config)?.saturating_mul(4)),
    },
    "intermediate_size",
    "feed_forward_length",
);

/// The first layer takes the low-rank parts of the rates in place of the values'.
pub(super) const FIRST: Need = Need::When("", |_, layer| Ok(needed_if(layer == 0)));

const RWKV7_TENSORS: &[Rule] = &[
    model("model.embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.layers.0.pre_norm.*", "token_embd_norm.*", &[HIDDEN]).biased(Need::Always),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).biased(Need::Always),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]),
    layer("attention_norm.*", "attn_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("ln2.*", "attn_norm_2.*", &[HIDDEN]).biased(Need::Always),
    layer("attention.x_{r|w|k|v|a|g}", "time_mix_lerp_fused.weight", &[LERPS, ONE, ONE, HIDDEN]),
    layer("attention.v1.weight", "time_mix_v1.weight", &[VALUE_OR_RATE, HIDDEN]),
    layer("attention.v0.weight", "time_mix_v0.weight", &[HIDDEN]),
    layer("attention.v2.weight", "time_mix_v2.weight", &[HIDDEN, VALUE_OR_RATE]),
    layer("attention.a1.weight", "time_mix_v1.weight", &[VALUE_OR_RATE, HIDDEN]).when(FIRST),
    layer("attention.a0.weight", "time_mix_v0.weight", &[HIDDEN]).when(FIRST),
    layer("attention.a2.weight", "time_mix_v2.weight", &[HIDDEN, VALUE_OR_RATE]).when(FIRST),
    layer("attention.a1.weight", "time_mix_a1.weight", &[RATE, HIDDEN]),
    layer("attention.a0.weight", "time_mix_a0.weight", &[HIDDEN]),
    layer("attention.a2.weight", "time_mix_a2.weight", &[HIDDEN, RATE]),
    layer("attention.g1.weight", "time_mix_g1.weight", &[GATE, HIDDEN]).when(OPTIONAL),
    layer("attention.g2.weight", "time_mix_g2.weight", &[HIDDEN, GATE]).when(OPTIONAL),
    layer("attention.w1.weight", "time_mix_w1.weight", &[DECAY, HIDDEN]),
    layer("attention.w0.weight", "time_mix_w0.weight", &[HIDDEN]),
    layer("attention.w2.weight", "time_mix_w2.weight", &[HIDDEN, DECAY]),
    layer("attention.k_k", "time_mix_k_k.weight", &[HIDDEN]),
    layer("attention.k_a", "time_mix_k_a.weight", &[HIDDEN]),
    layer("attention.r_k", "time_mix_r_k.weight", &[HIDDEN])
        .with(&[Change::Shaped(&[HEAD_COUNT, HEAD_SIZE], &[HIDDEN])]),
    layer("attention.k_proj.*", "time_mix_key.*", &[HIDDEN, HIDDEN]),
    layer("attention.v_proj.*", "time_mix_value.*", &[HIDDEN, HIDDEN]),
    layer("attention.r_proj.*", "time_mix_receptance.*", &[HIDDEN, HIDDEN]),
    layer("attention.o_proj.*", "time_mix_output.*", &[HIDDEN, HIDDEN]),
    layer("attention.ln_x.*", "time_mix_ln.*", &[HIDDEN]).biased(Need::Always),
    layer("feed_forward.x_k", "channel_mix_lerp_k.weight", &[HIDDEN]),
    layer("feed_forward.key.*", "channel_mix_key.*", &[FOUR_HIDDEN, HIDDEN]),
    layer("feed_forward.value.*", "channel_mix_value.*", &[HIDDEN, FOUR_HIDDEN]),
];

const RWKV7_KEYS: &[Key] = &[
    CONTEXT,
    count("embedding_length", &["hidden_size"]),
    count("block_count", LAYER_KEYS),
    real_fn("attention.layer_norm_epsilon", |config| config.real(&["layer_norm_epsilon", "norm_eps"])),
    count_fn("wkv.head_size", |config| (HEAD_SIZE.of)(config).map(Some)),
    count_fn("attention.decay_lora_rank", |config| (DECAY.of)(config).map(Some)),
    count_fn("attention.iclr_lora_rank", |config| (RATE.of)(config).map(Some)),
    count_fn("attention.value_residual_mix_lora_rank", |config| (VALUE_MIX.of)(config).map(Some)),
    count_fn("attention.gate_lora_rank", |config| (GATE.of)(config).map(Some)),
    count_fn("feed_forward_length", |config| (FOUR_HIDDEN.of)(config).map(Some)),
    FILE_TYPE,
    NO_HEADS,
];
