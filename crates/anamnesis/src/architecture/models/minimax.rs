//! MiniMax Text 01 and M1, M2 and M3.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

/// Text 01 and M1: most layers have lightning attention.
pub(super) static TEXT01: Architecture = Architecture {
    name: "minimax-01",
    classes: &[class("MiniMaxText01ForCausalLM", "minimax_text_01"), class("MiniMaxM1ForCausalLM", "minimax_m1")],
    renames: &[Rename::Anywhere("self_attn.out_proj.", "self_attn.o_proj.")],
    rules: &[EMBED_NORM_HEAD, NORMS, LIGHTNING, MIXTURE],
    read_tensors: &[read(EMBEDDING, Measure::ZeroRows)],
    keys: &[COMMON, TEXT01_KEYS],
    tokenizer: TokenizerRules {
        overrides: TokenOverrides {
            default_template: Some(include_str!("../tokenizer/templates/minimax_m1.jinja")),
            ..NO_OVERRIDES
        },
        ..TOKENS
    },
    restore: None,
    not_held: Some("the factors layernorm_*_alpha and layernorm_*_beta"),
    ..PLAIN
};

const EMBEDDING: &str = "model.embed_tokens.weight";

/// Whether a layer has lightning attention.
fn is_lightning(config: &Config, layer: u64) -> Result<bool> {
    match config.count_of_layer("attn_type_list", layer)? {
        Some(kind) => Ok(kind == 0),
        None => Err(AnamnesisError::parse(format!("config.json: \"attn_type_list\" has no item for layer {layer}"))),
    }
}

const LINEAR: Need = Need::When("attn_type_list", |config, layer| Ok(needed_if(is_lightning(config, layer)?)));
const FULL: Need = Need::When("attn_type_list", |config, layer| Ok(needed_if(!is_lightning(config, layer)?)));
const THREE_Q: Size = size(|config| Ok((Q_DIM.of)(config)?.saturating_mul(3)), Q_DIM.hf, Q_DIM.gguf);

const LIGHTNING: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).when(FULL),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).when(FULL),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).when(FULL),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("self_attn.qkv_proj.*", "attn_qkv.*", &[THREE_Q, HIDDEN]).when(LINEAR),
    layer("self_attn.output_gate.*", "attn_gate.*", &[Q_DIM, HIDDEN]).when(LINEAR),
    layer("self_attn.norm.*", "attn_norm_2.*", &[Q_DIM]).when(LINEAR),
];

const TEXT01_KEYS: &[Key] = &[
    // Added tokens without an embedding.
    ints_fn("tokenizer.ggml.suppress_tokens", |config| {
        let zeros = config.measured.get(None, EMBEDDING).filter(|zeros| !zeros.is_empty());
        Ok(zeros.map(|zeros| zeros.iter().map(|number| *number as i32).collect()))
    }),
    real_fn("residual_scale", residual_scale),
    needed("rope.dimension_count", "rotary_dim"),
];

/// The factor of residuals, which must be the same for all modules; that of their outputs must be 1.
fn residual_scale(config: &Config) -> Result<Option<f64>> {
    let first = config.needed_real("layernorm_full_attention_alpha")?;
    for (key, wanted) in [
        ("layernorm_linear_attention_alpha", first),
        ("layernorm_mlp_alpha", first),
        ("layernorm_full_attention_beta", 1.0),
        ("layernorm_linear_attention_beta", 1.0),
        ("layernorm_mlp_beta", 1.0),
    ] {
        let found = config.needed_real(key)?;
        if found != wanted {
            let why = format!(
                "config.json: \"{key}\" is {found}, {wanted} is needed (layernorm_full_attention_alpha is {first})"
            );
            return Err(AnamnesisError::parse(why));
        }
    }
    Ok(Some(first))
}

pub(super) static M2: Architecture = Architecture {
    name: "minimax-m2",
    classes: &[class("MiniMaxM2ForCausalLM", "minimax_m2")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, WHOLE_QK_NORMS, MIXTURE, M2_CORRECTION],
    keys: &[COMMON, M2_KEYS],
    tokenizer: TOKENS,
    ..PLAIN
};

const TOKENS: TokenizerRules = TokenizerRules { pre: &[(PreTokenizer::Gpt4o, "minimax-m2")], ..BPE };

/// Norms over all queries and all keys.
const WHOLE_QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[Q_DIM]).when(OPTIONAL),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[KV_DIM]).when(OPTIONAL),
];

