//! Models with attention, norms or layers of their own: ChatGLM, Jamba, MiniCPM, PLM, OpenELM, Deci, Arctic, Laguna,
//! Spark, Step 3.5, MiMo V2, HRM, InternLM 2.

use crate::architecture::families::{LLAMA, PLAIN, QWEN3_MOE};
use crate::architecture::latent::{KV_A_DIM, KV_RANK, LATENT_Q_DIM, LOW_RANK_Q, Q_RANK, V_DIM};
use crate::architecture::prelude::*;
use serde_json::Value;

/// ChatGLM and the first GLM 4.
pub(super) static CHATGLM: Architecture = Architecture {
    name: "chatglm",
    classes: &[class("ChatGLMModel", "chatglm"), class("ChatGLMForConditionalGeneration", "chatglm")],
    layer_prefix: "encoder.layers.",
    renames: &[Rename::Prefix("transformer.", "")],
    dropped: &["rotary_pos_emb."],
    rules: &[CHATGLM_TENSORS],
    keys: &[CHATGLM_KEYS],
    tokenizer: CHATGLM_TOKENS,
    ..PLAIN
};

pub(super) static GLM: Architecture = Architecture {
    name: "chatglm",
    classes: &[class("GlmForCausalLM", "glm")],
    rules: &[EMBED_NORM_HEAD, NORMS, GLM_ATTENTION, GLM_FFN],
    keys: &[CHATGLM_KEYS],
    tokenizer: CHATGLM_TOKENS,
    ..PLAIN
};

const CHATGLM_TOKENS: TokenizerRules = TokenizerRules {
    roles: &[("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>")],
    pre: &[(PreTokenizer::Llama3, "chatglm-bpe")],
    ..BPE
};

const CHATGLM_FFN: Size =
    size(|config| first(config, &["ffn_hidden_size", "intermediate_size"]), "ffn_hidden_size", "feed_forward_length");
const TWO_CHATGLM_FFN: Size =
    size(|config| Ok((CHATGLM_FFN.of)(config)?.saturating_mul(2)), CHATGLM_FFN.hf, CHATGLM_FFN.gguf);
const CHATGLM_HEAD: Size = size(
    |config| match config.count(&["kv_channels"])? {
        Some(size) => Ok(size),
        None => config.share_of_width(),
    },
    "kv_channels, hidden_size",
    "embedding_length",
);
const CHATGLM_Q: Size = size(
    |config| Ok(heads(config)?.saturating_mul((CHATGLM_HEAD.of)(config)?)),
    "num_attention_heads, kv_channels",
    "attention.head_count",
);
const CHATGLM_QKV: Size = size(
    |config| {
        let groups = first(config, &["multi_query_group_num", "num_key_value_heads", "num_attention_heads"])?;
        let keys = groups.saturating_mul((CHATGLM_HEAD.of)(config)?).saturating_mul(2);
        Ok((CHATGLM_Q.of)(config)?.saturating_add(keys))
    },
    "num_attention_heads, multi_query_group_num, kv_channels",
    "attention.head_count, attention.head_count_kv",
);
const CHATGLM_VOCAB: Size =
    size(|config| first(config, &["padded_vocab_size", "vocab_size"]), "padded_vocab_size, vocab_size", VOCAB.gguf);

