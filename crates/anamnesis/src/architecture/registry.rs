//! Looking up an architecture by class, by GGUF name and by configuration.

use serde_json::{Map, Value};

use super::config;
use super::kind::Architecture;
use super::models::ALL;
use crate::error::{AnamnesisError, ModelPart, Result};

impl Architecture {
    /// All architectures.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        ALL.iter().copied()
    }

    /// The architecture of a model class of transformers.
    #[must_use]
    pub fn of_class(class: &str) -> Option<&'static Self> {
        Self::all().find(|architecture| architecture.classes().any(|known| known == class))
    }

    /// The architecture by its name in GGUF.
    #[must_use]
    pub fn of_gguf(name: &str) -> Option<&'static Self> {
        Self::all().find(|architecture| architecture.name == name)
    }

    /// The architecture of a configuration; `None` if it names no class.
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
