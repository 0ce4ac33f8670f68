//! OLMo, OLMoE, and other models with few differences from Llama or Qwen: Seed-OSS, Maincoder, Pangu, Dots, AfMoE.

use super::ernie::GATE_FIRST_EXPERTS;
use crate::architecture::families::{LLAMA, PLAIN, QWEN3, QWEN3_MOE};
use crate::architecture::prelude::*;

/// OLMo: norms without weights.
pub(super) static OLMO: Architecture = Architecture {
    name: "olmo",
    classes: &[class("OlmoForCausalLM", "olmo"), class("OLMoForCausalLM", "olmo")],
    rules: &[HEAD_AND_EMBEDDING, PERMUTED_ATTENTION, GATED_FFN],
    keys: &[COMMON, OLMO_KEYS],
    derived_tensors: &[],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Gpt2, "olmo")], ..BPE },
    ..LLAMA
};

const HEAD_AND_EMBEDDING: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
];

const OLMO_KEYS: &[Key] =
    &[real_fn("attention.layer_norm_epsilon", |_| Ok(Some(1e-5))), real("attention.clamp_kqv", &["clip_qkv"])];

pub(super) static OLMOE: Architecture = Architecture {
    name: "olmoe",
    classes: &[class("OlmoeForCausalLM", "olmoe")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, WHOLE_QK_NORMS, EXPERTS],
    keys: &[COMMON, &[real_fn("attention.layer_norm_rms_epsilon", |_| Ok(Some(1e-5)))]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Gpt2, "olmo")], ..BPE },
    ..PLAIN
};

/// Norms over all queries and all keys.
const WHOLE_QK_NORMS: &[Rule] =
    &[layer("self_attn.q_norm.*", "attn_q_norm.*", &[Q_DIM]), layer("self_attn.k_norm.*", "attn_k_norm.*", &[KV_DIM])];

pub(super) static SEED_OSS: Architecture = Architecture {
    name: "seed_oss",
    classes: &[class("SeedOssForCausalLM", "seed_oss")],
    rules: &[EMBED_NORM_HEAD, POST_ATTENTION_NORMS, SEED_ATTENTION, GATED_FFN_BIASED],
    ..PLAIN
};

const SEED_ATTENTION: &[Rule] = &attention(ATTENTION_BIAS, Need::Flag("attention_out_bias"));

pub(super) static MAINCODER: Architecture = Architecture {
    name: "maincoder",
    classes: &[class("MaincoderForCausalLM", "maincoder")],
    keys: &[COMMON, &[count("rope.dimension_count", &["head_dim"])]],
    tokenizer: BPE,
    ..QWEN3
};

pub(super) static PANGU: Architecture = Architecture {
    name: "pangu-embedded",
    classes: &[class("PanguEmbeddedForCausalLM", "PanguEmbedded")],
    rules: &[EMBED_NORM_HEAD, NORMS, PANGU_ATTENTION, GATED_FFN_BIASED],
    keys: &[COMMON, VOCABULARY_AND_ROPE, PANGU_KEYS],
    tokenizer: TokenizerRules {
        pieces: PiecesUse::Required,
        overrides: TokenOverrides { space_prefix: true, ..NO_OVERRIDES },
        ..BPE
    },
    head: Head::UnlessTied,
    ..PLAIN
};

const PANGU_ATTENTION: &[Rule] = &attention(OPTIONAL, OPTIONAL);

const PANGU_KEYS: &[Key] = &[
    count_fn("attention.key_length", |config| config.head_size().map(Some)),
    count_fn("attention.value_length", |config| config.head_size().map(Some)),
];

pub(super) static DOTS1: Architecture = Architecture {
    name: "dots1",
    classes: &[class("Dots1ForCausalLM", "dots1")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN, EXPERTS, SHARED_EXPERTS, CORRECTION],
    keys: &[COMMON, EXPERT_SIZES, DOTS_KEYS],
    tokenizer: BPE,
    ..QWEN3_MOE
};

const DOTS_KEYS: &[Key] = &[
    count("leading_dense_block_count", &["first_k_dense_replace"]),
    count("expert_shared_count", &["n_shared_experts"]),
    real("expert_weights_scale", &["routed_scaling_factor"]),
    flag("expert_weights_norm", "norm_topk_prob"),
];

pub(super) static AFMOE: Architecture = Architecture {
    name: "afmoe",
    classes: &[class("AfmoeForCausalLM", "afmoe")],
    rules: &[EMBED_NORM_HEAD, ATTENTION, QK_NORMS, AFMOE_LAYER, GATED_FFN, GATE_FIRST_EXPERTS, SHARED_EXPERTS],
    keys: &[COMMON, VOCABULARY_AND_ROPE, AFMOE_KEYS],
    restore: Some(|file, config| {
        // llama.cpp scales the embedding of every model.
        set(config, "mup_enabled", true);
        restore::plain(file, config)
    }),
    ..LLAMA
};

const AFMOE_LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("pre_mlp_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_mlp_layernorm.*", "post_ffw_norm.*", &[HIDDEN]),
    layer("self_attn.gate_proj.*", "attn_gate.*", &[Q_DIM, HIDDEN]),
    layer("mlp.router.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("mlp.expert_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE),
];