const CHATGLM_TENSORS: &[Rule] = &[
    model("embedding.word_embeddings.*", "token_embd.*", &[CHATGLM_VOCAB, HIDDEN]),
    model("encoder.final_layernorm.*", "output_norm.*", &[HIDDEN]),
    model("output_layer.*", "output.*", &[CHATGLM_VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("self_attention.query_key_value.*", "attn_qkv.*", &[CHATGLM_QKV, HIDDEN]).biased(OPTIONAL),
    layer("self_attention.dense.*", "attn_output.*", &[HIDDEN, CHATGLM_Q]).biased(OPTIONAL),
    layer("mlp.dense_h_to_4h.*", "ffn_up.*", &[TWO_CHATGLM_FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_4h_to_h.*", "ffn_down.*", &[HIDDEN, CHATGLM_FFN]).biased(OPTIONAL),
];

const GLM_ATTENTION: &[Rule] = &attention(OPTIONAL, OPTIONAL);
const GLM_FFN: &[Rule] = &[
    layer("mlp.gate_up_proj.*", "ffn_up.*", &[TWO_FFN, HIDDEN]),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];

const CHATGLM_KEYS: &[Key] = &[
    count("context_length", &["seq_length", "hidden_size", "n_embed"]),
    count("embedding_length", &["hidden_size", "n_embed"]),
    count_fn("feed_forward_length", |config| match config.count(&["ffn_hidden_size", "intermediate_size"])? {
        Some(inner) => Ok(Some(inner)),
        None => Ok(Some(config.needed("hidden_size")?.saturating_mul(4))),
    }),
    count("block_count", LAYER_KEYS),
    count("attention.head_count", &["n_head", "num_attention_heads"]),
    count("attention.head_count_kv", &["multi_query_group_num", "num_key_value_heads", "num_attention_heads"]),
    real_or("attention.layer_norm_rms_epsilon", &["layernorm_epsilon"], 1e-5),
    FILE_TYPE,
    count_fn("rope.dimension_count", |config| {
        let size = match config.count(&["attention_dim"])? {
            Some(size) => size,
            None => config.share_of_width()?,
        };
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(0.5);
        Ok(Some((size as f64 * part) as u64))
    }),
    flag_fn("tokenizer.ggml.add_bos_token", |_| Ok(Some(false))),
    real_fn("rope.freq_base", |config| Ok(Some(10_000.0 * config.real(&["rope_ratio"])?.unwrap_or(1.0)))),
];

/// Jamba: state-space and attention layers, experts in every nth.
pub(super) static JAMBA: Architecture = Architecture {
    name: "jamba",
    classes: &[class("JambaForCausalLM", "jamba")],
    renames: &[Rename::Anywhere(".moe.", ".feed_forward.")],
    rules: &[JAMBA_TENSORS],
    keys: &[JAMBA_KEYS],
    tokenizer: TokenizerRules { pieces_in_json: true, no_space_prefix_in_json: true, ..PIECES_OR_BPE },
    ..PLAIN
};

fn is_jamba_attention(config: &Config, layer: u64) -> Result<bool> {
    let (offset, period) = (config.needed("attn_layer_offset")?, config.divisor("attn_layer_period")?);
    Ok(layer >= offset && (layer - offset).is_multiple_of(period))
}

fn is_jamba_sparse(config: &Config, layer: u64) -> Result<bool> {
    let (offset, period) = (config.needed("expert_layer_offset")?, config.divisor("expert_layer_period")?);
    Ok(layer >= offset && (layer - offset).is_multiple_of(period))
}

const ATTN: &str = "attn_layer_offset, attn_layer_period";
const JAMBA_FULL: Need = Need::When(ATTN, |config, layer| Ok(needed_if(is_jamba_attention(config, layer)?)));
const JAMBA_STATES: Need = Need::When(ATTN, |config, layer| Ok(needed_if(!is_jamba_attention(config, layer)?)));
const JAMBA_STATES_OPTIONAL: Need = Need::When(ATTN, |config, layer| {
    Ok(if is_jamba_attention(config, layer)? { Presence::Surplus } else { Presence::Allowed })
});
const EXPERT_LAYERS: &str = "expert_layer_offset, expert_layer_period";
const JAMBA_SPARSE: Need = Need::When(EXPERT_LAYERS, |config, layer| Ok(needed_if(is_jamba_sparse(config, layer)?)));
const JAMBA_DENSE: Need = Need::When(EXPERT_LAYERS, |config, layer| Ok(needed_if(!is_jamba_sparse(config, layer)?)));

const JAMBA_INNER: Size = size(
    |config| Ok(config.needed("mamba_expand")?.saturating_mul(config.needed("hidden_size")?)),
    "mamba_expand, hidden_size",
    "ssm.inner_size",
);
const TWO_JAMBA_INNER: Size =
    size(|config| Ok((JAMBA_INNER.of)(config)?.saturating_mul(2)), JAMBA_INNER.hf, JAMBA_INNER.gguf);
const JAMBA_STATE: Size = size(jamba_state, "mamba_d_state", "ssm.state_size");
const JAMBA_RANK: Size = size(jamba_rank, "mamba_dt_rank", "ssm.time_step_rank");
const JAMBA_KERNEL: Size =
    size(|config| Ok(config.count(&["mamba_d_conv"])?.unwrap_or(4)), "mamba_d_conv", "ssm.conv_kernel");
const JAMBA_X: Size = size(
    |config| Ok(jamba_state(config)?.saturating_mul(2).saturating_add(jamba_rank(config)?)),
    "mamba_d_state, mamba_dt_rank",
    "ssm.state_size, ssm.time_step_rank",
);

fn jamba_state(config: &Config) -> Result<u64> {
    Ok(config.count(&["mamba_d_state"])?.filter(|size| *size > 0).unwrap_or(16))
}

fn jamba_rank(config: &Config) -> Result<u64> {
    match config.get("mamba_dt_rank") {
        Some(Value::Number(_)) => config.needed("mamba_dt_rank"),
        _ => Ok(config.needed("hidden_size")?.div_ceil(16)),
    }
}

const JAMBA_EXPERTS_UP: &[Size] = &[EXPERT_COUNT, FFN, HIDDEN];
const JAMBA_EXPERTS_DOWN: &[Size] = &[EXPERT_COUNT, HIDDEN, FFN];

const JAMBA_TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.final_layernorm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("pre_ff_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("pre_moe_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).when(JAMBA_FULL),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).when(JAMBA_FULL),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).when(JAMBA_FULL),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]).when(JAMBA_FULL),
    layer("mamba.in_proj.*", "ssm_in.*", &[TWO_JAMBA_INNER, HIDDEN]).when(JAMBA_STATES).biased(JAMBA_STATES_OPTIONAL),
    layer("mamba.conv1d.bias", "ssm_conv1d.bias", &[JAMBA_INNER]).when(JAMBA_STATES_OPTIONAL),
    layer("mamba.conv1d.weight", "ssm_conv1d.weight", &[JAMBA_INNER, JAMBA_KERNEL])
        .with(&[Change::WithoutMiddle])
        .when(JAMBA_STATES),
    layer("mamba.x_proj.*", "ssm_x.*", &[JAMBA_X, JAMBA_INNER]).when(JAMBA_STATES),
    layer("mamba.dt_proj.*", "ssm_dt.*", &[JAMBA_INNER, JAMBA_RANK]).when(JAMBA_STATES).biased(JAMBA_STATES),
    layer("mamba.A_log", "ssm_a", &[JAMBA_INNER, JAMBA_STATE]).with(&[Change::NegativeExponential]).when(JAMBA_STATES),
    layer("mamba.D", "ssm_d", &[JAMBA_INNER]).when(JAMBA_STATES),
    layer("mamba.dt_layernorm.*", "ssm_dt_norm.*", &[JAMBA_RANK]).when(JAMBA_STATES),
    layer("mamba.b_layernorm.*", "ssm_b_norm.*", &[JAMBA_STATE]).when(JAMBA_STATES),
    layer("mamba.c_layernorm.*", "ssm_c_norm.*", &[JAMBA_STATE]).when(JAMBA_STATES),
    layer("mamba.out_proj.*", "ssm_out.*", &[HIDDEN, JAMBA_INNER]).when(JAMBA_STATES).biased(JAMBA_STATES_OPTIONAL),
    layer("feed_forward.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN]).when(JAMBA_DENSE),
    layer("feed_forward.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).when(JAMBA_DENSE),
    layer("feed_forward.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).when(JAMBA_DENSE),
    layer("feed_forward.experts.0.gate_proj.weight", "ffn_gate.weight", &[FFN, HIDDEN]).when(JAMBA_DENSE),
    layer("feed_forward.experts.0.up_proj.weight", "ffn_up.weight", &[FFN, HIDDEN]).when(JAMBA_DENSE),
    layer("feed_forward.experts.0.down_proj.weight", "ffn_down.weight", &[HIDDEN, FFN]).when(JAMBA_DENSE),
    layer("feed_forward.router.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(JAMBA_SPARSE),
    layer("feed_forward.experts.{X}.down_proj.weight", "ffn_down_exps.weight", JAMBA_EXPERTS_DOWN).when(JAMBA_SPARSE),
    layer("feed_forward.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", JAMBA_EXPERTS_UP).when(JAMBA_SPARSE),
    layer("feed_forward.experts.{X}.up_proj.weight", "ffn_up_exps.weight", JAMBA_EXPERTS_UP).when(JAMBA_SPARSE),
];

const JAMBA_KEYS: &[Key] = &[
    count("block_count", LAYER_KEYS),
    count("context_length", &["max_position_embeddings", "n_ctx"]),
    count("embedding_length", &["hidden_size", "mamba_d_model"]),
    count("feed_forward_length", &["intermediate_size"]),
    count("attention.head_count", &["num_attention_heads"]),
    ints_fn("attention.head_count_kv", |config| {
        let heads = config.needed("num_key_value_heads")? as i32;
        config.per_layer(|layer| Ok(if is_jamba_attention(config, layer)? { heads } else { 0 })).map(Some)
    }),
    count_fn("ssm.conv_kernel", |config| (JAMBA_KERNEL.of)(config).map(Some)),
    count_fn("ssm.inner_size", |config| (JAMBA_INNER.of)(config).map(Some)),
    count_fn("ssm.state_size", |config| jamba_state(config).map(Some)),
    count_fn("ssm.time_step_rank", |config| jamba_rank(config).map(Some)),
    real_or("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon", "rms_norm_eps"], 1e-6),
    count("expert_count", &["num_local_experts", "num_experts"]),
    count("expert_used_count", &["num_experts_per_tok", "num_experts_per_token"]),
    FILE_TYPE,
];

/// MiniCPM: Llama with three scales.
pub(super) static MINICPM: Architecture = Architecture {
    name: "minicpm",
    classes: &[class("MiniCPMForCausalLM", "minicpm")],
    keys: &[COMMON, MINICPM_KEYS],
    derived_tensors: LONG_FACTORS,
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, ..BPE },
    ..LLAMA
};

const MINICPM_KEYS: &[Key] = &[
    real("embedding_scale", &["scale_emb"]),
    real_fn("residual_scale", |config| Ok(Some(config.needed_real("scale_depth")? / (config.layers()? as f64).sqrt()))),
    real_fn("logit_scale", |config| {
        Ok(Some(config.needed("hidden_size")? as f64 / config.needed_real("dim_model_base")?))
    }),
];

const LONG_FACTORS: &[DerivedTensor] = &[
    DerivedTensor { name: "rope_factors_long.weight", values: |config| long(config, "long_factor", None) },
    DerivedTensor { name: "rope_factors_short.weight", values: |config| long(config, "short_factor", None) },
];
const LATENT_FACTORS: &[DerivedTensor] = &[
    DerivedTensor {
        name: "rope_factors_long.weight",
        values: |config| long(config, "long_factor", Some("qk_rope_head_dim")),
    },
    DerivedTensor {
        name: "rope_factors_short.weight",
        values: |config| long(config, "short_factor", Some("qk_rope_head_dim")),
    },
];

/// The factors of LongRoPE for heads of a size.
fn long(config: &Config, key: &str, head: Option<&str>) -> Result<Option<Vec<f32>>> {
    let lists = ["long_factor", "short_factor"];
    let mut has_any = false;
    for list in lists {
        has_any |= config.rope().reals(list)?.is_some_and(|factors| !factors.is_empty());
    }
    if !has_any {
        return Ok(None);
    }
    let size = match head {
        Some(head) => config.needed(head)?,
        None => config.share_of_width()?,
    };
    let factors = config.rope().reals(key)?.unwrap_or_default();
    if factors.len() as u64 * 2 != size {
        let why =
            format!("config.json: {key} has {} values, {} are needed by the size of a head", factors.len(), size / 2);
        return Err(AnamnesisError::parse(why));
    }
    Ok(Some(factors.iter().map(|factor| *factor as f32).collect()))
}

/// MiniCPM 3: multi-head latent attention with keys and values in one tensor.
pub(super) static MINICPM3: Architecture = Architecture {
    name: "minicpm3",
    classes: &[class("MiniCPM3ForCausalLM", "minicpm3")],
    rules: &[EMBED_NORM_HEAD, NORMS, WHOLE_LATENT, GATED_FFN],
    keys: &[MINICPM3_KEYS],
    derived_tensors: LATENT_FACTORS,
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, ..BPE },
    ..PLAIN
};

