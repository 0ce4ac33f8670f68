//! GPT-NeoX, Bloom and Falcon: queries, keys and values in one tensor, head by head.

use super::gpt::{BLOCKS, EPSILON, FOUR, FOUR_HIDDEN, THREE_HIDDEN, WIDTH};
use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

/// Queries, keys and values of every head, one after another.
const BY_HEAD: &Parts = &Parts { groups: HEADS, parts: &[WIDTH, WIDTH, WIDTH], first: 0, count: 3 };

pub(super) static NEOX: Architecture = Architecture {
    name: "gptneox",
    classes: &[class("GPTNeoXForCausalLM", "gpt_neox")],
    layer_prefix: "gpt_neox.layers.",
    rules: &[NEOX_TENSORS],
    keys: &[&[
        count("context_length", &["max_position_embeddings"]),
        count("embedding_length", &["hidden_size"]),
        BLOCKS,
        count("feed_forward_length", &["intermediate_size"]),
        count_fn("rope.dimension_count", |config| {
            let part = match config.real(&["rotary_pct"])? {
                Some(part) => part,
                None => config.rope().real("partial_rotary_factor")?.unwrap_or(0.25),
            };
            Ok(Some((part * (WIDTH.of)(config)? as f64) as u64))
        }),
        count("attention.head_count", &["num_attention_heads"]),
        flag_or("use_parallel_residual", "use_parallel_residual", true),
        real("attention.layer_norm_epsilon", &["layer_norm_eps"]),
    ]],
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Gpt2, "olmo")],
        classes: &[("gpt_neox", TokenizerClass::Registered("GPTNeoXTokenizer"))],
        ..BPE
    },
    ..PLAIN
};

const NEOX_TENSORS: &[Rule] = &[
    model("gpt_neox.embed_in.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("gpt_neox.final_layer_norm.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("embed_out.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("attention.query_key_value.*", "attn_qkv.*", &[THREE_HIDDEN, HIDDEN])
        .with(&[Change::Parts(BY_HEAD)])
        .biased(OPTIONAL),
    layer("attention.dense.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_h_to_4h.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_4h_to_h.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
];

pub(super) static BLOOM: Architecture = Architecture {
    name: "bloom",
    classes: &[class("BloomForCausalLM", "bloom"), class("BloomModel", "bloom")],
    layer_prefix: "h.",
    renames: &[Rename::Prefix("transformer.", "")],
    rules: &[BLOOM_TENSORS],
    keys: &[&[
        count_fn("context_length", |config| match config.count(&["seq_length"])? {
            Some(length) => Ok(Some(length)),
            None => config.count(&["hidden_size", "n_embed"]),
        }),
        count("embedding_length", &["hidden_size", "n_embed"]),
        FOUR,
        BLOCKS,
        count("attention.head_count", &["n_head", "num_attention_heads"]),
        count("attention.head_count_kv", &["n_head", "num_attention_heads"]),
        EPSILON,
        FILE_TYPE,
    ]],
    ..PLAIN
};

const BLOOM_TENSORS: &[Rule] = &[
    model("word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("word_embeddings_layernorm.*", "token_embd_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("ln_f.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("self_attention.query_key_value.*", "attn_qkv.*", &[THREE_HIDDEN, HIDDEN])
        .with(&[Change::Parts(BY_HEAD)])
        .biased(OPTIONAL),
    layer("self_attention.dense.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_h_to_4h.*", "ffn_up.*", &[FOUR_HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_4h_to_h.*", "ffn_down.*", &[HIDDEN, FOUR_HIDDEN]).biased(OPTIONAL),
];

pub(super) static FALCON: Architecture = Architecture {
    name: "falcon",
    classes: &[class("FalconForCausalLM", "falcon"), class("RWForCausalLM", "falcon")],
    layer_prefix: "transformer.h.",
    rules: &[FALCON_TENSORS],
    keys: &[&[
        count_fn("context_length", |_| Ok(Some(2048))),
        text_fn("tensor_data_layout", |_| Ok(Some("jploski"))),
        count("embedding_length", &["hidden_size"]),
        FOUR,
        BLOCKS,
        count("attention.head_count", &["num_attention_heads", "n_head"]),
        count_fn("attention.head_count_kv", |config| falcon_groups(config).map(Some)),
        EPSILON,
        FILE_TYPE,
    ]],
    restore: None,
    not_held: Some("new_decoder_architecture, parallel_attn and bias"),
    ..PLAIN
};

fn falcon_groups(config: &Config) -> Result<u64> {
    Ok(config.count(&["num_kv_heads", "n_head_kv"])?.unwrap_or(1))
}

const GROUPS: Size = size(falcon_groups, "num_kv_heads", "attention.head_count_kv");

/// The queries of a group.
const GROUP_Q: Size = size(
    |config| {
        let per_group = heads(config)?.checked_div(falcon_groups(config)?).unwrap_or(0);
        Ok(per_group.saturating_mul((WIDTH.of)(config)?))
    },
    "num_attention_heads, num_kv_heads, hidden_size",
    "attention.head_count, attention.head_count_kv",
);

const FALCON_DIM: Size = size(
    |config| {
        let per = (GROUP_Q.of)(config)?.saturating_add((WIDTH.of)(config)?.saturating_mul(2));
        Ok(per.saturating_mul(falcon_groups(config)?))
    },
    "num_attention_heads, num_kv_heads, hidden_size",
    "attention.head_count, attention.head_count_kv, embedding_length",
);

const FALCON_TENSORS: &[Rule] = &[
    model("transformer.word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("transformer.ln_f.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("ln_mlp.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("ln_attn.*", "attn_norm_2.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    layer("self_attention.query_key_value.*", "attn_qkv.*", &[FALCON_DIM, HIDDEN])
        .with(&[Change::Parts(&Parts { groups: GROUPS, parts: &[GROUP_Q, WIDTH, WIDTH], first: 0, count: 3 })])
        .biased(OPTIONAL),
    layer("self_attention.dense.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_h_to_4h.*", "ffn_up.*", &[FOUR_HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_4h_to_h.*", "ffn_down.*", &[HIDDEN, FOUR_HIDDEN]).biased(OPTIONAL),
];
