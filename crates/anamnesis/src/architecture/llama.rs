//! Llama 2, 3 and 3.x, Mistral and Mixtral.

use serde_json::{Map, Value, json};

use super::change::Change;
use super::config::{Config, Default};
use super::gguf::{Gguf, shortest};
use super::key::{COMMON, Key, count, counted};
use super::kind::{Architecture, Class, MadeTensor, USUAL};
use super::rule::{AROUND, EXPERTS, GATED, NORMS, PAIRED_ATTENTION, Rule, layer};
use super::tokenizer::Family;
use crate::error::{AnamnesisError, ModelPart, Result};

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "llama",
    classes: &[
        Class {
            name: "LlamaForCausalLM",
            model_type: "llama",
            defaults: &[
                ("vocab_size", Default::Count(32000)),
                ("hidden_size", Default::Count(4096)),
                ("intermediate_size", Default::Count(11008)),
                ("num_hidden_layers", Default::Count(32)),
                ("num_attention_heads", Default::Count(32)),
                ("max_position_embeddings", Default::Count(2048)),
                ("rms_norm_eps", Default::Real(1e-6)),
                ("rope_theta", Default::Real(10000.0)),
                ("head_dim", Default::Quotient("hidden_size", "num_attention_heads")),
                ("num_key_value_heads", Default::Same("num_attention_heads")),
            ],
        },
        Class {
            name: "MistralForCausalLM",
            model_type: "mistral",
            defaults: &[
                ("vocab_size", Default::Count(32000)),
                ("hidden_size", Default::Count(4096)),
                ("intermediate_size", Default::Count(14336)),
                ("num_hidden_layers", Default::Count(32)),
                ("num_attention_heads", Default::Count(32)),
                ("num_key_value_heads", Default::Count(8)),
                ("max_position_embeddings", Default::Count(131_072)),
                ("rms_norm_eps", Default::Real(1e-6)),
                ("rope_theta", Default::Real(10000.0)),
                ("head_dim", Default::Quotient("hidden_size", "num_attention_heads")),
            ],
        },
        Class {
            name: "MixtralForCausalLM",
            model_type: "mixtral",
            defaults: &[
                ("vocab_size", Default::Count(32000)),
                ("hidden_size", Default::Count(4096)),
                ("intermediate_size", Default::Count(14336)),
                ("num_hidden_layers", Default::Count(32)),
                ("num_attention_heads", Default::Count(32)),
                ("num_key_value_heads", Default::Count(8)),
                ("max_position_embeddings", Default::Count(131_072)),
                ("rms_norm_eps", Default::Real(1e-5)),
                ("num_local_experts", Default::Count(8)),
                ("num_experts_per_tok", Default::Count(2)),
                ("rope_theta", Default::Real(1_000_000.0)),
            ],
        },
    ],
    rules: &[AROUND, NORMS, PAIRED_ATTENTION, GATED, MIXTURE, EXPERTS],
    keys: &[COMMON, SIZES],
    made: FREQUENCIES,
    family: Family::LlamaLike,
    restore: |file, config| {
        restore_frequencies(file, config)?;
        config.insert("mlp_bias".to_owned(), file.has("blk.0.ffn_up.bias").into());
        let is_mistral = ["general.name", "general.basename", "general.architecture"]
            .iter()
            .any(|key| file.text(key).is_some_and(|name| name.to_ascii_lowercase().contains("mistral")));
        Ok(match file.count("expert_count") {
            Some(1..) => 2,
            _ if is_mistral => {
                config.insert("sliding_window".to_owned(), Value::Null);
                1
            }
            _ => 0,
        })
    },
    ..USUAL
};

/// The experts of Mixtral: the gate comes first in GGUF.
const MIXTURE: &[Rule] = &[
    layer("block_sparse_moe.gate.weight", "ffn_gate_inp.weight"),
    layer("block_sparse_moe.experts.{X}.w1.*", "ffn_gate_exps.*").with(Change::Stacked),
    layer("block_sparse_moe.experts.{X}.w2.*", "ffn_down_exps.*").with(Change::Stacked),
    layer("block_sparse_moe.experts.{X}.w3.*", "ffn_up_exps.*").with(Change::Stacked),
];

/// What models like Llama tell behind the usual.
pub(super) const SIZES: &[Key] =
    &[count("vocab_size", &["vocab_size"]), counted("rope.dimension_count", |config| config.head_size().map(Some))];

/// What the frequencies of rotary positions are divided by.
pub(super) const FREQUENCIES: &[MadeTensor] = &[MadeTensor { name: "rope_freqs.weight", values: frequencies }];

fn frequencies(config: &Config) -> Result<Option<Vec<f32>>> {
    config.rope().llama3_factors(config.head_size()?)
}

/// Contexts that models had before their positions were scaled: the usual one, then powers of two.
fn original_contexts() -> impl Iterator<Item = u64> {
    std::iter::once(8192).chain((5..=24).rev().map(|power| 1 << power))
}

/// The scaling of positions whose factors a file has as a tensor: the last is the factor, and the context before is the one
/// that gives all of them.
pub(super) fn restore_frequencies(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<()> {
    let Some(factors) = (file.values)("rope_freqs.weight")? else { return Ok(()) };
    let theta = file.real("rope.freq_base").unwrap_or(10_000.0);
    let dimensions = 2 * factors.len() as u64;
    let largest = factors.iter().copied().fold(1.0, f32::max);
    for original in original_contexts() {
        let scaling = json!({
            "rope_type": "llama3",
            "factor": shortest(largest),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": original,
        });
        let tried =
            Map::from_iter([("rope_theta".to_owned(), theta.into()), ("rope_scaling".to_owned(), scaling.clone())]);
        let made = Config::new(&tried, &[])?.rope().llama3_factors(dimensions)?;
        if made.as_ref() == Some(&factors) {
            config.insert("rope_scaling".to_owned(), scaling);
            return Ok(());
        }
    }
    let why = "no scaling of positions that is known gives the factors of rope_freqs.weight";
    Err(AnamnesisError::unsupported_model(ModelPart::Architecture, "llama", why))
}