const KV_B: Size = size(
    |config| {
        let size = config.needed("qk_nope_head_dim")?.saturating_add(config.needed("v_head_dim")?);
        Ok(heads(config)?.saturating_mul(size))
    },
    "num_attention_heads, qk_nope_head_dim, v_head_dim",
    "attention.head_count, attention.key_length",
);

const WHOLE_LATENT: &[Rule] = &[
    layer("self_attn.q_a_proj.*", "attn_q_a.*", &[Q_RANK, HIDDEN]).when(LOW_RANK_Q),
    layer("self_attn.q_a_layernorm.*", "attn_q_a_norm.*", &[Q_RANK]).when(LOW_RANK_Q),
    layer("self_attn.q_b_proj.*", "attn_q_b.*", &[LATENT_Q_DIM, Q_RANK]).when(LOW_RANK_Q),
    layer("self_attn.kv_a_proj_with_mqa.*", "attn_kv_a_mqa.*", &[KV_A_DIM, HIDDEN]),
    layer("self_attn.kv_a_layernorm.*", "attn_kv_a_norm.*", &[KV_RANK]),
    layer("self_attn.kv_b_proj.*", "attn_kv_b.*", &[KV_B, KV_RANK]),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, V_DIM]),
];

const MINICPM3_KEYS: &[Key] = &[
    FILE_TYPE,
    count("context_length", &["max_position_embeddings"]),
    count("embedding_length", &["hidden_size"]),
    count("block_count", LAYER_KEYS),
    count("feed_forward_length", &["intermediate_size"]),
    count("attention.head_count", &["num_attention_heads"]),
    count("attention.head_count_kv", &["num_key_value_heads"]),
    real("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    count("vocab_size", &["vocab_size"]),
    count("attention.q_lora_rank", &["q_lora_rank"]),
    count("attention.kv_lora_rank", &["kv_lora_rank"]),
    count_fn("attention.key_length", |config| {
        Ok(Some(config.needed("qk_nope_head_dim")?.saturating_add(config.needed("qk_rope_head_dim")?)))
    }),
    count("rope.dimension_count", &["qk_rope_head_dim"]),
];

/// PLM.
pub(super) static PLM: Architecture = Architecture {
    name: "plm",
    classes: &[class("PLMForCausalLM", "plm")],
    rules: &[PLM_EMBED, NORMS, PLM_LATENT, PLM_FFN],
    keys: &[COMMON, PLM_KEYS],
    ..PLAIN
};

const PLM_EMBED: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
];
const PLM_LATENT: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[LATENT_Q_DIM, HIDDEN]),
    layer("self_attn.kv_a_proj_with_mqa.*", "attn_kv_a_mqa.*", &[KV_A_DIM, HIDDEN]),
    layer("self_attn.kv_a_layernorm.*", "attn_kv_a_norm.*", &[KV_RANK]),
    layer("self_attn.kv_b_proj.*", "attn_kv_b.*", &[KV_B, KV_RANK]),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, V_DIM]),
];
const PLM_FFN: &[Rule] =
    &[layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]), layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN])];

