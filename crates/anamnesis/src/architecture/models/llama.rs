//! Llama 2, 3 and 3.x, Mistral and Mixtral.

use serde_json::Value;

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "llama",
    classes: &[
        Class {
            name: "LlamaForCausalLM",
            model_type: "llama",
            defaults: &[BASE, &[("head_dim", Quotient("hidden_size", "num_attention_heads"))]],
        },
        Class {
            name: "MistralForCausalLM",
            model_type: "mistral",
            defaults: &[
                BASE,
                &[
                    ("intermediate_size", Count(14336)),
                    ("num_key_value_heads", Count(8)),
                    ("max_position_embeddings", Count(131_072)),
                    ("head_dim", Quotient("hidden_size", "num_attention_heads")),
                ],
            ],
        },
        Class {
            name: "MixtralForCausalLM",
            model_type: "mixtral",
            defaults: &[
                BASE,
                &[
                    ("intermediate_size", Count(14336)),
                    ("num_key_value_heads", Count(8)),
                    ("max_position_embeddings", Count(131_072)),
                    ("rms_norm_eps", Real(1e-5)),
                    ("num_local_experts", Count(8)),
                    ("num_experts_per_tok", Count(2)),
                    ("rope_theta", Real(1_000_000.0)),
                ],
            ],
        },
    ],
    applies: |raw| !super::eagle3::is_draft(raw),
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, GATED_FFN_BIASED, MIXTURE, EXPERTS],
    keys: &[COMMON, VOCABULARY_AND_ROPE],
    derived_tensors: ROPE_FREQS,
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Digits, "smollm")],
        classes: &[("mistral", TokenizerClass::NoDefaults), ("mixtral", TokenizerClass::NoDefaults)],
        ..LLAMA_LIKE
    },
    restore: Some(|file, config| {
        rope_freqs::restore_scaling(file, config)?;
        let has_biases = file.has_in_layers(&["attn_q.bias", "attn_k.bias", "attn_v.bias", "ffn_up.bias"]);
        let is_mistral = ["general.name", "general.basename", "general.architecture"]
            .iter()
            .any(|key| file.text(key).is_some_and(|name| name.to_ascii_lowercase().contains("mistral")));
        Ok(match file.count("expert_count") {
            Some(1..) if has_biases => {
                let why = "its layers have biases, which no checkpoint with experts has";
                return Err(AnamnesisError::unsupported("llama", why));
            }
            Some(1..) => 2,
            // Only Llama's classes have biases.
            _ if is_mistral && !has_biases => {
                set(config, "sliding_window", Value::Null);
                1
            }
            _ => 0,
        })
    }),
    ..DECODER
};
