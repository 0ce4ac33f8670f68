//! Qwen 4 Exp: hyper-connections in place of norms, an indexer for full attention, and embeddings of n-grams in one layer.

use serde_json::Value;

use super::qwen3next::{FULL, GATED_ATTENTION, KEYS, LINEAR_TILED, SECTIONS, is_linear};
use crate::architecture::families::QWEN3_MOE;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen4exp",
    classes: &[class("Qwen4ExpForCausalLM", "qwen4_exp_text"), class("Qwen4ExpForConditionalGeneration", "qwen4_exp")],
    renames: &[Rename::OutOfLayers("ple.ple_embedding."), Rename::Prefix("model.mtp.", "mtp.")],
    dropped: &["mtp."],
    rules: &[ENDS, HYPER_CONNECTIONS, GATED_ATTENTION, INDEXER, LINEAR_TILED, EXPERTS, SHARED_EXPERT, NGRAMS],
    keys: &[COMMON, EXPERT_SIZES, KEYS, SECTIONS, OWN_KEYS, NGRAM_KEYS],
    read_tensors: &[
        read(MULTIPLIERS, Measure::Integers),
        read(OFFSETS, Measure::Integers),
        read(VOCAB_SIZES, Measure::Integers),
    ],
    tokenizer: BPE,
    restore: None,
    not_held: Some("the settings of its n-grams, and the layers for multi-token prediction"),
    ..QWEN3_MOE
};

const MULTIPLIERS: &str = "ple.ple_embedding.layer_multipliers";
const OFFSETS: &str = "ple.ple_embedding.ngram_heads_offsets";
const VOCAB_SIZES: &str = "ple.ple_embedding.ngram_heads_vocab_sizes";

const STREAMS: Size = size(|config| config.needed("hc_count"), "hc_count", "hyper_connection.count");
const ALL_STREAMS: Size = size(
    |config| Ok((STREAMS.of)(config)?.saturating_mul(first(config, HIDDEN_KEYS)?)),
    "hc_count, hidden_size",
    "hyper_connection.count, embedding_length",
);
const MIX_RANK: Size = size(|config| config.needed("hc_lowrank"), "hc_lowrank", "hyper_connection.low_rank");

const ENDS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
];

const PLUS_ONE: &[Change] = &[Change::PlusOne];

/// The mixes of residual streams before attention, before the experts and at the end.
const HYPER_CONNECTIONS: &[Rule] = &[
    model("model.hyper_connection_mixer.hc_norm.weight", "output_hc_norm.weight", &[ALL_STREAMS]).with(PLUS_ONE),
    model(
        "model.hyper_connection_mixer.input_mix_weight_down.weight",
        "output_hc_down.weight",
        &[MIX_RANK, ALL_STREAMS],
    ),
    model("model.hyper_connection_mixer.input_mix_weight_up.weight", "output_hc_up.weight", &[ALL_STREAMS, MIX_RANK]),
    layer("attn_hyper_connection.hc_norm.weight", "hc_attn_norm.weight", &[ALL_STREAMS]).with(PLUS_ONE),
    layer("attn_hyper_connection.input_mix_weight_down.weight", "hc_attn_down.weight", &[MIX_RANK, ALL_STREAMS]),
    layer("attn_hyper_connection.input_mix_weight_up.weight", "hc_attn_up.weight", &[ALL_STREAMS, MIX_RANK]),
    layer("attn_hyper_connection.block_inject_weight.weight", "hc_attn_inject.weight", &[STREAMS, ALL_STREAMS]),
    layer("mlp_hyper_connection.hc_norm.weight", "hc_ffn_norm.weight", &[ALL_STREAMS]).with(PLUS_ONE),
    layer("mlp_hyper_connection.input_mix_weight_down.weight", "hc_ffn_down.weight", &[MIX_RANK, ALL_STREAMS]),
    layer("mlp_hyper_connection.input_mix_weight_up.weight", "hc_ffn_up.weight", &[ALL_STREAMS, MIX_RANK]),
    layer("mlp_hyper_connection.block_inject_weight.weight", "hc_ffn_inject.weight", &[STREAMS, ALL_STREAMS]),
];

const INDEX_SIZE: Size =
    size(|config| config.needed("indexer_head_dim"), "indexer_head_dim", "attention.indexer.key_length");