const PLM_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    count("attention.kv_lora_rank", &["kv_lora_rank"]),
    count_fn("attention.key_length", |config| {
        Ok(Some(config.needed("qk_nope_head_dim")?.saturating_add(config.needed("qk_rope_head_dim")?)))
    }),
    count("attention.value_length", &["v_head_dim"]),
    count("rope.dimension_count", &["qk_rope_head_dim"]),
];

/// Arctic: experts beside a small feed-forward network.
pub(super) static ARCTIC: Architecture = Architecture {
    name: "arctic",
    classes: &[class("ArcticForCausalLM", "arctic")],
    rules: &[EMBED_NORM_HEAD, PERMUTED_ATTENTION, ARCTIC_LAYER, MIXTURE],
    keys: &[COMMON, ARCTIC_KEYS],
    derived_tensors: &[],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, arctic_types: true, ..BPE },
    ..LLAMA
};

const ARCTIC_LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("residual_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm_exps.*", &[HIDDEN]),
    layer("residual_mlp.w1.*", "ffn_gate.*", &[HIDDEN, HIDDEN]),
    layer("residual_mlp.w2.*", "ffn_down.*", &[HIDDEN, HIDDEN]),
    layer("residual_mlp.w3.*", "ffn_up.*", &[HIDDEN, HIDDEN]),
];

