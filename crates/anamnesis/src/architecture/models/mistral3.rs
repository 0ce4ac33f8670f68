//! Mistral 3 and Ministral 3.

use crate::architecture::families::{DEEPSEEK, LLAMA};
use crate::architecture::latent::{LATENT_ATTENTION, LATENT_KEYS};
use crate::architecture::prelude::*;
use serde_json::{Map, Value};

pub(super) static MISTRAL3: Architecture = Architecture {
    name: "mistral3",
    classes: &[class("Mistral3ForConditionalGeneration", "mistral3"), class("Ministral3ForCausalLM", "ministral3")],
    applies: |raw| !is_mistral4(raw),
    keys: &[COMMON, VOCABULARY_AND_ROPE, KEYS],
    restore: Some(restored),
    ..LLAMA
};

/// Only Ministral 3 has the factors of its scaled positions in GGUF.
fn restored(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    restore::plain(file, config)?;
    let factors = [
        ("attention.temperature_scale", &["llama_4_scaling_beta"][..]),
        ("rope.scaling.yarn_log_multiplier", &["mscale", "mscale_all_dim"]),
    ];
    let mut class = 0;
    for (key, names) in factors {
        if let (Some(factor), Some(Value::Object(scaling))) = (file.real(key), config.get_mut("rope_scaling")) {
            names.iter().for_each(|name| set(scaling, name, factor));
            class = 1;
        }
    }
    Ok(class)
}

/// Mistral 4 inside Mistral 3's multimodal class.
pub(super) static MISTRAL4: Architecture = Architecture {
    name: "mistral4",
    classes: &[class("Mistral3ForConditionalGeneration", "mistral3")],
    applies: is_mistral4,
    rules: &[EMBED_NORM_HEAD, NORMS, LATENT_ATTENTION, GATED_FFN, FUSED_EXPERTS, SHARED_EXPERTS],
    keys: &[COMMON, LATENT_KEYS],
    ..DEEPSEEK
};

fn is_mistral4(raw: &Map<String, Value>) -> bool {
    let nested = raw.get("text_config").and_then(|text| text.get("model_type"));
    nested.or_else(|| raw.get("model_type")).is_some_and(|kind| kind == "mistral4")
}

/// Experts that are stored stacked, with `gate_up_proj` in one tensor.
const FUSED_EXPERTS: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("mlp.experts.down_proj", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
    layer("mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", &[EXPERT_COUNT, TWO_EXPERT_FFN, HIDDEN]).when(SPARSE),
];

const TWO_EXPERT_FFN: Size =
    size(|config| Ok((EXPERT_FFN.of)(config)?.saturating_mul(2)), EXPERT_FFN.hf, EXPERT_FFN.gguf);

const KEYS: &[Key] = &[
    real_fn("rope.scaling.yarn_log_multiplier", |config| of_ministral(config, "mscale_all_dim")),
    real_fn("attention.temperature_scale", |config| of_ministral(config, "llama_4_scaling_beta")),
];

fn of_ministral(config: &Config, key: &str) -> Result<Option<f64>> {
    match config.text("model_type")? {
        Some("ministral3") => config.rope().real(key),
        _ => Ok(None),
    }
}
