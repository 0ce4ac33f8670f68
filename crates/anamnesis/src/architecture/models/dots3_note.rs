//! dots3-note: DeepSeek's latent attention with an indexer, and latent attention of other sizes in layers with a sliding
//! window. Every head has a gate. The towers are projectors.

use super::deepseek::{INDEX_DIM, INDEX_HEADS, INDEX_SIZE, INDEXER_KEYS};
use crate::architecture::families::DEEPSEEK;
use crate::architecture::latent::{LATENT_KEYS, Q_RANK};
use crate::architecture::prelude::*;
use crate::architecture::value::unexpected;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "dots3note",
    classes: &[
        Class { name: "Dots3NoteForCausalLM", model_type: "dots3_note", defaults: DEFAULTS },
        Class { name: "Dots3NoteForConditionalGeneration", model_type: "dots3_note", defaults: DEFAULTS },
        Class { name: "Dots3NoteTextForCausalLM", model_type: "dots3_note_text", defaults: DEFAULTS },
    ],
    renames: &[Rename::Prefix("model.mtp.embed_tokens.", "model.layers.{N}.embed_tokens.")],
    rules: &[EMBED_NORM_HEAD, NORMS, LATENT, INDEXER, FEED_FORWARD, PREDICTION],
    keys: &[COMMON, LAYER_HEADS, LATENT_KEYS, SLIDING_KEYS, NEXTN_KEYS, INDEXER_KEYS, INDEXED_LAYERS],
    tokenizer: TokenizerRules { roles: &[("eot", "<|endofassistant|>")], ..BPE },
    nextn_layers: NextnLayers::IfStored("model.mtp.embed_tokens.weight"),
    restore: None,
    not_held: Some("the factors that norms of its latent attention were multiplied by"),
    ..DEEPSEEK
};

const DEFAULTS: &[&[ClassDefault]] = &[&[("num_key_value_heads", Count(1)), ("rms_norm_eps", Real(1e-6))]];

const KINDS: &str = "layer_types";

/// Whether a layer has a sliding window; that for multi-token prediction does.
fn is_sliding(config: &Config, layer: u64) -> Result<bool> {
    let layers = config.divisor(config.present(LAYER_KEYS))?;
    if layer >= layers {
        return Ok(true);
    }
    let why = match config.text_of_layer(KINDS, layer)? {
        Some("sliding_attention") => return Ok(true),
        Some("full_attention") => return Ok(false),
        Some(kind) => format!("config.json: \"{KINDS}\" has {kind:?}, full_attention or sliding_attention is needed"),
        None => format!("config.json: \"{KINDS}\" has no layer {layer} of {layers} (num_hidden_layers)"),
    };
    Err(AnamnesisError::parse(why))
}

const FULL: Need = Need::When(KINDS, |config, layer| Ok(needed_if(!is_sliding(config, layer)?)));
const SLIDING: Need = Need::When(KINDS, |config, layer| Ok(needed_if(is_sliding(config, layer)?)));

/// A key of layers with full attention, or that of layers with a sliding window.
fn of_layer(config: &Config, layer: u64, full: &str, sliding: &str) -> Result<u64> {
    config.divisor(if is_sliding(config, layer)? { sliding } else { full })
}

fn heads_of(config: &Config, layer: u64) -> Result<u64> {
    of_layer(config, layer, "num_attention_heads", "swa_num_attention_heads")
}

fn rank_of(config: &Config, layer: u64) -> Result<u64> {
    of_layer(config, layer, "kv_lora_rank", "swa_kv_lora_rank")
}

fn keys_of(config: &Config, layer: u64) -> Result<u64> {
    of_layer(config, layer, "qk_nope_head_dim", "swa_qk_nope_head_dim")
}

fn values_of(config: &Config, layer: u64) -> Result<u64> {
    of_layer(config, layer, "v_head_dim", "swa_v_head_dim")
}