const ARCTIC_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    count_fn("rope.dimension_count", |config| config.share_of_width().map(Some)),
];

/// OpenELM: other numbers of heads and other widths in every layer.
pub(super) static OPENELM: Architecture = Architecture {
    name: "openelm",
    classes: &[class("OpenELMForCausalLM", "openelm")],
    layer_prefix: "transformer.layers.",
    rules: &[OPENELM_TENSORS],
    keys: &[OPENELM_KEYS],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, ..BPE },
    ..PLAIN
};

const MODEL_DIM: Size = size(|config| config.needed("model_dim"), "model_dim", "embedding_length");
const OPENELM_HEAD: Size = size(|config| config.needed("head_dim"), "head_dim", "attention.key_length");

fn of_layer(config: &Config, key: &str, layer: u64) -> Result<u64> {
    match config.count_of_layer(key, layer)? {
        Some(count) => Ok(count),
        None => Err(AnamnesisError::parse(format!("config.json: \"{key}\" has no item for layer {layer}"))),
    }
}

const OPENELM_Q: Size = layer_size(
    |config, layer| Ok(of_layer(config, "num_query_heads", layer)?.saturating_mul(config.needed("head_dim")?)),
    "num_query_heads, head_dim",
    "attention.head_count",
);
const OPENELM_QKV: Size = layer_size(
    |config, layer| {
        let keys = of_layer(config, "num_kv_heads", layer)?.saturating_mul(2);
        let all = of_layer(config, "num_query_heads", layer)?.saturating_add(keys);
        Ok(all.saturating_mul(config.needed("head_dim")?))
    },
    "num_query_heads, num_kv_heads, head_dim",
    "attention.head_count, attention.head_count_kv",
);
const OPENELM_FFN: Size =
    layer_size(openelm_inner, "ffn_multipliers, ffn_dim_divisor, model_dim", "feed_forward_length");

