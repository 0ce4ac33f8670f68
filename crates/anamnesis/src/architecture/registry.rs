//! Which architectures there are.

use serde_json::{Map, Value};

use super::config;
use super::kind::Architecture;
use super::{
    cohere2, deepseek2, falcon_h1, gemma, gemma2, gemma3, glm4, glm4moe, gpt_oss, granite, llama, mamba, mamba2, olmo2,
    phi3, qwen2, qwen2moe, qwen3, qwen3moe, smollm3, starcoder2,
};
use crate::error::{AnamnesisError, ModelPart, Result};

/// All architectures.
static ALL: [&Architecture; 21] = [
    &llama::ARCHITECTURE,
    &qwen2::ARCHITECTURE,
    &qwen2moe::ARCHITECTURE,
    &qwen3::ARCHITECTURE,
    &qwen3moe::ARCHITECTURE,
    &gemma::ARCHITECTURE,
    &gemma2::ARCHITECTURE,
    &gemma3::ARCHITECTURE,
    &phi3::ARCHITECTURE,
    &deepseek2::ARCHITECTURE,
    &gpt_oss::ARCHITECTURE,
    &glm4::ARCHITECTURE,
    &glm4moe::ARCHITECTURE,
    &granite::ARCHITECTURE,
    &olmo2::ARCHITECTURE,
    &starcoder2::ARCHITECTURE,
    &smollm3::ARCHITECTURE,
    &cohere2::ARCHITECTURE,
    &mamba::ARCHITECTURE,
    &mamba2::ARCHITECTURE,
    &falcon_h1::ARCHITECTURE,
];

impl Architecture {
    /// All architectures.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        ALL.into_iter()
    }

    /// The architecture of a class of Hugging Face's library.
    #[must_use]
    pub fn of_class(class: &str) -> Option<&'static Self> {
        Self::all().find(|architecture| architecture.classes().any(|known| known == class))
    }

    /// The architecture by its name in GGUF.
    #[must_use]
    pub fn of_gguf(name: &str) -> Option<&'static Self> {
        Self::all().find(|architecture| architecture.name == name)
    }

    /// The architecture that a configuration is for; `None` where it names none.
    pub(crate) fn of_config(raw: &Map<String, Value>) -> Result<Option<&'static Self>> {
        let Some(class) = config::class_of(raw) else { return Ok(None) };
        match Self::of_class(class) {
            Some(architecture) => Ok(Some(architecture)),
            None => {
                let known: Vec<&str> = Self::all().flat_map(Self::classes).collect();
                let why = format!("models of this class have no names in GGUF; known are {}", known.join(", "));
                Err(AnamnesisError::unsupported_model(ModelPart::Class, class, why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tensor_has_a_shape_and_rules_for_the_same_one_agree() {
        for architecture in Architecture::all() {
            let rules: Vec<_> = architecture.rules().filter(|rule| !rule.is_left_out).collect();
            for rule in &rules {
                assert!(!rule.shape.is_empty(), "{}: {}", architecture.name, rule.gguf);
                for other in rules.iter().filter(|other| other.gguf == rule.gguf) {
                    let sizes = |rule: &crate::architecture::rule::Rule| {
                        rule.shape.iter().map(|size| size.hf).collect::<Vec<_>>()
                    };
                    assert_eq!(sizes(rule), sizes(other), "{}: {} and {}", architecture.name, rule.hf, other.hf);
                }
            }
        }
    }
}
