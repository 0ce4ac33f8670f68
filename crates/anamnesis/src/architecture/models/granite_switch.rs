//! Granite Switch: Granite with adapters that control tokens switch on. Their factors are stacked, after a first one of zeros.

use super::granite::{self, KEYS as SCALED};
use crate::architecture::families::LLAMA;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "graniteswitch",
    classes: &[class("GraniteSwitchForCausalLM", "granite_switch")],
    dropped: &["model.switch.", "switch.", "model.adapter_token_ids", "model.control_to_substitute_lut"],
    rules: &[OUTER, TENSORS, FACTORS],
    keys: &[COMMON, NO_HEAD_SIZE, SCALED, KEYS],
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Digits, "refact"), (PreTokenizer::Llama3, "dbrx")],
        ..LLAMA_LIKE
    },
    head: Head::Never,
    restore: Some(|file, config| {
        restore::plain(file, config)?;
        granite::restore_scales(file, config);
        set(config, "num_hidden_layers", file.count("block_count").map(|layers| layers.saturating_add(1)));
        set(config, "num_local_experts", 0);
        for (key, name) in TOKENS {
            set(config, name, file.count_or_list(key));
        }
        Ok(0)
    }),
    ..LLAMA
};

const INNER: Size = size(
    |config| config.needed("shared_intermediate_size"),
    "shared_intermediate_size",
    "expert_shared_feed_forward_length",
);
const ADAPTERS: Size = size(|config| config.needed("num_adapters"), "num_adapters", "adapters.count");
/// The adapters with the first, of zeros.
const SLOTS: Size =
    size(|config| Ok(config.needed("num_adapters")?.saturating_add(1)), "num_adapters", "adapters.count");
const RANK: Size = size(|config| config.needed("max_lora_rank"), "max_lora_rank", "adapters.lora_rank");
const HEAD_SIZE: Size = size(
    |config| match config.count(&["projection_head_dim", "head_dim"])?.filter(|size| *size > 0) {
        Some(size) => Ok(size),
        None => config.share_of_width(),
    },
    "projection_head_dim, head_dim, hidden_size, num_attention_heads",
    "embedding_length, attention.head_count",
);
const QUERIES: Size = size(
    |config| Ok(heads(config)?.saturating_mul((HEAD_SIZE.of)(config)?)),
    "num_attention_heads, head_dim",
    "attention.head_count, embedding_length",
);
const KEYS_SIZE: Size = size(
    |config| Ok(kv_heads(config)?.saturating_mul((HEAD_SIZE.of)(config)?)),
    "num_key_value_heads, head_dim",
    "attention.head_count_kv, embedding_length",
);
const ROTATED: Size = size(
    |config| Ok((QUERIES.of)(config)?.saturating_add((KEYS_SIZE.of)(config)?)),
    "num_attention_heads, num_key_value_heads, head_dim",
    "attention.head_count, attention.head_count_kv",
);
const FUSED: Size = size(
    |config| Ok((ROTATED.of)(config)?.saturating_add((KEYS_SIZE.of)(config)?)),
    "num_attention_heads, num_key_value_heads, head_dim",
    "attention.head_count, attention.head_count_kv",
);

const OUTER: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL).left_out(),
];

const TENSORS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("self_attn.qkv_proj.base_layer.weight", "attn_qkv.weight", &[FUSED, HIDDEN])
        .with(&[Change::RotaryOfFirst(ROTATED, HEAD_SIZE)]),
    layer("self_attn.o_proj.base_layer.weight", "attn_output.weight", &[HIDDEN, QUERIES]),
    layer("shared_mlp.input_linear.base_layer.weight", "ffn_gate.weight", &[INNER, HIDDEN])
        .with(&[Change::First(Halves::Rows)]),
    layer("shared_mlp.input_linear.base_layer.weight", "ffn_up.weight", &[INNER, HIDDEN])
        .with(&[Change::Second(Halves::Rows)]),
    layer("shared_mlp.output_linear.base_layer.weight", "ffn_down.weight", &[HIDDEN, INNER]),
];

/// A factor of all adapters.
const fn factor(hf: &'static str, gguf: &'static str, changes: &'static [Change], shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).with(changes)
}

const FROM_HIDDEN: &[Change] =
    &[Change::Shaped(&[ADAPTERS, ONE, RANK, HIDDEN], &[ADAPTERS, RANK, HIDDEN]), Change::ZerosFirst];
const FROM_QUERIES: &[Change] =
    &[Change::Shaped(&[ADAPTERS, ONE, RANK, QUERIES], &[ADAPTERS, RANK, QUERIES]), Change::ZerosFirst];
const FROM_INNER: &[Change] =
    &[Change::Shaped(&[ADAPTERS, ONE, RANK, INNER], &[ADAPTERS, RANK, INNER]), Change::ZerosFirst];
const TO_HIDDEN: &[Change] =
    &[Change::Shaped(&[ADAPTERS, ONE, HIDDEN, RANK], &[ADAPTERS, HIDDEN, RANK]), Change::ZerosFirst];
const TO_KEYS: &[Change] =
    &[Change::Shaped(&[ADAPTERS, ONE, KEYS_SIZE, RANK], &[ADAPTERS, KEYS_SIZE, RANK]), Change::ZerosFirst];
const TO_INNER: &[Change] =
    &[Change::Shaped(&[ADAPTERS, ONE, INNER, RANK], &[ADAPTERS, INNER, RANK]), Change::ZerosFirst];

