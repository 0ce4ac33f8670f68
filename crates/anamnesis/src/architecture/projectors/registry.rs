//! Looking up the projector of a configuration.

use serde_json::{Map, Value};

use super::PROJECTORS;
use crate::architecture::kind::Architecture;
use crate::error::{AnamnesisError, ModelPart, Result};

impl Architecture {
    /// All projectors: the vision and audio towers of multimodal models, which are GGUF files of their own.
    pub fn projectors() -> impl Iterator<Item = &'static Self> {
        PROJECTORS.iter().flat_map(|family| family.iter())
    }

    /// The projector of a multimodal model's configuration.
    pub(crate) fn projector_of_config(raw: &Map<String, Value>) -> Result<&'static Self> {
        let class = class_of(raw).unwrap_or("a configuration without architectures");
        let of_class = Self::projectors().filter(|projector| projector.classes().any(|known| known == class));
        let found = of_class.into_iter().find(|projector| (projector.applies)(raw));
        found.filter(|projector| projector.has_tower(raw)).ok_or_else(|| {
            let why = match found.is_some() {
                true => "the configuration describes no tower",
                false => "models of this class have no projector that is known",
            };
            AnamnesisError::unsupported_model(ModelPart::Class, class, why)
        })
    }
}

/// The class that a projector is of: that of the vision tower, if it names one.
fn class_of(raw: &Map<String, Value>) -> Option<&str> {
    let named = |map: Option<&'_ Map<String, Value>>| -> Option<String> {
        Some(map?.get("architectures")?.as_array()?.first()?.as_str()?.to_owned())
    };
    let vision = raw.get("vision_config").and_then(Value::as_object);
    let place = if named(vision).is_some() { vision? } else { raw };
    place.get("architectures")?.as_array()?.first()?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tensor_of_a_projector_has_a_shape_and_every_projector_a_class() {
        for projector in Architecture::projectors() {
            assert!(projector.classes().count() > 0 && projector.is_projector);
            for rule in projector.rules().filter(|rule| !rule.is_left_out) {
                let free = ["UltravoxModel", "MERaLiON2ForConditionalGeneration"];
                let is_free = projector.classes().any(|class| free.contains(&class)) && rule.gguf.starts_with("mm.");
                assert!(is_free || !rule.shape.is_empty(), "{:?}: {}", projector.classes().next(), rule.gguf);
            }
        }
    }
}
