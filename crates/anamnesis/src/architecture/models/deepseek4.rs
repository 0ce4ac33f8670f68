//! DeepSeek V4: compressed attention, hyper-connections, experts of four-bit floats, and layers that route by token.
//!
//! Matrices keep the type they are stored in; those of FP8 become Q8_0. Layers for multi-token prediction are left out.

use crate::architecture::latent::Q_RANK;
use crate::architecture::prelude::*;

use super::deepseek::INDEXER_KEYS;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "deepseek4",
    classes: &[class("DeepseekV4ForCausalLM", "deepseek_v4")],
    layer_prefix: "layers.",
    dropped: &["mtp.", "aligner.", "image_"],
    rules: &[OUTER, ATTENTION_RULES, COMPRESSOR, INDEXER, HYPER_CONNECTIONS, ROUTER, EXPERT_RULES],
    first_keys: TEMPLATE,
    keys: &[COMMON, KEYS, INDEXER_KEYS, FURTHER_KEYS],
    tokenizer: TokenizerRules {
        overrides: TokenOverrides { unwritten_template: Some("deepseek-ai-DeepSeek-V4.jinja"), ..NO_OVERRIDES },
        ..BPE
    },
    blocks_by_layer: true,
    types: TypeRules::AS_STORED.and_tables(&[("ffn_gate_tid2eid.weight", IntegerTable::I32)]),
    restore: None,
    not_held: Some("the FP8 matrices, which are Q8_0, and the layers for multi-token prediction"),
    ..DECODER
};

/// The place of the template, before all other keys.
pub(super) const TEMPLATE: &[Key] = &[text_fn("tokenizer.chat_template", |_| Ok(Some("")))];