const M2_CORRECTION: &[Rule] =
    &[layer("block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE)];

const M2_KEYS: &[Key] =
    &[count("expert_feed_forward_length", &["intermediate_size"]), count_fn("rope.dimension_count", rotated)];

/// The dimensions that RoPE rotates: `rotary_dim`, or the share of a head that newer configurations have.
fn rotated(config: &Config) -> Result<Option<u64>> {
    if let Some(dimensions) = config.count(&["rotary_dim"])? {
        return Ok(Some(dimensions));
    }
    let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
    Ok(Some((config.head_size()? as f64 * part) as u64))
}

/// M3, alone or inside a multimodal model: norms of heads stored as differences from 1, an indexer of blocks.
pub(super) static M3: Architecture = Architecture {
    name: "minimax-m3",
    classes: &[
        class("MiniMaxM3SparseForCausalLM", "minimax_m3_vl_text"),
        class("MiniMaxM3SparseForConditionalGeneration", "minimax_m3_vl"),
    ],
    rules: &[M3_TENSORS, ATTENTION, GATED_FFN, M3_EXPERTS, M2_CORRECTION, M3_INDEXER],
    keys: &[COMMON, M2_KEYS, M3_KEYS],
    tokenizer: TOKENS,
    types: TypeRules::with_f32(&[".indexer."]),
    ..PLAIN
};

const M3_TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]).with(&[Change::PlusOne]).when(OPTIONAL),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).with(&[Change::PlusOne]).when(OPTIONAL),
];

/// The inner size of an expert; that of layers without experts has a key of its own.
const M3_INNER: Size =
    size(|config| config.needed("intermediate_size"), "intermediate_size", "expert_feed_forward_length");
const M3_SHARED: Size = size(
    |config| {
        let inner = first(config, &["shared_intermediate_size", "intermediate_size"])?;
        Ok(inner.saturating_mul(config.needed("n_shared_experts")?))
    },
    "shared_intermediate_size, intermediate_size, n_shared_experts",
    "expert_feed_forward_length, expert_shared_count",
);

const M3_EXPERTS: &[Rule] = &[
    layer("block_sparse_moe.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("block_sparse_moe.experts.{X}.w1.weight", "ffn_gate_exps.weight", &[EXPERT_COUNT, M3_INNER, HIDDEN])
        .when(SPARSE),
    layer("block_sparse_moe.experts.{X}.w2.weight", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, M3_INNER])
        .when(SPARSE),
    layer("block_sparse_moe.experts.{X}.w3.weight", "ffn_up_exps.weight", &[EXPERT_COUNT, M3_INNER, HIDDEN])
        .when(SPARSE),
    layer("block_sparse_moe.shared_experts.gate_proj.*", "ffn_gate_shexp.*", &[M3_SHARED, HIDDEN]).when(SHARED),
    layer("block_sparse_moe.shared_experts.up_proj.*", "ffn_up_shexp.*", &[M3_SHARED, HIDDEN]).when(SHARED),
    layer("block_sparse_moe.shared_experts.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, M3_SHARED]).when(SHARED),
];

const INDEX_SIZE: Size = size(
    |config| config.needed("sparse_attention_config.sparse_index_dim"),
    "sparse_attention_config.sparse_index_dim",
    "attention.indexer.key_length",
);
const INDEX_DIM: Size = size(
    |config| {
        let heads = config.needed("sparse_attention_config.sparse_num_index_heads")?;
        Ok(heads.saturating_mul((INDEX_SIZE.of)(config)?))
    },
    "sparse_attention_config.sparse_num_index_heads, sparse_attention_config.sparse_index_dim",
    "attention.indexer.head_count, attention.indexer.key_length",
);
/// The indexer, which only some layers have.
const INDEXED: Need = Need::When("", |_, _| Ok(Presence::Loose));

const M3_INDEXER: &[Rule] = &[
    layer("self_attn.index_q_proj.*", "indexer.q_proj.*", &[INDEX_DIM, HIDDEN]).when(INDEXED),
    layer("self_attn.index_k_proj.*", "indexer.k_proj.*", &[INDEX_SIZE, HIDDEN]).when(INDEXED),
    layer("self_attn.index_q_norm.*", "indexer.q_norm.*", &[INDEX_SIZE]).with(&[Change::PlusOne]).when(INDEXED),
    layer("self_attn.index_k_norm.*", "indexer.k_norm.*", &[INDEX_SIZE]).with(&[Change::PlusOne]).when(INDEXED),
];

const M3_KEYS: &[Key] = &[
    needed("expert_shared_count", "n_shared_experts"),
    needed_real("expert_weights_scale", "routed_scaling_factor"),
    flag_fn("expert_weights_norm", |_| Ok(Some(true))),
    needed("attention.indexer.head_count", "sparse_attention_config.sparse_num_index_heads"),
    count_fn("attention.indexer.key_length", |config| (INDEX_SIZE.of)(config).map(Some)),
    needed("attention.indexer.top_k", "sparse_attention_config.sparse_topk_blocks"),
    needed("attention.indexer.block_size", "sparse_attention_config.sparse_block_size"),
    needed("attention.indexer.local_blocks", "sparse_attention_config.sparse_local_block"),
    count_fn("leading_dense_block_count", |config| {
        let layers = config.layers()?;
        for layer in 0..layers {
            if has_experts(config, layer)? {
                return Ok(Some(layer));
            }
        }
        Ok(Some(layers))
    }),
];
