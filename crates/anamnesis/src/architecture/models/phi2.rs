//! Phi 2 and models with biased norms: StableLM, Orion, Jais 2, Phi 3.5 MoE.

use super::gpt::{BLOCKS, EPSILON, FOUR, WIDTH};
use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static PHI2: Architecture = Architecture {
    name: "phi2",
    classes: &[class("PhiForCausalLM", "phi")],
    rules: &[PHI2_TENSORS],
    keys: &[&[
        count("context_length", &["n_positions", "max_position_embeddings"]),
        count("embedding_length", &["hidden_size", "n_embd"]),
        FOUR,
        BLOCKS,
        count("attention.head_count", &["num_attention_heads", "n_head"]),
        count("attention.head_count_kv", &["num_attention_heads", "n_head"]),
        EPSILON,
        count_fn("rope.dimension_count", partly),
        FILE_TYPE,
        flag_fn("tokenizer.ggml.add_bos_token", |_| Ok(Some(false))),
    ]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Gpt2, "phi-2")], ..BPE },
    ..PLAIN
};

/// The dimensions that RoPE rotates.
fn partly(config: &Config) -> Result<Option<u64>> {
    let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
    Ok(Some((part * (HIDDEN.of)(config)? as f64) as u64 / heads(config)?))
}

const PHI2_TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.final_layernorm.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED).biased(OPTIONAL),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.dense.*", "attn_output.*", &[HIDDEN, Q_DIM]).biased(OPTIONAL),
    layer("mlp.fc1.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.fc2.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
];

pub(super) static STABLELM: Architecture = Architecture {
    name: "stablelm",
    classes: &[
        class("StableLmForCausalLM", "stablelm"),
        class("StableLMEpochForCausalLM", "stablelm_epoch"),
        class("LlavaStableLMEpochForCausalLM", "llava_stablelm_epoch"),
    ],
    rules: &[BIASED_NORMS, OPTIONAL_ATTENTION, GATED_FFN],
    keys: &[&[
        count("context_length", &["max_position_embeddings"]),
        count("embedding_length", &["hidden_size"]),
        BLOCKS,
        count("feed_forward_length", &["intermediate_size"]),
        count_fn("rope.dimension_count", |config| {
            let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
            Ok(Some((part * (WIDTH.of)(config)? as f64) as u64))
        }),
        count("attention.head_count", &["num_attention_heads"]),
        count("attention.head_count_kv", &["num_key_value_heads"]),
        flag_or("use_parallel_residual", "use_parallel_residual", true),
        real("attention.layer_norm_epsilon", &["layer_norm_eps", "norm_eps"]),
        FILE_TYPE,
    ]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Qwen2, "stablelm2")], ..BPE },
    ..PLAIN
};

const OPTIONAL_ATTENTION: &[Rule] = &attention(OPTIONAL, OPTIONAL);

/// The usual embedding and norms, with biases.
const BIASED_NORMS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED).biased(OPTIONAL),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
];

pub(super) static ORION: Architecture = Architecture {
    name: "orion",
    classes: &[class("OrionForCausalLM", "orion")],
    rules: &[BIASED_NORMS, OPTIONAL_ATTENTION, GATED_FFN],
    keys: &[&[
        FILE_TYPE,
        text_fn("tensor_data_layout", |_| Ok(Some("Meta AI original pth"))),
        count("context_length", &["max_sequence_length", "max_position_embeddings", "model_max_length"]),
        count("embedding_length", &["hidden_size"]),
        BLOCKS,
        count("feed_forward_length", &["intermediate_size"]),
        count("attention.head_count", &["num_attention_heads"]),
        count("attention.head_count_kv", &["num_key_value_heads", "num_attention_heads"]),
        real("attention.layer_norm_epsilon", &["rms_norm_eps"]),
    ]],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, ..BPE },
    ..PLAIN
};

/// Jais 2.
pub(super) static JAIS2: Architecture = Architecture {
    name: "jais2",
    classes: &[class("Jais2ForCausalLM", "jais2")],
    rules: &[BIASED_NORMS, OPTIONAL_ATTENTION, UNGATED],
    keys: &[COMMON, &[ROPE_OF_HEAD]],
    ..PLAIN
};

const UNGATED: &[Rule] = &[
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
];

/// Phi 3.5 MoE.
pub(super) static PHIMOE: Architecture = Architecture {
    name: "phimoe",
    classes: &[class("PhiMoEForCausalLM", "phimoe")],
    rules: &[BIASED_NORMS, OPTIONAL_ATTENTION, MIXTURE],
    early_keys: super::phi3::EARLY,
    keys: &[
        super::phi3::KEYS,
        &[
            count("expert_used_count", &["num_experts_per_tok", "num_experts_per_token"]),
            count("expert_count", &["num_local_experts", "num_experts"]),
        ],
    ],
    derived_tensors: super::phi3::FACTORS,
    tokenizer: TokenizerRules { pieces: PiecesUse::RequiredUnlessGpt2, replaces_pieces: true, ..BPE },
    ..PLAIN
};