const AFMOE_KEYS: &[Key] = &[
    count("expert_shared_count", &["num_shared_experts"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("leading_dense_block_count", &["num_dense_layers"]),
    flag("expert_weights_norm", "route_norm"),
    real("expert_weights_scale", &["route_scale"]),
    count("attention.sliding_window", &["sliding_window"]),
];

/// Experts over Qwen 3's attention: Mellum, Maple, GroveMoE.
pub(super) static MELLUM: Architecture = Architecture {
    name: "mellum",
    classes: &[class("MellumForCausalLM", "mellum")],
    keys: &[COMMON, &[count("expert_feed_forward_length", &["moe_intermediate_size"])], MELLUM_WINDOWS],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Digits, "mellum2")], ..BPE },
    ..QWEN3_MOE
};

const MELLUM_WINDOWS: &[Key] = &[
    count_fn("attention.sliding_window", |config| match config.flag("use_sliding_window")? {
        Some(false) => Ok(None),
        _ => config.count(&["sliding_window"]),
    }),
    flags_fn("attention.sliding_window_pattern", |config| {
        match (config.flag("use_sliding_window")?, config.count(&["sliding_window"])?) {
            (Some(false), _) | (_, None) => Ok(None),
            _ => sliding_layers(config),
        }
    }),
];

pub(super) static MAPLE: Architecture = Architecture {
    name: "maple",
    classes: &[class("MapleForCausalLM", "maple")],
    keys: &[COMMON, MAPLE_KEYS],
    tokenizer: BPE,
    ..QWEN3_MOE
};

const MAPLE_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    count_fn("rope.dimension_count", |config| {
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
        Ok(Some((config.head_size()? as f64 * part) as u64))
    }),
    count("attention.sliding_window", &["sliding_window"]),
    flags_fn("attention.sliding_window_pattern", sliding_layers),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    reals_fn("swiglu_clamp_exp", |config| config.per_layer(|_| Ok(7.0)).map(Some)),
];

pub(super) static GROVE: Architecture = Architecture {
    name: "grovemoe",
    classes: &[class("GroveMoeForCausalLM", "grove_moe"), class("modeling_grove_moe.GroveMoeForCausalLM", "grove_moe")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, EXPERTS, CHUNKS],
    keys: &[COMMON, GROVE_KEYS],
    tokenizer: BPE,
    ..QWEN3_MOE
};

const CHUNK_COUNT: Size = size(|config| Ok((EXPERT_COUNT.of)(config)? / 2), EXPERT_COUNT.hf, EXPERT_COUNT.gguf);
const CHUNK: Size = size(
    |config| Ok(config.count(&["head_dim"])?.filter(|size| *size > 0).unwrap_or(128)),
    "head_dim",
    "expert_chunk_feed_forward_length",
);

/// Experts that every two routed experts share.
const CHUNKS: &[Rule] = &[
    layer("mlp.expert_bias", "", &[]).left_out(),
    layer("mlp.chunk_experts.{X}.down_proj.weight", "ffn_down_chexps.weight", &[CHUNK_COUNT, HIDDEN, CHUNK]),
    layer("mlp.chunk_experts.{X}.gate_proj.weight", "ffn_gate_chexps.weight", &[CHUNK_COUNT, CHUNK, HIDDEN]),
    layer("mlp.chunk_experts.{X}.up_proj.weight", "ffn_up_chexps.weight", &[CHUNK_COUNT, CHUNK, HIDDEN]),
];

const GROVE_KEYS: &[Key] = &[
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count_fn("expert_chunk_feed_forward_length", |config| (CHUNK.of)(config).map(Some)),
    count_fn("experts_per_group", |_| Ok(Some(2))),
    real_fn("expert_group_scale", |_| Ok(Some(0.05))),
];

pub(super) static SMALLTHINKER: Architecture = Architecture {
    name: "smallthinker",
    classes: &[class("SmallThinkerForCausalLM", "smallthinker")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, PRIMARY_EXPERTS],
    keys: &[COMMON, PRIMARY_KEYS],
    ..PLAIN
};

const PRIMARY_FFN: Size =
    size(|config| config.needed("moe_ffn_hidden_size"), "moe_ffn_hidden_size", "expert_feed_forward_length");

const PRIMARY_EXPERTS: &[Rule] = &[
    layer("block_sparse_moe.primary_router.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]),
    layer("block_sparse_moe.experts.{X}.down.weight", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, PRIMARY_FFN]),
    layer("block_sparse_moe.experts.{X}.gate.weight", "ffn_gate_exps.weight", &[EXPERT_COUNT, PRIMARY_FFN, HIDDEN]),
    layer("block_sparse_moe.experts.{X}.up.weight", "ffn_up_exps.weight", &[EXPERT_COUNT, PRIMARY_FFN, HIDDEN]),
];