/// The width of a layer's feed-forward network, rounded to the divisor.
fn openelm_inner(config: &Config, layer: u64) -> Result<u64> {
    let multipliers = config.reals("ffn_multipliers")?.unwrap_or_default();
    let Some(multiplier) = multipliers.get(usize::try_from(layer).unwrap_or(usize::MAX)) else {
        return Err(AnamnesisError::parse(format!("config.json: \"ffn_multipliers\" has no item for layer {layer}")));
    };
    let divisor = config.divisor("ffn_dim_divisor")?;
    let width = multiplier * config.needed("model_dim")? as f64;
    let rounded = ((width + divisor as f64 / 2.0) as u64 / divisor).saturating_mul(divisor).max(divisor);
    Ok(if (rounded as f64) < 0.9 * width { rounded.saturating_add(divisor) } else { rounded })
}

const OPENELM_TENSORS: &[Rule] = &[
    model("transformer.token_embeddings.*", "token_embd.*", &[VOCAB, MODEL_DIM]),
    model("transformer.norm.*", "output_norm.*", &[MODEL_DIM]),
    model("lm_head.*", "output.*", &[VOCAB, MODEL_DIM]).when(OPTIONAL),
    layer("attn_norm.*", "attn_norm.*", &[MODEL_DIM]),
    layer("ffn_norm.*", "ffn_norm.*", &[MODEL_DIM]),
    layer("attn.qkv_proj.*", "attn_qkv.*", &[OPENELM_QKV, MODEL_DIM]),
    layer("attn.q_norm.*", "attn_q_norm.*", &[OPENELM_HEAD]),
    layer("attn.k_norm.*", "attn_k_norm.*", &[OPENELM_HEAD]),
    layer("attn.out_proj.*", "attn_output.*", &[MODEL_DIM, OPENELM_Q]),
    layer("ffn.proj_1.weight", "ffn_gate.weight", &[OPENELM_FFN, MODEL_DIM]).with(&[Change::First(Halves::Rows)]),
    layer("ffn.proj_1.weight", "ffn_up.weight", &[OPENELM_FFN, MODEL_DIM]).with(&[Change::Second(Halves::Rows)]),
    layer("ffn.proj_2.*", "ffn_down.*", &[MODEL_DIM, OPENELM_FFN]),
];

fn signed(list: Option<Vec<u64>>) -> Option<Vec<i32>> {
    list.map(|list| list.into_iter().map(|item| item as i32).collect())
}

const OPENELM_KEYS: &[Key] = &[
    count("block_count", LAYER_KEYS),
    count("context_length", &["max_context_length"]),
    count("embedding_length", &["model_dim"]),
    ints_fn("feed_forward_length", |config| {
        config.per_layer(|layer| Ok(openelm_inner(config, layer)? as i32)).map(Some)
    }),
    ints_fn("attention.head_count", |config| Ok(signed(config.counts("num_query_heads")?))),
    ints_fn("attention.head_count_kv", |config| Ok(signed(config.counts("num_kv_heads")?))),
    real("rope.freq_base", &["rope_freq_constant"]),
    real_fn("attention.layer_norm_rms_epsilon", |_| Ok(Some(1e-6))),
    count("rope.dimension_count", &["head_dim"]),
    count("attention.key_length", &["head_dim"]),
    count("attention.value_length", &["head_dim"]),
    FILE_TYPE,
];

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

const BLOCKS: &str = "block_configs";
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
const BLOCK_INNER: Size = layer_size(block_inner, "block_configs, hidden_size", "feed_forward_length");

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

/// Laguna: gated attention, heads by layer.
pub(super) static LAGUNA: Architecture = Architecture {
    name: "laguna",
    classes: &[class("LagunaForCausalLM", "laguna")],
    rules: &[EMBED_NORM_HEAD, NORMS, LAGUNA_ATTENTION, QK_NORMS, GATED_FFN, LAGUNA_EXPERTS, LAGUNA_SHARED],
    keys: &[COMMON, LAGUNA_KEYS],
    tokenizer: TokenizerRules {
        control_tokens: &["</assistant>"],
        overrides: TokenOverrides { other_end: true, ..NO_OVERRIDES },
        ..BPE
    },
    ..QWEN3_MOE
};

fn laguna_heads(config: &Config, layer: u64) -> Result<u64> {
    match config.count_of_layer("num_attention_heads_per_layer", layer)? {
        Some(heads) => Ok(heads),
        None => heads(config),
    }
}

