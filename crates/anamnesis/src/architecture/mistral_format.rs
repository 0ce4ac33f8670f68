//! Mistral's own format: `params.json` describes a model, `consolidated*.safetensors` has its tensors.

use serde_json::{Map, Value};

use super::sidecars::SidecarFiles;
use crate::error::{AnamnesisError, Result};
use crate::json;

/// The description of a model.
pub(crate) const PARAMS: &str = "params.json";
/// The name of a single weight file.
pub(crate) const WHOLE_MODEL: &str = "consolidated.safetensors";
/// The class that models of this format are treated as; the files name none.
pub(crate) const CLASS: &str = "MistralFormat";

/// Keys of the model in `params.json`, and the names that configurations of transformers have for them.
const KEYS: [(&str, &str); 7] = [
    ("dim", "hidden_size"),
    ("norm_eps", "rms_norm_eps"),
    ("n_kv_heads", "num_key_value_heads"),
    ("n_layers", "num_hidden_layers"),
    ("n_heads", "num_attention_heads"),
    ("hidden_dim", "intermediate_size"),
    ("tied_embeddings", "tie_word_embeddings"),
];

/// The same for the keys of experts.
const EXPERT_KEYS: [(&str, &str); 9] = [
    ("route_every_n", "moe_layer_freq"),
    ("first_k_dense_replace", "first_k_dense_replace"),
    ("num_experts_per_tok", "num_experts_per_tok"),
    ("num_experts", "n_routed_experts"),
    ("expert_hidden_dim", "moe_intermediate_size"),
    ("routed_scale", "routed_scaling_factor"),
    ("num_shared_experts", "n_shared_experts"),
    ("num_expert_groups", "n_group"),
    ("num_expert_groups_per_tok", "topk_group"),
];

/// The context length of models with experts that have none.
const CONTEXT: u64 = 128_000;

/// The configuration of a model in this format, under the keys of transformers; `None` without `params.json`.
pub(crate) fn configuration(files: &dyn SidecarFiles) -> Result<Option<Map<String, Value>>> {
    let Some(text) = files.read(PARAMS)? else { return Ok(None) };
    let Ok(Value::Object(mut params)) = json::from_slice(&text) else {
        return Err(AnamnesisError::parse(format!("{PARAMS} is no JSON object")));
    };
    params.insert("architectures".to_owned(), Value::from(vec![CLASS]));
    for (from, to) in KEYS {
        rename(&mut params, from, to);
    }
    if let Some(Value::Object(mut experts)) = params.get("moe").cloned() {
        for (from, to) in EXPERT_KEYS {
            rename(&mut experts, from, to);
        }
        params.extend(experts);
        params.entry("max_position_embeddings").or_insert(Value::from(CONTEXT));
        params.insert("norm_topk_prob".to_owned(), Value::from(true));
        params.insert("scoring_func".to_owned(), Value::from("softmax"));
    }
    Ok(Some(params))
}

fn rename(params: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = params.remove(from) {
        params.insert(to.to_owned(), value);
    }
}
