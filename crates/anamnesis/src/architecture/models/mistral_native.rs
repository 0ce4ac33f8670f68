//! Models of Mistral in their own format, whose rows are already in the order of llama.cpp's RoPE.

use serde_json::{Map, Value};

use crate::architecture::families::DEEPSEEK;
use crate::architecture::latent::{KV_A_DIM, KV_RANK, LATENT_KEYS, LATENT_Q_DIM, NOPE_DIM, Q_RANK, V_DIM, V_HEAD_DIM};
use crate::architecture::mistral_format::CLASS;
use crate::architecture::prelude::*;

/// Models before Mistral 3.
pub(super) static UNSCALED: Architecture =
    Architecture { name: "llama", applies: |raw| !has(raw, "moe") && !has(raw, SCALING), ..NATIVE };

/// Mistral 3, whose attention is scaled with the position.
pub(super) static SCALED: Architecture =
    Architecture { name: "mistral3", applies: |raw| !has(raw, "moe") && has(raw, SCALING), ..NATIVE };

/// Mistral Large 3: multi-head latent attention and experts.
pub(super) static EXPERT_MODEL: Architecture = Architecture {
    name: "deepseek2",
    classes: &[class(CLASS, "")],
    applies: |raw| has(raw, "moe"),
    layer_prefix: "layers.",
    rules: &[OUTER, LATENT_RULES, FFN_RULES, EXPERT_RULES],
    keys: &[COMMON, LATENT_KEYS, SCALING_KEYS, POSITION_KEYS],
    tokenizer: TOKENS,
    restore: None,
    ..DEEPSEEK
};

/// The fields of models without experts.
const NATIVE: Architecture = Architecture {
    classes: &[class(CLASS, "")],
    layer_prefix: "layers.",
    rules: &[OUTER, ATTENTION_RULES, FFN_RULES],
    keys: &[COMMON, ROPE, SCALING_KEYS],
    tokenizer: TOKENS,
    restore: None,
    ..DECODER
};

const SCALING: &str = "llama_4_scaling";

fn has(raw: &Map<String, Value>, key: &str) -> bool {
    raw.get(key).is_some_and(|value| !value.is_null())
}

const TOKENS: TokenizerRules = TokenizerRules { kind: VocabularyKind::Mistral, ..BPE };

const OUTER: &[Rule] = &[
    model("tok_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("norm.*", "output_norm.*", &[HIDDEN]),
    model("output.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("attention_norm.*", "attn_norm.*", &[HIDDEN]),
    layer("ffn_norm.*", "ffn_norm.*", &[HIDDEN]),
];

const ATTENTION_RULES: &[Rule] = &[
    layer("attention.wq.*", "attn_q.*", &[Q_DIM, HIDDEN]),
    layer("attention.wk.*", "attn_k.*", &[KV_DIM, HIDDEN]),
    layer("attention.wv.*", "attn_v.*", &[KV_DIM, HIDDEN]),
    layer("attention.wo.*", "attn_output.*", &[HIDDEN, Q_DIM]),
];

const FFN_RULES: &[Rule] = &[
    layer("feed_forward.w1.*", "ffn_gate.*", &[FFN, HIDDEN]).when(DENSE),
    layer("feed_forward.w2.*", "ffn_down.*", &[HIDDEN, FFN]).when(DENSE),
    layer("feed_forward.w3.*", "ffn_up.*", &[FFN, HIDDEN]).when(DENSE),
];

const LATENT_RULES: &[Rule] = &[
    layer("attention.wq_a.*", "attn_q_a.*", &[Q_RANK, HIDDEN]),
    layer("attention.q_a_norm.*", "attn_q_a_norm.*", &[Q_RANK]),
    layer("attention.wq_b.*", "attn_q_b.*", &[LATENT_Q_DIM, Q_RANK]),
    layer("attention.wkv_a_with_mqa.*", "attn_kv_a_mqa.*", &[KV_A_DIM, HIDDEN]),
    layer("attention.kv_a_norm.*", "attn_kv_a_norm.*", &[KV_RANK]),
    layer("attention.wkv_b.weight", "attn_k_b.weight", &[HEADS, KV_RANK, NOPE_DIM])
        .with(&[Change::First(Halves::KeysAndValues), Change::Transposed]),
    layer("attention.wkv_b.weight", "attn_v_b.weight", &[HEADS, V_HEAD_DIM, KV_RANK])
        .with(&[Change::Second(Halves::KeysAndValues)]),
    layer("attention.wo.*", "attn_output.*", &[HIDDEN, V_DIM]),
];

const EXPERT_RULES: &[Rule] = &[
    layer("gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("experts.{X}.w2.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
    layer("experts.{X}.w1.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("experts.{X}.w3.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("shared_experts.w1.*", "ffn_gate_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("shared_experts.w2.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_FFN]).when(SHARED),
    layer("shared_experts.w3.*", "ffn_up_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
];

const ROPE: &[Key] = &[count_fn("rope.dimension_count", |config| config.head_size().map(Some))];

/// Scaled positions, which `params.json` describes by keys of its own.
const SCALING_KEYS: &[Key] = &[
    text_fn("rope.scaling.type", |config| Ok(config.get("yarn").map(|_| "yarn"))),
    real("rope.scaling.factor", &["yarn.factor"]),
    real("rope.scaling.yarn_beta_fast", &["yarn.beta"]),
    real("rope.scaling.yarn_beta_slow", &["yarn.alpha"]),
    real_fn("rope.scaling.yarn_log_multiplier", |config| match (config.get("yarn"), config.get("moe")) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Ok(Some(0.1)),
        (Some(_), None) => Ok(Some(if config.is_set("yarn.apply_scale")? { 0.0 } else { 1.0 })),
    }),
    count("rope.scaling.original_context_length", &["yarn.original_max_position_embeddings"]),
    real("attention.temperature_scale", &["llama_4_scaling.beta"]),
];

const POSITION_KEYS: &[Key] = &[count("attention.temperature_length", &["yarn.original_max_position_embeddings"])];
