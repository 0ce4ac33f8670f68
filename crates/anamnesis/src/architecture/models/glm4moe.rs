//! GLM 4.5 and 4.6: routed experts, and layers for multi-token prediction after the last.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "glm4moe",
    classes: &[Class {
        name: "Glm4MoeForCausalLM",
        model_type: "glm4_moe",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(151_552)),
                ("intermediate_size", Count(10944)),
                ("num_hidden_layers", Count(46)),
                ("num_attention_heads", Count(96)),
                ("num_key_value_heads", Count(8)),
                ("max_position_embeddings", Count(131_072)),
                ("rms_norm_eps", Real(1e-5)),
                ("n_routed_experts", Count(128)),
                ("num_experts_per_tok", Count(8)),
                ("moe_intermediate_size", Count(1408)),
                ("norm_topk_prob", Flag(true)),
                ("n_group", Count(1)),
                ("topk_group", Count(1)),
                ("routed_scaling_factor", Real(1.0)),
                ("first_k_dense_replace", Count(1)),
                ("n_shared_experts", Count(1)),
                ("partial_rotary_factor", Real(0.5)),
            ],
        ],
    }],
    rules: &[EMBED_NORM_HEAD, QKV_BIASED_ATTENTION, QK_NORMS, LAYER, GATED_FFN, EXPERTS, SHARED_EXPERTS, NEXTN_TENSORS],
    keys: &[COMMON, KEYS],
    tokenizer: TokenizerRules {
        roles: &[("bos", "[gMASK]"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("eom", "<|observation|>")],
        pre: &[(PreTokenizer::Llama3, "glm4")],
        classes: &[("glm4_moe", TokenizerClass::NoDefaults)],
        ..BPE
    },
    nextn_layers: NextnLayers::Key(NEXT_LAYERS),
    restore: Some(|file, config| {
        config.remove("num_local_experts");
        let next = file.count("nextn_predict_layers").unwrap_or(0);
        if let Some(layers) = file.count("block_count") {
            set(config, "num_hidden_layers", layers.saturating_sub(next));
        }
        if next > 0 {
            set(config, NEXT_LAYERS, next);
        }
        restore::partial_rotary_factor(file, config);
        set(config, "norm_topk_prob", file.flag("expert_weights_norm").unwrap_or(true));
        set(config, "use_qk_norm", file.has_in_layers(&["attn_q_norm.weight"]));
        Ok(0)
    }),
    ..DECODER
};

/// The number of layers for multi-token prediction.
const NEXT_LAYERS: &str = "num_nextn_predict_layers";

const LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(SPARSE),
];

/// Norms of queries and keys, in models that have them.
const NORMED: Need = Need::Flag("use_qk_norm");

const QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]).when(NORMED),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).when(NORMED),
];

const KEYS: &[Key] = &[
    count_fn("rope.dimension_count", half_of_head),
    count("expert_count", &["n_routed_experts"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_count", &["n_shared_experts"]),
    count("leading_dense_block_count", &["first_k_dense_replace"]),
    count_fn("expert_gating_func", |_| Ok(Some(2))),
    real("expert_weights_scale", &["routed_scaling_factor"]),
    Key { gguf: "expert_weights_norm", from: ValueSource::BoolFn(|config| config.flag("norm_topk_prob")) },
    count_fn("nextn_predict_layers", |config| Ok(config.count(&[NEXT_LAYERS])?.map(|_| config.nextn_layers))),
];
