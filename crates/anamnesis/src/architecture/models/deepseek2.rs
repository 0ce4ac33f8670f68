//! DeepSeek V2 and V3, Kimi K2: multi-head latent attention, routed and shared experts.

use serde_json::{Map, Value};

use crate::architecture::latent::{LATENT_ATTENTION, LATENT_KEYS, RANKS};
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "deepseek2",
    classes: &[
        Class {
            name: "DeepseekV2ForCausalLM",
            model_type: "deepseek_v2",
            defaults: &[
                BASE,
                RANKS,
                &[
                    ("vocab_size", Count(102_400)),
                    ("n_routed_experts", Count(64)),
                    ("moe_intermediate_size", Count(1407)),
                    ("routed_scaling_factor", Real(1.0)),
                    ("first_k_dense_replace", Count(0)),
                    ("n_shared_experts", Count(2)),
                ],
            ],
        },
        Class { name: "DeepseekV3ForCausalLM", model_type: "deepseek_v3", defaults: V3 },
        Class { name: "KimiK2ForCausalLM", model_type: "kimi_k2", defaults: V3 },
    ],
    rules: &[EMBED_NORM_HEAD, NORMS, LATENT_ATTENTION, GATED_FFN, EXPERTS, SHARED_EXPERTS],
    keys: &[COMMON, LATENT_KEYS],
    tokenizer: BPE_OR_RANKS,
    head: Head::UnlessTied,
    drops_nextn_layers: true,
    restore: Some(restore),
    ..DECODER
};

const V3: &[&[ClassDefault]] = &[
    BASE,
    RANKS,
    &[
        ("vocab_size", Count(129_280)),
        ("hidden_size", Count(7168)),
        ("intermediate_size", Count(18432)),
        ("num_hidden_layers", Count(61)),
        ("num_attention_heads", Count(128)),
        ("num_key_value_heads", Count(128)),
        ("max_position_embeddings", Count(4096)),
        ("n_routed_experts", Count(256)),
        ("num_experts_per_tok", Count(8)),
        ("moe_intermediate_size", Count(2048)),
        ("norm_topk_prob", Flag(true)),
        ("n_group", Count(8)),
        ("topk_group", Count(4)),
        ("routed_scaling_factor", Real(2.5)),
        ("first_k_dense_replace", Count(3)),
        ("n_shared_experts", Count(1)),
    ],
];

fn restore(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    config.remove("num_local_experts");
    restore::latent(file, config);
    let is_normed = file.flag("expert_weights_norm").unwrap_or(false);
    set(config, "norm_topk_prob", is_normed);
    let is_v3 = file.count("expert_gating_func") == Some(2);
    set(config, "scoring_func", if is_v3 { "sigmoid" } else { "softmax" });
    set(config, "topk_method", if is_v3 { "noaux_tc" } else { "greedy" });
    Ok(usize::from(is_v3))
}