/// The rows of all adapters.
const ALL_QUERIES: Size = size(
    |config| Ok((ADAPTERS.of)(config)?.saturating_mul((QUERIES.of)(config)?)),
    "num_adapters, num_attention_heads",
    "adapters.count",
);
const ALL_KEYS: Size = size(
    |config| Ok((ADAPTERS.of)(config)?.saturating_mul((KEYS_SIZE.of)(config)?)),
    "num_adapters, num_key_value_heads",
    "adapters.count",
);
const TO_ROTATED_QUERIES: &[Change] = &[
    Change::Shaped(&[ADAPTERS, ONE, QUERIES, RANK], &[ALL_QUERIES, RANK]),
    Change::RotaryOf(HEAD_SIZE),
    Change::Shaped(&[ALL_QUERIES, RANK], &[ADAPTERS, QUERIES, RANK]),
    Change::ZerosFirst,
];
const TO_ROTATED_KEYS: &[Change] = &[
    Change::Shaped(&[ADAPTERS, ONE, KEYS_SIZE, RANK], &[ALL_KEYS, RANK]),
    Change::RotaryOf(HEAD_SIZE),
    Change::Shaped(&[ALL_KEYS, RANK], &[ADAPTERS, KEYS_SIZE, RANK]),
    Change::ZerosFirst,
];

const FACTORS: &[Rule] = &[
    factor("self_attn.qkv_proj.lora_A_slices.0", "attn_q.lora_a", FROM_HIDDEN, &[SLOTS, RANK, HIDDEN]),
    factor("self_attn.qkv_proj.lora_A_slices.1", "attn_k.lora_a", FROM_HIDDEN, &[SLOTS, RANK, HIDDEN]),
    factor("self_attn.qkv_proj.lora_A_slices.2", "attn_v.lora_a", FROM_HIDDEN, &[SLOTS, RANK, HIDDEN]),
    factor("self_attn.qkv_proj.lora_B_slices.0", "attn_q.lora_b", TO_ROTATED_QUERIES, &[SLOTS, QUERIES, RANK]),
    factor("self_attn.qkv_proj.lora_B_slices.1", "attn_k.lora_b", TO_ROTATED_KEYS, &[SLOTS, KEYS_SIZE, RANK]),
    factor("self_attn.qkv_proj.lora_B_slices.2", "attn_v.lora_b", TO_KEYS, &[SLOTS, KEYS_SIZE, RANK]),
    factor("self_attn.o_proj.lora_A", "attn_output.lora_a", FROM_QUERIES, &[SLOTS, RANK, QUERIES]),
    factor("self_attn.o_proj.lora_B", "attn_output.lora_b", TO_HIDDEN, &[SLOTS, HIDDEN, RANK]),
    factor("shared_mlp.input_linear.lora_A_slices.0", "ffn_gate.lora_a", FROM_HIDDEN, &[SLOTS, RANK, HIDDEN]),
    factor("shared_mlp.input_linear.lora_A_slices.1", "ffn_up.lora_a", FROM_HIDDEN, &[SLOTS, RANK, HIDDEN]),
    factor("shared_mlp.input_linear.lora_B_slices.0", "ffn_gate.lora_b", TO_INNER, &[SLOTS, INNER, RANK]),
    factor("shared_mlp.input_linear.lora_B_slices.1", "ffn_up.lora_b", TO_INNER, &[SLOTS, INNER, RANK]),
    factor("shared_mlp.output_linear.lora_A", "ffn_down.lora_a", FROM_INNER, &[SLOTS, RANK, INNER]),
    factor("shared_mlp.output_linear.lora_B", "ffn_down.lora_b", TO_HIDDEN, &[SLOTS, HIDDEN, RANK]),
];

const NO_HEAD_SIZE: &[Key] = &[removed("attention.key_length"), removed("attention.value_length")];

/// The tokens that switch adapters on, and those that replace them.
const TOKENS: [(&str, &str); 2] = [
    ("adapters.token_ids_activate", "adapter_token_ids"),
    ("adapters.token_ids_substitute", "adapter_substitute_token_ids"),
];

fn tokens(config: &Config, key: &str) -> Result<Option<Vec<i32>>> {
    let Some(ids) = config.counts(key)? else {
        return Err(AnamnesisError::parse(format!("config.json: \"{key}\" is missing")));
    };
    Ok(Some(ids.into_iter().map(|id| i32::try_from(id).unwrap_or(i32::MAX)).collect()))
}

const KEYS: &[Key] = &[
    count_fn("expert_used_count", |config| match config.count(&["num_local_experts"])? {
        None | Some(0) => Ok(Some(0)),
        Some(experts) => {
            let why = format!("config.json: \"num_local_experts\" is {experts}, a model with adapters has none");
            Err(AnamnesisError::parse(why))
        }
    }),
    count_fn("expert_shared_feed_forward_length", |config| {
        Ok(config.count(&["shared_intermediate_size"])?.filter(|size| *size > 0))
    }),
    needed("adapters.count", "num_adapters"),
    needed("adapters.lora_rank", "max_lora_rank"),
    ints_fn(TOKENS[0].0, |config| tokens(config, TOKENS[0].1)),
    ints_fn(TOKENS[1].0, |config| tokens(config, TOKENS[1].1)),
    real_or("adapters.router_gain", &["control_token_gain"], 15.0),
];