const HEADS_BY_LAYER: &str = "num_attention_heads_per_layer, num_attention_heads, head_dim";
const LAGUNA_Q: Size = layer_size(
    |config, layer| Ok(laguna_heads(config, layer)?.saturating_mul(config.head_size()?)),
    HEADS_BY_LAYER,
    "attention.head_count",
);
/// A gate per head or per value.
const LAGUNA_GATE: Size = layer_size(
    |config, layer| {
        let kind = match config.text_of_layer("gating_types", layer)? {
            Some(kind) => kind,
            None => config.get("gating").and_then(Value::as_str).unwrap_or("per-head"),
        };
        let heads = laguna_heads(config, layer)?;
        Ok(if kind.replace('-', "_") == "per_element" { heads.saturating_mul(config.head_size()?) } else { heads })
    },
    "num_attention_heads_per_layer, num_attention_heads, gating, gating_types",
    "attention.head_count",
);

const LAGUNA_ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[LAGUNA_Q, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, LAGUNA_Q]).biased(OPTIONAL),
    layer("self_attn.g_proj.*", "attn_gate.*", &[LAGUNA_GATE, HIDDEN]),
];

const LAGUNA_EXPERTS: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("mlp.experts.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
];

const LAGUNA_SHARED: &[Rule] = &[
    layer("mlp.shared_expert.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_expert.up_proj.*", "ffn_up_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_expert.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_FFN]).when(SHARED),
];

const LAGUNA_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    ints_fn("attention.head_count", |config| {
        config.per_layer(|layer| Ok(laguna_heads(config, layer)? as i32)).map(Some)
    }),
    count_fn("attention.sliding_window", |config| Ok(config.count(&["sliding_window"])?.filter(|window| *window > 0))),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
    flag_fn("expert_weights_norm", |_| Ok(Some(true))),
    real("expert_weights_scale", &["moe_routed_scaling_factor"]),
    count_fn("expert_gating_func", |_| Ok(Some(2))),
    count_fn("leading_dense_block_count", |config| {
        let kinds = config.texts("mlp_layer_types")?.unwrap_or_default();
        Ok(Some(kinds.iter().take_while(|kind| **kind == "dense").count() as u64))
    }),
    count_fn("rope.dimension_count", |config| {
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
        Ok(Some((config.head_size()? as f64 * part) as u64))
    }),
    count_fn("rope.dimension_count_swa", sliding_dimensions),
];

/// The dimensions that RoPE rotates in sliding-window layers.
fn sliding_dimensions(config: &Config) -> Result<Option<u64>> {
    if !config.rope().has_sliding() {
        return Ok(None);
    }
    let part = config.rope().sliding_real("partial_rotary_factor")?.unwrap_or(1.0);
    Ok(Some((config.head_size()? as f64 * part) as u64))
}

/// Spark 2.5: a fused `q_k_v_proj` with a gate per head.
pub(super) static SPARK: Architecture = Architecture {
    name: "spark2_5",
    classes: &[class("Spark2_5ForCausalLM", "spark2_5")],
    rules: &[EMBED_NORM_HEAD, NORMS, SPARK_ATTENTION, GATED_FFN],
    keys: &[COMMON, SPARK_KEYS],
    ..PLAIN
};

const SPARK_ATTENTION: &[Rule] = &[
    layer("self_attn.q_k_v_proj.*", "attn_qkv.*", &[QKV_DIM, HIDDEN]),
    layer("self_attn.g_proj.*", "attn_gate.*", &[HEADS, HIDDEN]),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]),
];

const SPARK_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    count("attention.sliding_window", &["sliding_window"]),
    flags_fn("attention.sliding_window_pattern", sliding_layers),
    count_fn("rope.dimension_count", |config| {
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
        Ok(Some((config.head_size()? as f64 * part) as u64))
    }),
    count_fn("rope.dimension_count_swa", sliding_dimensions),
];

/// InternLM 2: `wqkv` by groups of heads.
pub(super) static INTERNLM2: Architecture = Architecture {
    name: "internlm2",
    classes: &[class("InternLM2ForCausalLM", "internlm2")],
    rules: &[INTERNLM2_TENSORS],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, replaces_pieces: true, internlm: true, ..BPE },
    ..PLAIN
};

const KV_GROUPS: Size = size(kv_heads, "num_key_value_heads", "attention.head_count_kv");
const GROUP_Q: Size = size(
    |config| Ok((heads(config)? / kv_heads(config)?).saturating_mul(config.share_of_width()?)),
    "num_attention_heads, num_key_value_heads, hidden_size",
    "attention.head_count, attention.head_count_kv",
);
const GROUP: &[Size] = &[GROUP_Q, HEAD_DIM, HEAD_DIM];