const LAYER_HEAD_COUNT: Size =
    layer_size(heads_of, "layer_types, num_attention_heads, swa_num_attention_heads", "attention.head_count");
const LAYER_RANK: Size = layer_size(
    rank_of,
    "layer_types, kv_lora_rank, swa_kv_lora_rank",
    "attention.kv_lora_rank, attention.kv_lora_rank_swa",
);
const LAYER_KEY: Size = layer_size(
    keys_of,
    "layer_types, qk_nope_head_dim, swa_qk_nope_head_dim",
    "attention.key_length_mla, attention.key_length_mla_swa",
);
const LAYER_VALUE: Size = layer_size(
    values_of,
    "layer_types, v_head_dim, swa_v_head_dim",
    "attention.value_length_mla, attention.value_length_mla_swa",
);
const QUERIES: Size = layer_size(
    |config, layer| {
        let size = keys_of(config, layer)?.saturating_add(config.needed("qk_rope_head_dim")?);
        Ok(heads_of(config, layer)?.saturating_mul(size))
    },
    "layer_types, num_attention_heads, swa_num_attention_heads, qk_nope_head_dim, swa_qk_nope_head_dim, qk_rope_head_dim",
    "attention.head_count, attention.key_length_mla, attention.key_length_mla_swa",
);
const VALUES: Size = layer_size(
    |config, layer| Ok(heads_of(config, layer)?.saturating_mul(values_of(config, layer)?)),
    "layer_types, num_attention_heads, swa_num_attention_heads, v_head_dim, swa_v_head_dim",
    "attention.head_count, attention.value_length_mla, attention.value_length_mla_swa",
);
const LATENT_AND_ROTATED: Size = layer_size(
    |config, layer| Ok(rank_of(config, layer)?.saturating_add(config.needed("qk_rope_head_dim")?)),
    "layer_types, kv_lora_rank, swa_kv_lora_rank, qk_rope_head_dim",
    "attention.kv_lora_rank, attention.kv_lora_rank_swa, rope.dimension_count",
);
const ROTATED: Size = size(|config| config.needed("qk_rope_head_dim"), "qk_rope_head_dim", "rope.dimension_count");

/// The factor of what a norm gives, which its weights are multiplied by: that of a rank to the hidden size.
fn factor(config: &Config, rank: u64) -> Result<f32> {
    if !config.is_set("apply_mla_qkv_lora_rescale")? {
        return Ok(1.0);
    }
    Ok((first(config, HIDDEN_KEYS)? as f64 / rank as f64).sqrt() as f32)
}

const OF_QUERIES: &[Change] =
    &[Change::Times(Factor::Derived(|config, _| factor(config, config.divisor("q_lora_rank")?)))];
const OF_KEYS_AND_VALUES: &[Change] =
    &[Change::Times(Factor::Derived(|config, layer| factor(config, rank_of(config, layer.unwrap_or(0))?)))];

const SPLIT: Halves = Halves::KeysAndValues;
const SPLIT_SLIDING: Halves =
    Halves::KeysAndValuesBy(["swa_num_attention_heads", "swa_qk_nope_head_dim", "swa_v_head_dim"]);

const K_B: Rule = layer("self_attn.kv_b_proj.weight", "attn_k_b.weight", &[LAYER_HEAD_COUNT, LAYER_RANK, LAYER_KEY]);
const V_B: Rule = layer("self_attn.kv_b_proj.weight", "attn_v_b.weight", &[LAYER_HEAD_COUNT, LAYER_VALUE, LAYER_RANK]);