const PRIMARY_KEYS: &[Key] = &[
    count("expert_count", &["moe_num_primary_experts"]),
    count("expert_used_count", &["moe_num_active_primary_experts"]),
    count("expert_feed_forward_length", &["moe_ffn_hidden_size"]),
    count("feed_forward_length", &["moe_ffn_hidden_size"]),
    count_fn("expert_gating_func", |config| {
        Ok(Some(if config.is_set("moe_primary_router_apply_softmax")? { 1 } else { 2 }))
    }),
    count_fn("attention.sliding_window", |config| {
        let layout = config.counts("sliding_window_layout")?.unwrap_or_default();
        let window = config.count(&["sliding_window_size"])?.filter(|window| *window > 0);
        Ok(window.filter(|_| layout.iter().any(|layer| *layer != 0)))
    }),
];

/// LLaDA: diffusion over Llama's layers.
pub(super) static LLADA: Architecture = Architecture {
    name: "llada",
    classes: &[class("LLaDAModelLM", "llada")],
    layer_prefix: "model.transformer.blocks.",
    rules: &[LLADA_TENSORS],
    keys: &[COMMON, POOLING, LLADA_KEYS],
    tokenizer: TokenizerRules {
        declared_types: true,
        overrides: TokenOverrides { flags: &[("add_bos_token", true)], ..NO_OVERRIDES },
        ..BPE
    },
    ..PLAIN
};

const D_MODEL: Size = size(|config| first(config, &["hidden_size", "d_model"]), "d_model", "embedding_length");
const MLP: Size = size(|config| config.needed("mlp_hidden_size"), "mlp_hidden_size", "feed_forward_length");
const LLADA_HEAD: Size = size(
    |config| match config.count(&["head_dim"])? {
        Some(size) => Ok(size),
        None => Ok((D_MODEL.of)(config)? / heads(config)?),
    },
    "d_model, n_heads",
    "rope.dimension_count",
);
const LLADA_KV: Size = size(
    |config| Ok(kv_heads(config)?.saturating_mul((LLADA_HEAD.of)(config)?)),
    "n_kv_heads, d_model, n_heads",
    "attention.head_count_kv",
);
const ROWS: Size = size(
    |config| Ok(config.count(&["embedding_size"])?.unwrap_or(config.needed("vocab_size")?)),
    "embedding_size, vocab_size",
    "vocab_size",
);

const LLADA_TENSORS: &[Rule] = &[
    model("model.transformer.wte.*", "token_embd.*", &[ROWS, D_MODEL]),
    model("model.transformer.ln_f.*", "output_norm.*", &[D_MODEL]),
    model("model.transformer.ff_out.*", "output.*", &[ROWS, D_MODEL]).when(OPTIONAL),
    layer("attn_norm.*", "attn_norm.*", &[D_MODEL]),
    layer("ff_norm.*", "ffn_norm.*", &[D_MODEL]),
    layer("q_proj.*", "attn_q.*", &[D_MODEL, D_MODEL]).with(&[Change::RotaryOf(LLADA_HEAD)]).biased(OPTIONAL),
    layer("k_proj.*", "attn_k.*", &[LLADA_KV, D_MODEL]).with(&[Change::RotaryOf(LLADA_HEAD)]).biased(OPTIONAL),
    layer("v_proj.*", "attn_v.*", &[LLADA_KV, D_MODEL]).biased(OPTIONAL),
    layer("attn_out.*", "attn_output.*", &[D_MODEL, D_MODEL]),
    layer("ff_proj.*", "ffn_gate.*", &[MLP, D_MODEL]),
    layer("up_proj.*", "ffn_up.*", &[MLP, D_MODEL]),
    layer("ff_out.*", "ffn_down.*", &[D_MODEL, MLP]),
];

const LLADA_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    count_fn("rope.dimension_count", |config| (LLADA_HEAD.of)(config).map(Some)),
    count_or("context_length", &["max_sequence_length"], 4096),
    count_or("embedding_length", &["d_model"], 4096),
    count_or("feed_forward_length", &["mlp_hidden_size"], 12_288),
    flag_fn("attention.causal", |_| Ok(Some(false))),
    flag_fn("diffusion.shift_logits", |_| Ok(Some(false))),
];

pub(super) static LLADA_MOE: Architecture = Architecture {
    name: "llada-moe",
    classes: &[class("LLaDAMoEModel", "llada_moe"), class("LLaDAMoEModelLM", "llada_moe")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, LLADA_EXPERTS],
    keys: &[COMMON, LLADA_MOE_KEYS],
    ..PLAIN
};

const LLADA_FFN: Size =
    size(|config| config.needed("expert_intermediate_size"), "expert_intermediate_size", "expert_feed_forward_length");

const LLADA_EXPERTS: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, LLADA_FFN]),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", &[EXPERT_COUNT, LLADA_FFN, HIDDEN]),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", &[EXPERT_COUNT, LLADA_FFN, HIDDEN]),
];

const LLADA_MOE_KEYS: &[Key] = &[
    count("expert_feed_forward_length", &["expert_intermediate_size"]),
    count_fn("tokenizer.ggml.mask_token_id", |_| Ok(Some(156_895))),
    flag_fn("attention.causal", |_| Ok(Some(false))),
    flag_fn("diffusion.shift_logits", |_| Ok(Some(false))),
];