const INTERNLM2_TENSORS: &[Rule] = &[
    model("model.tok_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("output.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("attention_norm.*", "attn_norm.*", &[HIDDEN]),
    layer("ffn_norm.*", "ffn_norm.*", &[HIDDEN]),
    layer("attention.wqkv.weight", "attn_q.weight", &[Q_DIM, HIDDEN]).with(&[
        Change::Parts(&Parts { groups: KV_GROUPS, parts: GROUP, first: 0, count: 1 }),
        Change::Rotary("num_attention_heads"),
    ]),
    layer("attention.wqkv.weight", "attn_k.weight", &[KV_DIM, HIDDEN]).with(&[
        Change::Parts(&Parts { groups: KV_GROUPS, parts: GROUP, first: 1, count: 1 }),
        Change::Rotary("num_key_value_heads"),
    ]),
    layer("attention.wqkv.weight", "attn_v.weight", &[KV_DIM, HIDDEN]).with(&[Change::Parts(&Parts {
        groups: KV_GROUPS,
        parts: GROUP,
        first: 2,
        count: 1,
    })]),
    layer("attention.wo.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("feed_forward.w1.*", "ffn_gate.*", &[FFN, HIDDEN]),
    layer("feed_forward.w2.*", "ffn_down.*", &[HIDDEN, FFN]),
    layer("feed_forward.w3.*", "ffn_up.*", &[FFN, HIDDEN]),
];

/// InternLM 3: Llama with a vocabulary of its own.
pub(super) static INTERNLM3: Architecture = Architecture {
    classes: &[class("InternLM3ForCausalLM", "internlm3")],
    tokenizer: TokenizerRules {
        pieces: PiecesUse::Required,
        overrides: TokenOverrides { ids: &[("eos", "<|im_end|>")], space_prefix: true, ..NO_OVERRIDES },
        ..BPE
    },
    name: "llama",
    derived_tensors: &[],
    ..LLAMA
};

/// Xverse.
pub(super) static XVERSE: Architecture = Architecture {
    name: "xverse",
    classes: &[class("XverseForCausalLM", "xverse")],
    rules: &[EMBED_NORM_HEAD, NORMS, XVERSE_ATTENTION, GATED_FFN],
    keys: &[COMMON, XVERSE_KEYS],
    derived_tensors: &[],
    tokenizer: TokenizerRules { pieces_in_json: true, unscored: true, ..BPE },
    ..LLAMA
};

/// The rows that the converter takes for a head: of all heads divided by those of keys, where they differ.
const XVERSE_HEAD: Size = size(
    |config| {
        let (all, keys) = (heads(config)?, kv_heads(config)?);
        let groups = if all == keys { all } else { all / keys };
        let rows = keys.saturating_mul(config.head_size()?);
        Ok(rows.checked_div(groups).unwrap_or(0))
    },
    "num_attention_heads, num_key_value_heads, hidden_size",
    "attention.head_count, attention.head_count_kv",
);

const XVERSE_ATTENTION: &[Rule] = {
    let [q, k, v, output] = attention(Need::Never, Need::Never);
    &[q.with(&[Change::Rotary("num_attention_heads")]), k.with(&[Change::RotaryOf(XVERSE_HEAD)]), v, output]
};

const XVERSE_KEYS: &[Key] = &[
    text_fn("tensor_data_layout", |_| Ok(Some("Meta AI original pth"))),
    count_fn("rope.dimension_count", |config| config.share_of_width().map(Some)),
];

/// Grok 1.
pub(super) static GROK: Architecture = Architecture {
    name: "grok",
    classes: &[class("GrokForCausalLM", "grok-1"), class("Grok1ForCausalLM", "grok-1")],
    rules: &[GROK_TENSORS, GROK_ATTENTION, MIXTURE],
    keys: &[COMMON, GROK_KEYS],
    tokenizer: PIECES_OR_BPE,
    ..PLAIN
};

const GROK_ATTENTION: &[Rule] = &attention(Need::Never, Need::Never);

const GROK_TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("pre_attn_norm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attn_norm.*", "attn_output_norm.*", &[HIDDEN]),
    layer("pre_moe_norm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_moe_norm.*", "post_ffw_norm.*", &[HIDDEN]),
    layer("mlp.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN]).when(OPTIONAL),
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).when(OPTIONAL),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).when(OPTIONAL),
];

const GROK_KEYS: &[Key] = &[
    real_or("attn_logit_softcapping", &["attn_logit_softcapping"], 30.0),
    real_or("router_logit_softcapping", &["router_logit_softcapping"], 30.0),
    real_fn("final_logit_softcapping", |config| {
        Ok(config.real(&["final_logit_softcapping"])?.filter(|cap| *cap != 0.0))
    }),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    real_fn("attention.output_scale", |config| match config.real(&["attn_output_multiplier"])? {
        Some(scale) => Ok(Some(scale)),
        None => Ok(Some((config.head_size()? as f64).powf(-0.5))),
    }),
    real("embedding_scale", &["embedding_multiplier_scale"]),
    real("logit_scale", &["output_multiplier_scale"]),
];
