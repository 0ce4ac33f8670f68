//! Looking up an architecture by class, by GGUF name and by configuration.

use serde_json::{Map, Value};

use super::kind::Architecture;
use super::language_model;
use super::models::FAMILIES;
use crate::error::{AnamnesisError, ModelPart, Result};

impl Architecture {
    /// All architectures.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        FAMILIES.iter().flat_map(|family| family.iter().copied())
    }

    /// The architecture of a model class of transformers.
    #[must_use]
    pub fn of_class(class: &str) -> Option<&'static Self> {
        Self::all().find(|architecture| architecture.classes().any(|known| known == class))
    }

    /// The architecture by its name in GGUF.
    #[must_use]
    pub fn of_gguf(name: &str) -> Option<&'static Self> {
        let named = || Self::all().filter(|architecture| architecture.name == name);
        let wholly = named().find(|architecture| architecture.restore.is_some() && !architecture.is_plainly_restored());
        wholly.or_else(|| named().find(|architecture| architecture.restore.is_some())).or_else(|| named().next())
    }

    /// The architecture of a configuration; `None` if it names no class.
    pub(crate) fn of_config(raw: &Map<String, Value>) -> Result<Option<&'static Self>> {
        let Some(class) = language_model::class_of(raw) else { return Ok(None) };
        let of_class = Self::all().filter(|architecture| architecture.classes().any(|known| known == class));
        match of_class.into_iter().find(|architecture| (architecture.applies)(raw)) {
            Some(architecture) => Ok(Some(architecture)),
            None => Err(AnamnesisError::unsupported_model(ModelPart::Class, class, unknown_class(class))),
        }
    }
}

/// Classes of llama.cpp's converter whose files there is nothing to compare with, and why.
const WITHOUT_COMPARISON: [(&[&str], &str); 2] = [
    (
        &["BaichuanForCausalLM", "BaiChuanForCausalLM"],
        "llama.cpp's converter calls itself without end for models of this class, so that it writes no file",
    ),
    (
        &["PlamoForCausalLM"],
        "of the first PLaMo, llama.cpp's converter reads the size of 13B alone, which is not read here",
    ),
];

/// The reason to refuse a class, with the most similar one if nothing else is known of it.
fn unknown_class(class: &str) -> String {
    if let Some((_, why)) = WITHOUT_COMPARISON.iter().find(|(classes, _)| classes.contains(&class)) {
        return (*why).to_owned();
    }
    if Architecture::projectors().any(|projector| projector.classes().any(|known| known == class)) {
        return "only its towers are known, as a projector; its language model is converted by a class of its own, which \
                text_config of config.json may name"
            .to_owned();
    }
    let known: Vec<&str> = Architecture::all().flat_map(Architecture::classes).collect();
    let nearest = known.iter().max_by_key(|known| similarity(class, known)).copied().unwrap_or("");
    format!(
        "models of this class have no names in GGUF; the most similar of {} known classes is {nearest}",
        known.len()
    )
}

/// The number of characters that two names share at the beginning and at the end, and of the pairs they share.
fn similarity(a: &str, b: &str) -> usize {
    let pairs = |text: &str| text.to_lowercase().as_bytes().windows(2).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (own, mut others) = (pairs(a), pairs(b));
    let total = own.len() + others.len();
    let mut shared = 0usize;
    for pair in own {
        if let Some(place) = others.iter().position(|other| *other == pair) {
            others.swap_remove(place);
            shared += 1;
        }
    }
    let prefix = a.bytes().zip(b.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    (2000 * shared).checked_div(total).unwrap_or(0) + 40 * prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_are_not_converted_have_a_reason() {
        for (class, why) in [
            ("BaichuanForCausalLM", "calls itself"),
            ("BaiChuanForCausalLM", "calls itself"),
            ("PlamoForCausalLM", "13B alone"),
            ("UltravoxModel", "only its towers"),
            ("GraniteSpeechForConditionalGeneration", "only its towers"),
            ("LamaForCausalLM", "the most similar"),
        ] {
            let raw = Map::from_iter([("architectures".to_owned(), Value::from(vec![class]))]);
            let refused = Architecture::of_config(&raw).err().map(|error| error.to_string());
            assert!(refused.as_ref().is_some_and(|refused| refused.contains(why)), "{class}: {refused:?}");
        }
    }

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