const LATENT: &[Rule] = &[
    layer("self_attn.q_a_proj.*", "attn_q_a.*", &[Q_RANK, HIDDEN]),
    layer("self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight", &[Q_RANK]).with(OF_QUERIES),
    layer("self_attn.q_b_proj.*", "attn_q_b.*", &[QUERIES, Q_RANK]),
    layer("self_attn.kv_a_proj_with_mqa.*", "attn_kv_a_mqa.*", &[LATENT_AND_ROTATED, HIDDEN]),
    layer("self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight", &[LAYER_RANK]).with(OF_KEYS_AND_VALUES),
    layer("self_attn.k_rope_only_layernorm.*", "attn_k_norm.*", &[ROTATED]),
    K_B.with(&[Change::First(SPLIT), Change::Transposed]).when(FULL),
    K_B.with(&[Change::First(SPLIT_SLIDING), Change::Transposed]).when(SLIDING),
    V_B.with(&[Change::Second(SPLIT)]).when(FULL),
    V_B.with(&[Change::Second(SPLIT_SLIDING)]).when(SLIDING),
    layer("self_attn.g_proj.*", "attn_gate.*", &[LAYER_HEAD_COUNT, HIDDEN]),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, VALUES]),
];

const INDEXER: &[Rule] = &[
    layer("self_attn.indexer.wq_b.*", "indexer.attn_q_b.*", &[INDEX_DIM, Q_RANK]).when(FULL),
    layer("self_attn.indexer.wk.*", "indexer.attn_k.*", &[INDEX_SIZE, HIDDEN]).when(FULL),
    layer("self_attn.indexer.k_norm.*", "indexer.k_norm.*", &[INDEX_SIZE]).when(FULL).biased(FULL),
    layer("self_attn.indexer.weights_proj.*", "indexer.proj.*", &[INDEX_HEADS, HIDDEN]).when(FULL),
];

/// Whether a layer has experts; that for multi-token prediction has none.
fn is_sparse(config: &Config, layer: u64) -> Result<bool> {
    Ok(layer < config.layers()? && has_experts(config, layer)?)
}

const OF_EXPERTS: &str = "n_routed_experts, first_k_dense_replace, num_hidden_layers";
const DENSE_LAYER: Need = Need::When(OF_EXPERTS, |config, layer| Ok(needed_if(!is_sparse(config, layer)?)));
const SPARSE_LAYER: Need = Need::When(OF_EXPERTS, |config, layer| Ok(needed_if(is_sparse(config, layer)?)));
const SHARED_LAYER: Need = Need::When("n_shared_experts, n_routed_experts, first_k_dense_replace", |config, layer| {
    Ok(needed_if(config.count(&["n_shared_experts"])?.unwrap_or(0) > 0 && is_sparse(config, layer)?))
});

const FEED_FORWARD: &[Rule] = &[
    GATED_FFN[0].when(DENSE_LAYER),
    GATED_FFN[1].when(DENSE_LAYER),
    GATED_FFN[2].when(DENSE_LAYER),
    EXPERTS[0].when(SPARSE_LAYER),
    EXPERTS[1].when(SPARSE_LAYER),
    EXPERTS[2].when(SPARSE_LAYER),
    EXPERTS[3].when(SPARSE_LAYER),
    CORRECTION[0].when(SPARSE_LAYER),
    SHARED_EXPERTS[0].when(SHARED_LAYER),
    SHARED_EXPERTS[1].when(SHARED_LAYER),
    SHARED_EXPERTS[2].when(SHARED_LAYER),
];

/// The layer for multi-token prediction has an embedding, and the head of the others.
const PREDICTION: &[Rule] = &[
    layer("eh_proj.*", "nextn.eh_proj.*", &[HIDDEN, TWO_HIDDEN]).when(NEXTN),
    layer("embed_tokens.*", "nextn.embed_tokens.*", &[VOCAB, HIDDEN]).when(NEXTN),
    layer("enorm.*", "nextn.enorm.*", &[HIDDEN]).when(NEXTN),
    layer("hnorm.*", "nextn.hnorm.*", &[HIDDEN]).when(NEXTN),
    layer("shared_head.norm.*", "nextn.shared_head_norm.*", &[HIDDEN]).when(NEXTN_OPTIONAL),
];

