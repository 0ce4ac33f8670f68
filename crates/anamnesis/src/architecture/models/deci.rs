//! Deci: heads and widths by layer, some layers without attention or feed-forward network.

use crate::architecture::families::LLAMA;
use crate::architecture::prelude::*;
use serde_json::Value;

/// Deci: heads and widths by layer, some layers without attention or feed-forward network.
pub(super) static DECI_BLOCKS: Architecture = Architecture {
    name: "deci",
    classes: &[class("DeciLMForCausalLM", "nemotron-nas")],
    applies: |raw| raw.contains_key("block_configs"),
    rules: &[EMBED_NORM_HEAD, DECI_BLOCK_TENSORS],
    keys: &[DECI_BLOCK_KEYS, VOCABULARY_AND_ROPE],
    tokenizer: DECI_TOKENS,
    ..LLAMA
};

pub(super) static DECI: Architecture = Architecture {
    name: "deci",
    classes: &[class("DeciLMForCausalLM", "deci")],
    applies: |raw| !raw.contains_key("block_configs"),
    rules: &[EMBED_NORM_HEAD, NORMS, DECI_ATTENTION, GATED_FFN],
    keys: &[COMMON, DECI_KEYS, VOCABULARY_AND_ROPE],
    tokenizer: DECI_TOKENS,
    ..LLAMA
};

const DECI_TOKENS: TokenizerRules = TokenizerRules { pieces_in_json: true, ..BPE };

fn deci_kv(config: &Config, layer: u64) -> Result<u64> {
    match config.count_of_layer("num_key_value_heads_per_layer", layer)? {
        Some(heads) => Ok(heads),
        None => kv_heads(config),
    }
}

const DECI_KV: Size = layer_size(
    |config, layer| Ok(deci_kv(config, layer)?.saturating_mul(config.head_size()?)),
    "num_key_value_heads_per_layer, num_key_value_heads, hidden_size",
    "attention.head_count_kv",
);

const ROTARY_HEAD: &[Change] = &[Change::RotaryOf(HEAD_DIM)];

const DECI_ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).with(ROTARY_HEAD).biased(OPTIONAL),
    layer("self_attn.k_proj.*", "attn_k.*", &[DECI_KV, HIDDEN]).with(ROTARY_HEAD).biased(OPTIONAL),
    layer("self_attn.v_proj.*", "attn_v.*", &[DECI_KV, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]).biased(OPTIONAL),
];

const DECI_KEYS: &[Key] =
    &[ints_fn("attention.head_count_kv", |config| match config.get("num_key_value_heads_per_layer") {
        Some(_) => config.per_layer(|layer| Ok(deci_kv(config, layer)? as i32)).map(Some),
        None => Ok(None),
    })];

/// A block of `block_configs`.
fn block(config: &Config, layer: u64, part: &str, key: &str) -> Result<Option<Value>> {
    let blocks = config.get("block_configs").and_then(Value::as_array);
    let block = blocks.and_then(|blocks| blocks.get(usize::try_from(layer).unwrap_or(usize::MAX)));
    let Some(block) = block.and_then(|block| block.get(part)) else {
        return Err(AnamnesisError::parse(format!("config.json: \"block_configs\" has no {part} of layer {layer}")));
    };
    Ok(block.get(key).filter(|value| !value.is_null()).cloned())
}

fn block_kv(config: &Config, layer: u64) -> Result<u64> {
    match block(config, layer, "attention", "n_heads_in_group")?.map(|value| value.as_u64()) {
        None => Ok(0),
        Some(Some(group @ 1..)) => Ok(heads(config)? / group),
        Some(_) => Err(AnamnesisError::parse("config.json: \"n_heads_in_group\" in \"block_configs\" is no count")),
    }
}

fn is_linear_block(config: &Config, layer: u64) -> Result<bool> {
    let is_linear = block(config, layer, "attention", "replace_with_linear")?;
    Ok(block_kv(config, layer)? == 0 && is_linear == Some(Value::Bool(true)))
}

fn block_inner(config: &Config, layer: u64) -> Result<u64> {
    let multiplier = block(config, layer, "ffn", "ffn_mult")?.and_then(|value| value.as_f64()).unwrap_or(0.0);
    let inner = (2.0 * multiplier * config.needed("hidden_size")? as f64 / 3.0) as u64;
    Ok(inner.checked_next_multiple_of(256).unwrap_or(u64::MAX))
}

const BLOCKS: &str = "block_configs: n_heads_in_group, ffn_mult";

const BLOCK_FULL: Need = Need::When(BLOCKS, |config, layer| Ok(needed_if(block_kv(config, layer)? > 0)));

const BLOCK_LINEAR: Need = Need::When(BLOCKS, |config, layer| Ok(needed_if(is_linear_block(config, layer)?)));

const BLOCK_ANY: Need =
    Need::When(BLOCKS, |config, layer| Ok(needed_if(block_kv(config, layer)? > 0 || is_linear_block(config, layer)?)));

const BLOCK_FFN: Need = Need::When(BLOCKS, |config, layer| Ok(needed_if(block_inner(config, layer)? > 0)));

const BLOCK_KV: Size = layer_size(
    |config, layer| Ok(block_kv(config, layer)?.saturating_mul(config.head_size()?)),
    "block_configs, num_attention_heads, hidden_size",
    "attention.head_count_kv",
);

const BLOCK_INNER: Size = layer_size(block_inner, "block_configs: ffn_mult, hidden_size", "feed_forward_length");

const DECI_BLOCK_TENSORS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).when(BLOCK_ANY),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).when(BLOCK_FFN),
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).with(ROTARY_HEAD).when(BLOCK_FULL),
    layer("self_attn.k_proj.*", "attn_k.*", &[BLOCK_KV, HIDDEN]).with(ROTARY_HEAD).when(BLOCK_FULL),
    layer("self_attn.v_proj.*", "attn_v.*", &[BLOCK_KV, HIDDEN]).when(BLOCK_FULL),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]).when(BLOCK_ANY),
    layer("self_attn.linear_attn.*", "attn_output.*", &[HIDDEN, Q_DIM]).when(BLOCK_LINEAR),
    layer("mlp.gate_proj.*", "ffn_gate.*", &[BLOCK_INNER, HIDDEN]).when(BLOCK_FFN),
    layer("mlp.up_proj.*", "ffn_up.*", &[BLOCK_INNER, HIDDEN]).when(BLOCK_FFN),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, BLOCK_INNER]).when(BLOCK_FFN),
];

const DECI_BLOCK_KEYS: &[Key] = &[
    real_fn("rope.freq_base", |config| config.rope().theta()),
    ints_fn("attention.head_count_kv", |config| {
        config.per_layer(|layer| Ok(block_kv(config, layer)? as i32)).map(Some)
    }),
    ints_fn("attention.head_count", |config| {
        let all = heads(config)? as i32;
        let of_layer =
            |layer| Ok(if block_kv(config, layer)? > 0 || is_linear_block(config, layer)? { all } else { 0 });
        config.per_layer(of_layer).map(Some)
    }),
    ints_fn("feed_forward_length", |config| config.per_layer(|layer| Ok(block_inner(config, layer)? as i32)).map(Some)),
    count("block_count", LAYER_KEYS),
    count("context_length", &["max_position_embeddings"]),
    count("embedding_length", &["hidden_size"]),
    real("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    count_fn("attention.key_length", |config| config.share_of_width().map(Some)),
    count_fn("attention.value_length", |config| config.share_of_width().map(Some)),
    FILE_TYPE,
];