const INDEX_QUERIES: Size = size(
    |config| Ok(config.needed("indexer_n_heads")?.saturating_mul(config.needed("indexer_head_dim")?)),
    "indexer_n_heads, indexer_head_dim",
    "attention.indexer.head_count, attention.indexer.key_length",
);
/// The rows of queries and of the key in one projection.
const INDEX_PARTS: &[Size] = &[INDEX_QUERIES, INDEX_SIZE];

const INDEXER: &[Rule] = &[
    layer("self_attn.indexer.index_qk_proj.weight", "indexer.q_proj.weight", &[INDEX_QUERIES, HIDDEN])
        .with(&[Change::Parts(&Parts { groups: ONE, parts: INDEX_PARTS, first: 0, count: 1 })])
        .when(FULL),
    layer("self_attn.indexer.index_qk_proj.weight", "indexer.k_proj.weight", &[INDEX_SIZE, HIDDEN])
        .with(&[Change::Parts(&Parts { groups: ONE, parts: INDEX_PARTS, first: 1, count: 1 })])
        .when(FULL),
    layer("self_attn.indexer.q_layernorm.weight", "indexer.q_norm.weight", &[INDEX_SIZE]).with(PLUS_ONE).when(FULL),
    layer("self_attn.indexer.k_layernorm.weight", "indexer.k_norm.weight", &[INDEX_SIZE]).with(PLUS_ONE).when(FULL),
];

/// The layers with embeddings of n-grams, counted from 1.
const LAYERS: &str = "ple_layer_ids";

/// The layer with embeddings of n-grams, counted from 0.
fn ngram_layer(config: &Config) -> Result<Option<u64>> {
    match config.counts(LAYERS)?.unwrap_or_default()[..] {
        [] => Ok(None),
        [layer] if layer > 0 => Ok(Some(layer - 1)),
        [..] => Err(AnamnesisError::parse("config.json: \"ple_layer_ids\": one layer at most, from 1 on, is possible")),
    }
}

const OF_NGRAMS: Need =
    Need::When(LAYERS, |config, layer| Ok(needed_if(ngram_layer(config)?.is_some_and(|own| own == layer))));
const WITH_NGRAMS: Need = Need::When(LAYERS, |config, _| Ok(needed_if(ngram_layer(config)?.is_some())));

/// The width of the embeddings of all heads.
const NGRAM_WIDTH: Size = size(
    |config| match config.count(&["ple_embed_dim"])? {
        Some(width) => Ok(width),
        None => first(config, HIDDEN_KEYS),
    },
    "ple_embed_dim, hidden_size",
    "embedding_length",
);
const NGRAM_ROW: Size = size(
    |config| {
        let orders = config.needed("ngram_size")?.saturating_sub(1);
        let heads = orders.saturating_mul(config.needed("heads_per_ngram")?);
        let width = (NGRAM_WIDTH.of)(config)?.checked_div(heads);
        width.ok_or_else(|| AnamnesisError::parse("config.json: \"ngram_size\" and \"heads_per_ngram\" give no heads"))
    },
    "ple_embed_dim, hidden_size, ngram_size, heads_per_ngram",
    "embedding_length_per_layer_input",
);
const PARTS: &[Size] = &[size(|config| config.needed("split_ngram_parts"), "split_ngram_parts", "")];
const NGRAM_KERNEL: Size =
    size(|config| config.needed("ple_conv_kernel_size"), "ple_conv_kernel_size", "ple.conv_kernel");