const LAYER_HEADS: &[Key] = &[
    ints_fn("attention.head_count", |config| {
        check(config)?;
        config.per_layer(|layer| Ok(i32::try_from(heads_of(config, layer)?).unwrap_or(i32::MAX))).map(Some)
    }),
    // `head_dim` is not that of latent attention.
    removed("attention.key_length"),
    removed("attention.value_length"),
];

/// A property of every layer but that for multi-token prediction.
fn of_own_layers(config: &Config, of: impl Fn(bool) -> bool) -> Result<Option<Vec<bool>>> {
    let layers = usize::try_from(config.layers()?).unwrap_or(usize::MAX);
    let mut all = config.per_layer(|layer| Ok(of(is_sliding(config, layer)?)))?;
    all.truncate(layers);
    Ok(Some(all))
}

const SLIDING_KEYS: &[Key] = &[
    needed("attention.sliding_window", "sliding_window_size"),
    flags_fn("attention.sliding_window_pattern", |config| of_own_layers(config, |is_sliding| is_sliding)),
    needed("attention.kv_lora_rank_swa", "swa_kv_lora_rank"),
    count_fn("attention.key_length_swa", |config| {
        Ok(Some(config.needed("swa_kv_lora_rank")?.saturating_add(config.needed("swa_qk_rope_head_dim")?)))
    }),
    needed("attention.value_length_swa", "swa_kv_lora_rank"),
    count_fn("attention.key_length_mla_swa", |config| sliding_key(config).map(Some)),
    needed("attention.value_length_mla_swa", "swa_v_head_dim"),
];

const INDEXED_LAYERS: &[Key] =
    &[flags_fn("attention.indexer.types", |config| of_own_layers(config, |is_sliding| !is_sliding))];

/// The size of a head's keys in layers with a sliding window.
fn sliding_key(config: &Config) -> Result<u64> {
    Ok(config.needed("swa_qk_nope_head_dim")?.saturating_add(config.needed("swa_qk_rope_head_dim")?))
}

/// Refuses the variants that llama.cpp does not run.
fn check(config: &Config) -> Result<()> {
    let refused = |key: &str, wanted: &str| match config.get(key) {
        Some(value) => Err(unexpected(key, value, wanted)),
        None => Err(AnamnesisError::parse(format!("config.json has no \"{key}\", {wanted} is needed"))),
    };
    for (key, wanted) in
        [("use_dsa", true), ("k_rope_only_layernorm", true), ("use_dynamic_rsf", false), ("moe_gating_fp32", false)]
    {
        if config.flag(key)?.is_some_and(|is_set| is_set != wanted) {
            return refused(key, if wanted { "true" } else { "false" });
        }
    }
    for (key, wanted) in [
        ("normalization", "RMSNorm"),
        ("final_norm", "RMSNorm"),
        ("topk_method", "noaux_tc"),
        ("attention_gate_type", "headwise"),
        ("swa_attention_gate_type", "headwise"),
    ] {
        if config.text(key)?.is_some_and(|kind| kind != wanted) {
            return refused(key, wanted);
        }
    }
    if config.text("scoring_func")? != Some("sigmoid") {
        return refused("scoring_func", "sigmoid");
    }
    for key in ["n_group", "topk_group"] {
        if config.count(&[key])?.is_some_and(|groups| groups != 1) {
            return refused(key, "1");
        }
    }
    // Both kinds of layers share one number in GGUF.
    for (sliding, full) in [("swa_qk_rope_head_dim", "qk_rope_head_dim"), ("swa_q_lora_rank", "q_lora_rank")] {
        let shared = config.divisor(full)?;
        if config.needed(sliding)? != shared {
            return refused(sliding, &format!("{full} ({shared})"));
        }
    }
    let (size, declared) = (sliding_key(config)?, config.count(&["swa_head_dim"])?.unwrap_or(256));
    if size != declared {
        return refused("swa_head_dim", &format!("swa_qk_nope_head_dim + swa_qk_rope_head_dim ({size})"));
    }
    Ok(())
}
