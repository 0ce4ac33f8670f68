//! MiniCPM and PLM: scales of their own, multi-head latent attention.

use crate::architecture::families::{LLAMA, PLAIN};
use crate::architecture::latent::{KV_A_DIM, KV_RANK, LATENT_Q_DIM, LOW_RANK_Q, Q_RANK, V_DIM};
use crate::architecture::prelude::*;

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
    DerivedTensor { name: "rope_factors_long.weight", row: None, values: |config| long(config, "long_factor", None) },
    DerivedTensor { name: "rope_factors_short.weight", row: None, values: |config| long(config, "short_factor", None) },
];

const LATENT_FACTORS: &[DerivedTensor] = &[
    DerivedTensor {
        name: "rope_factors_long.weight",
        row: None,
        values: |config| long(config, "long_factor", Some("qk_rope_head_dim")),
    },
    DerivedTensor {
        name: "rope_factors_short.weight",
        row: None,
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