const OUTER: &[Rule] = &[
    model("embed.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("norm.*", "output_norm.*", &[HIDDEN]),
    model("head.*", "output.*", &[VOCAB, HIDDEN]),
    layer("attn_norm.*", "attn_norm.*", &[HIDDEN]),
    layer("ffn_norm.*", "ffn_norm.*", &[HIDDEN]),
];

const OUTPUT_ROWS: Size = size(
    |config| Ok(config.needed("o_groups")?.saturating_mul(config.needed("o_lora_rank")?)),
    "o_groups, o_lora_rank",
    "attention.output_group_count, attention.output_lora_rank",
);
const OUTPUT_COLUMNS: Size = size(
    |config| Ok((Q_DIM.of)(config)? / config.divisor("o_groups")?),
    "num_attention_heads, head_dim, o_groups",
    "attention.head_count, attention.key_length, attention.output_group_count",
);

pub(super) const ATTENTION_RULES: &[Rule] = &[
    layer("attn.attn_sink", "attn_sinks.weight", &[HEADS]),
    layer("attn.wq_a.*", "attn_q_a.*", &[Q_RANK, HIDDEN]),
    layer("attn.q_norm.*", "attn_q_a_norm.*", &[Q_RANK]),
    layer("attn.wq_b.*", "attn_q_b.*", &[Q_DIM, Q_RANK]),
    layer("attn.wkv.*", "attn_kv.*", &[HEAD_DIM, HIDDEN]),
    layer("attn.kv_norm.*", "attn_kv_a_norm.*", &[HEAD_DIM]),
    layer("attn.wo_a.*", "attn_output_a.*", &[OUTPUT_ROWS, OUTPUT_COLUMNS]),
    layer("attn.wo_b.*", "attn_output_b.*", &[HIDDEN, OUTPUT_ROWS]),
];

/// How many keys and values of a layer become one; 0 if they are not compressed.
fn ratio(config: &Config, layer: u64) -> Result<u64> {
    Ok(config.count_of_layer(RATIOS, layer)?.unwrap_or(0))
}

/// Layers that compress this many overlap, and have an indexer.
const OVERLAPPING: u64 = 4;
const RATIOS: &str = "compress_ratios";
pub(super) const RATIO_KEY: &str = "attention.compress_ratios";
const COMPRESSED: Need = Need::When(RATIOS, |config, layer| Ok(needed_if(ratio(config, layer)? != 0)));
const INDEXED: Need = Need::When(RATIOS, |config, layer| Ok(needed_if(ratio(config, layer)? == OVERLAPPING)));

/// The size of what is compressed, twice as large in layers that overlap.
fn compressed(config: &Config, layer: u64, size: u64) -> Result<u64> {
    Ok(if ratio(config, layer)? == OVERLAPPING { size.saturating_mul(2) } else { size })
}

const RATIO: Size = layer_size(ratio, RATIOS, RATIO_KEY);
const COMPRESSED_DIM: Size =
    layer_size(|config, layer| compressed(config, layer, config.head_size()?), "compress_ratios, head_dim", RATIO_KEY);
const INDEX_DIM: Size =
    size(|config| config.needed("index_head_dim"), "index_head_dim", "attention.indexer.key_length");
const COMPRESSED_INDEX: Size = layer_size(
    |config, layer| compressed(config, layer, config.needed("index_head_dim")?),
    "compress_ratios, index_head_dim",
    RATIO_KEY,
);
const INDEX_HEADS: Size =
    size(|config| config.needed("index_n_heads"), "index_n_heads", "attention.indexer.head_count");
const INDEX_ROWS: Size = size(
    |config| Ok((INDEX_HEADS.of)(config)?.saturating_mul((INDEX_DIM.of)(config)?)),
    "index_n_heads, index_head_dim",
    "attention.indexer.head_count, attention.indexer.key_length",
);

const COMPRESSOR: &[Rule] = &[
    layer("attn.compressor.ape", "attn_compressor_ape.weight", &[RATIO, COMPRESSED_DIM]).when(COMPRESSED),
    layer("attn.compressor.wkv.*", "attn_compressor_kv.*", &[COMPRESSED_DIM, HIDDEN]).when(COMPRESSED),
    layer("attn.compressor.wgate.*", "attn_compressor_gate.*", &[COMPRESSED_DIM, HIDDEN]).when(COMPRESSED),
    layer("attn.compressor.norm.*", "attn_compressor_norm.*", &[HEAD_DIM]).when(COMPRESSED),
];

const INDEXER: &[Rule] = &[
    layer("attn.indexer.wq_b.*", "indexer.attn_q_b.*", &[INDEX_ROWS, Q_RANK]).when(INDEXED),
    layer("attn.indexer.weights_proj.*", "indexer.proj.*", &[INDEX_HEADS, HIDDEN]).when(INDEXED),
    layer("attn.indexer.compressor.ape", "indexer_compressor_ape.weight", &[RATIO, COMPRESSED_INDEX]).when(INDEXED),
    layer("attn.indexer.compressor.wkv.*", "indexer_compressor_kv.*", &[COMPRESSED_INDEX, HIDDEN]).when(INDEXED),
    layer("attn.indexer.compressor.wgate.*", "indexer_compressor_gate.*", &[COMPRESSED_INDEX, HIDDEN]).when(INDEXED),
    layer("attn.indexer.compressor.norm.*", "indexer_compressor_norm.*", &[INDEX_DIM]).when(INDEXED),
];

const STREAMS: Size = size(|config| config.needed("hc_mult"), "hc_mult", "hyper_connection.count");
const ALL_STREAMS: Size = size(
    |config| Ok((STREAMS.of)(config)?.saturating_mul(first(config, HIDDEN_KEYS)?)),
    "hc_mult, hidden_size",
    "hyper_connection.count, embedding_length",
);
/// Weights before and after a block, and those that mix the streams.
const MIXED_STREAMS: Size = size(
    |config| (STREAMS.of)(config).map(|streams| streams.saturating_add(2).saturating_mul(streams)),
    STREAMS.hf,
    STREAMS.gguf,
);
const THREE: Size = size(|_| Ok(3), "", "");

pub(super) const HYPER_CONNECTIONS: &[Rule] = &[
    model("hc_head_base", "output_hc_base.weight", &[STREAMS]),
    model("hc_head_fn", "output_hc_fn.weight", &[STREAMS, ALL_STREAMS]),
    model("hc_head_scale", "output_hc_scale.weight", &[ONE]),
    layer("hc_attn_base", "hc_attn_base.weight", &[MIXED_STREAMS]),
    layer("hc_attn_fn", "hc_attn_fn.weight", &[MIXED_STREAMS, ALL_STREAMS]),
    layer("hc_attn_scale", "hc_attn_scale.weight", &[THREE]),
    layer("hc_ffn_base", "hc_ffn_base.weight", &[MIXED_STREAMS]),
    layer("hc_ffn_fn", "hc_ffn_fn.weight", &[MIXED_STREAMS, ALL_STREAMS]),
    layer("hc_ffn_scale", "hc_ffn_scale.weight", &[THREE]),
];

/// Whether a layer looks its experts up by token.
fn is_hashed(config: &Config, layer: u64) -> Result<bool> {
    Ok(layer < config.needed("num_hash_layers")?)
}

const HASHED: Need = Need::When("num_hash_layers", |config, layer| Ok(needed_if(is_hashed(config, layer)?)));
const SCORED: Need = Need::When("num_hash_layers", |config, layer| Ok(needed_if(!is_hashed(config, layer)?)));
/// Hashed layers may have a bias that is not used.
const UNUSED: Need = Need::When("num_hash_layers", |config, layer| match is_hashed(config, layer)? {
    true => Ok(Presence::Loose),
    false => Ok(Presence::Surplus),
});
const USED_EXPERTS: Size =
    size(|config| config.needed("num_experts_per_tok"), "num_experts_per_tok", "expert_used_count");

const ROUTER: &[Rule] = &[
    layer("ffn.gate.tid2eid", "ffn_gate_tid2eid.weight", &[VOCAB, USED_EXPERTS]).when(HASHED),
    layer("ffn.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]),
    layer("ffn.gate.bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(SCORED),
    layer("ffn.gate.bias", "unused.bias", &[EXPERT_COUNT]).when(UNUSED).left_out(),
    layer("ffn.gate.bias_vl", "exp_probs_b_vl.bias", &[EXPERT_COUNT]).when(OPTIONAL),
];

pub(super) const EXPERT_RULES: &[Rule] = &[
    layer("ffn.experts.{X}.w1.weight", "ffn_gate_exps.weight", EXPERTS_UP),
    layer("ffn.experts.{X}.w2.weight", "ffn_down_exps.weight", EXPERTS_DOWN),
    layer("ffn.experts.{X}.w3.weight", "ffn_up_exps.weight", EXPERTS_UP),
    layer("ffn.shared_experts.w1.*", "ffn_gate_shexp.*", &[SHARED_FFN, HIDDEN]),
    layer("ffn.shared_experts.w2.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_FFN]),
    layer("ffn.shared_experts.w3.*", "ffn_up_shexp.*", &[SHARED_FFN, HIDDEN]),
];

pub(super) const KEYS: &[Key] = &[
    count_fn("rope.dimension_count", rotated),
    needed("attention.q_lora_rank", "q_lora_rank"),
    needed("attention.sliding_window", "sliding_window"),
    needed("expert_feed_forward_length", "moe_intermediate_size"),
    needed("expert_shared_count", "n_shared_experts"),
    needed_real("expert_weights_scale", "routed_scaling_factor"),
    flag("expert_weights_norm", "norm_topk_prob"),
    reals_fn("swiglu_clamp_exp", limits),
    reals_fn("swiglu_clamp_shexp", limits),
];

/// The dimensions of a head that positions rotate.
fn rotated(config: &Config) -> Result<Option<u64>> {
    let (rotated, size) = (config.divisor("qk_rope_head_dim")?, config.head_size()?);
    if rotated <= size {
        return Ok(Some(rotated));
    }
    let why = format!("config.json: \"qk_rope_head_dim\" is {rotated}, a head has {size} dimensions (head_dim)");
    Err(AnamnesisError::parse(why))
}

fn limits(config: &Config) -> Result<Option<Vec<f32>>> {
    let limit = config.needed_real("swiglu_limit")? as f32;
    config.per_layer(|_| Ok(limit)).map(Some)
}

pub(super) const FURTHER_KEYS: &[Key] = &[
    needed("attention.output_group_count", "o_groups"),
    needed("attention.output_lora_rank", "o_lora_rank"),
    ints_fn(RATIO_KEY, |config| {
        let ratios = config.counts(RATIOS)?.unwrap_or_default();
        Ok(Some(ratios.into_iter().map(|ratio| i32::try_from(ratio).unwrap_or(i32::MAX)).collect()))
    }),
    needed_real("attention.compress_rope_freq_base", "compress_rope_theta"),
    needed("hyper_connection.count", "hc_mult"),
    needed("hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters"),
    needed_real("hyper_connection.epsilon", "hc_eps"),
    needed("hash_layer_count", "num_hash_layers"),
    count_fn("embedding_length_out", |config| (ALL_STREAMS.of)(config).map(Some)),
];
