//! Hunyuan with experts: sizes are lists with a number for every layer, which all are the same.

use serde_json::{Map, Value, json};

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "hunyuan-moe",
    classes: &[class("HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK, EXPERTS_AND_SHARED],
    keys: &[COMMON, KEYS],
    tokenizer: TokenizerRules {
        kind: VocabularyKind::Ranked(RANKS),
        overrides: TokenOverrides { fixed_ids: &[("bos", 127_959)], ..NO_OVERRIDES },
        ..BPE
    },
    head: Head::UnlessTied,
    restore: Some(restored),
    ..PLAIN
};

const RANKS: RankedVocabulary = RankedVocabulary {
    file: "hy.tiktoken",
    pre: "hunyuan",
    special: RankedSpecials::Listed(&["<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"]),
    is_counted: true,
    has_unmerged: true,
    is_whole: true,
    end: None,
    ends_by_settings: false,
};

/// A size that is a number, or a list of the same number for every layer.
fn uniform(config: &Config, key: &str) -> Result<u64> {
    let Some(Value::Array(_)) = config.get(key) else { return config.needed(key) };
    let sizes = config.counts(key)?.unwrap_or_default();
    match sizes.first() {
        Some(size) if sizes.iter().all(|other| other == size) => Ok(*size),
        _ => Err(AnamnesisError::parse(format!(
            "config.json: \"{key}\" is {sizes:?}, the same size for all layers is needed"
        ))),
    }
}

const EXPERT_INNER: Size =
    size(|config| uniform(config, "moe_intermediate_size"), "moe_intermediate_size", "expert_feed_forward_length");
const SHARED_INNER: Size = size(
    |config| Ok(config.needed("intermediate_size")?.saturating_mul(uniform(config, "num_shared_expert")?)),
    "intermediate_size, num_shared_expert",
    "expert_shared_feed_forward_length, expert_shared_count",
);

/// Norms of queries and keys, in models that have them.
const QK: &[Rule] = &[
    layer("self_attn.query_layernorm.*", "attn_q_norm.*", &[HEAD_DIM]).when(NORMED),
    layer("self_attn.key_layernorm.*", "attn_k_norm.*", &[HEAD_DIM]).when(NORMED),
];
const NORMED: Need = Need::Flag("use_qk_norm");

const EXPERTS_AND_SHARED: &[Rule] = &[
    layer("mlp.gate.wg.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, EXPERT_INNER]),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", &[EXPERT_COUNT, EXPERT_INNER, HIDDEN]),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", &[EXPERT_COUNT, EXPERT_INNER, HIDDEN]),
    layer("mlp.shared_mlp.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_INNER, HIDDEN]),
    layer("mlp.shared_mlp.up_proj.*", "ffn_up_shexp.*", &[SHARED_INNER, HIDDEN]),
    layer("mlp.shared_mlp.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_INNER]),
];

/// The only scaling of positions that llama.cpp's converter accepts: alpha, base, size of a head, and the context.
const ALPHA: f64 = 1000.0;
const BASE_THETA: f64 = 10_000.0;
const SCALED_HEAD: u64 = 128;
const LONG: u64 = 256 * 1024;
const CONTEXTS: [u64; 2] = [32 * 1024, LONG];

/// Whether positions are scaled; other parameters than those known are refused.
fn is_scaled(config: &Config) -> Result<bool> {
    if config.rope().kind() != "dynamic" {
        return Ok(false);
    }
    let alpha = config.rope().real("alpha")?.unwrap_or(ALPHA);
    let theta = config.rope().theta()?.unwrap_or(BASE_THETA);
    let (head, context) = (config.share_of_width()?, config.needed("max_position_embeddings")?);
    if alpha != ALPHA || theta != BASE_THETA || head != SCALED_HEAD || !CONTEXTS.contains(&context) {
        let why = format!(
            "config.json: dynamic scaling with alpha {alpha}, rope_theta {theta}, heads of {head} and \
             max_position_embeddings {context}: {ALPHA}, {BASE_THETA}, {SCALED_HEAD} and one of {CONTEXTS:?} are needed"
        );
        return Err(AnamnesisError::parse(why));
    }
    Ok(true)
}

/// The base of scaled positions: alpha to the power of d / (d - 2), with d dimensions per head.
fn scaled_base() -> f64 {
    let size = SCALED_HEAD as f64;
    BASE_THETA * ALPHA.powf(size / (size - 2.0))
}

const KEYS: &[Key] = &[
    needed("expert_shared_feed_forward_length", "intermediate_size"),
    count_fn("expert_feed_forward_length", |config| (EXPERT_INNER.of)(config).map(Some)),
    count_fn("expert_used_count", |config| uniform(config, "moe_topk").map(Some)),
    count_fn("expert_shared_count", |config| uniform(config, "num_shared_expert").map(Some)),
    real_fn("rope.freq_base", |config| {
        Ok(if is_scaled(config)? { Some(scaled_base()) } else { config.rope().theta()? })
    }),
    text_fn("rope.scaling.type", |config| Ok(is_scaled(config)?.then_some("none"))),
    real_fn("rope.scaling.factor", |config| Ok(is_scaled(config)?.then_some(1.0))),
    count_fn("rope.scaling.original_context_length", |config| Ok(is_scaled(config)?.then_some(LONG))),
    count_fn("context_length", |config| Ok(is_scaled(config)?.then_some(LONG))),
];

fn restored(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    restore::plain(file, config)?;
    for key in ["n_shared_experts", "shared_intermediate_size", "num_experts_per_tok", "num_local_experts"] {
        config.remove(key);
    }
    let layers = usize::try_from(file.count("block_count").unwrap_or(0)).unwrap_or(0);
    for (key, name) in [
        ("expert_feed_forward_length", "moe_intermediate_size"),
        ("expert_used_count", "moe_topk"),
        ("expert_shared_count", "num_shared_expert"),
    ] {
        if let Some(count) = file.count(key) {
            set(config, name, vec![count; layers.min(MOST_LAYERS)]);
        }
    }
    set(config, "num_experts", file.count("expert_count"));
    set(config, "use_qk_norm", file.has_in_layers(&["attn_q_norm.weight"]));
    if file.string("rope.scaling.type") == Some("none") {
        set(config, "rope_theta", BASE_THETA);
        set(config, "rope_scaling", json!({ "type": "dynamic", "alpha": ALPHA, "factor": 1.0 }));
    }
    Ok(0)
}

/// The most layers that lists are written for; a file with more is refused by its tensors.
const MOST_LAYERS: usize = 1 << 12;