const NGRAMS: &[Rule] = &[
    model("ple.ple_embedding.ngram_embedding.shard_{X}.weight", "per_layer_token_embd.weight", &[ANY, NGRAM_ROW])
        .with(&[Change::Joined(PARTS)])
        .when(WITH_NGRAMS),
    model(MULTIPLIERS, "ple_layer_multipliers", &[]).when(WITH_NGRAMS).left_out(),
    model(OFFSETS, "ple_head_offsets", &[]).when(WITH_NGRAMS).left_out(),
    model(VOCAB_SIZES, "ple_head_vocab_sizes", &[]).when(WITH_NGRAMS).left_out(),
    layer("ple.key_proj.weight", "ple_key.weight", &[ALL_STREAMS, NGRAM_WIDTH]).when(OF_NGRAMS),
    layer("ple.value_proj.weight", "ple_value.weight", &[HIDDEN, NGRAM_WIDTH]).when(OF_NGRAMS),
    layer("ple.norm_key.weight", "ple_norm_key.weight", &[ALL_STREAMS]).with(PLUS_ONE).when(OF_NGRAMS),
    layer("ple.norm_query.weight", "ple_norm_query.weight", &[ALL_STREAMS]).with(PLUS_ONE).when(OF_NGRAMS),
    layer("ple.norm_conv.weight", "ple_norm_conv.weight", &[ALL_STREAMS]).with(PLUS_ONE).when(OF_NGRAMS),
    layer("ple.conv1d.weight", "ple_conv1d.weight", &[ALL_STREAMS, NGRAM_KERNEL])
        .with(&[Change::WithoutMiddle])
        .when(OF_NGRAMS),
];

const OWN_KEYS: &[Key] = &[
    needed("hyper_connection.count", "hc_count"),
    needed("hyper_connection.low_rank", "hc_lowrank"),
    needed("attention.indexer.head_count", "indexer_n_heads"),
    needed("attention.indexer.key_length", "indexer_head_dim"),
    needed("attention.indexer.top_k", "indexer_budget"),
    ints_fn("attention.compress_ratios", |config| {
        let ratio = i32::try_from(config.needed("indexer_compress_ratio")?).unwrap_or(i32::MAX);
        // Of both names for layers with an indexer, llama.cpp's converter knows "full_attention" only.
        config.per_layer(|layer| Ok(if is_linear(config, layer)? { 0 } else { ratio })).map(Some)
    }),
];

/// A count that models with embeddings of n-grams have.
fn of_ngrams(config: &Config, key: &str) -> Result<Option<u64>> {
    ngram_layer(config)?.map(|_| config.needed(key)).transpose()
}

/// The constants of the hash of n-grams, which tensors have.
fn constants(config: &Config, name: &'static str) -> Result<Option<Vec<u64>>> {
    let Some(_) = ngram_layer(config)? else { return Ok(None) };
    let Some(values) = config.measured.integers(name)? else { return Ok(None) };
    let unsigned = |value: &i64| {
        let why = || AnamnesisError::parse(format!("its value {value} is negative")).in_tensor(name);
        u64::try_from(*value).map_err(|_| why())
    };
    values.iter().map(unsigned).collect::<Result<_>>().map(Some)
}

/// The token that ends n-grams: the last that ends texts.
fn end(config: &Config) -> Result<Option<u64>> {
    let Some(_) = ngram_layer(config)? else { return Ok(None) };
    match config.get("eos_token_id") {
        Some(Value::Array(_)) => match config.counts("eos_token_id")?.unwrap_or_default().last() {
            Some(end) => Ok(Some(*end)),
            None => Err(AnamnesisError::parse("config.json: \"eos_token_id\" is empty")),
        },
        _ => config.needed("eos_token_id").map(Some),
    }
}

const NGRAM_KEYS: &[Key] = &[
    ints_fn(
        "ple.layers",
        |config| Ok(ngram_layer(config)?.map(|layer| vec![i32::try_from(layer).unwrap_or(i32::MAX)])),
    ),
    count_fn("ple.ngram_size", |config| of_ngrams(config, "ngram_size")),
    count_fn("ple.heads_per_ngram", |config| of_ngrams(config, "heads_per_ngram")),
    count_fn("ple.conv_kernel", |config| of_ngrams(config, "ple_conv_kernel_size")),
    count_fn("ple.eos_token_id", end),
    count_fn("ple.image_token_id", |config| match ngram_layer(config)? {
        Some(_) => config.count(&["image_token_id"]),
        None => Ok(None),
    }),
    count_fn("embedding_length_per_layer_input", |config| {
        ngram_layer(config)?.map(|_| (NGRAM_ROW.of)(config)).transpose()
    }),
    longs_fn("ple.layer_multipliers", |config| constants(config, MULTIPLIERS)),
    longs_fn("ple.head_offsets", |config| constants(config, OFFSETS)),
    longs_fn("ple.head_vocab_sizes", |config| constants(config, VOCAB_SIZES)),
];
