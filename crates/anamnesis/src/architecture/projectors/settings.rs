//! The configuration of a projector: `config.json`, not flattened, and the files that describe preprocessing.

use serde_json::{Map, Value};

use crate::architecture::config::Config;
use crate::architecture::defaults;
use crate::architecture::kind::Architecture;
use crate::architecture::language_model;
use crate::architecture::sidecars::SidecarFiles;
use crate::architecture::value::PREPROCESSOR;
use crate::error::{AnamnesisError, Result};
use crate::json;

/// The files that describe preprocessing, each with a member whose members are those of the file too.
const FILES: [(&str, &str); 2] =
    [("preprocessor_config.json", "media_proc_cfg"), ("processor_config.json", "image_processor")];

/// Other places of the objects that describe towers: an object, a member of it or itself, and the usual name.
const TOWERS: [(&str, Option<&str>, &str); 4] = [
    ("thinker_config", Some("vision_config"), "vision_config"),
    ("thinker_config", Some("audio_config"), "audio_config"),
    ("whisper_config", None, "audio_config"),
    ("speech_config", None, "audio_config"),
];

/// A configuration with the towers under their usual names.
fn with_towers(raw: &Map<String, Value>) -> Map<String, Value> {
    let mut values = raw.clone();
    for (outer, inner, usual) in TOWERS {
        let Some(object) = raw.get(outer) else { continue };
        let Some(tower) = inner.map_or(Some(object), |inner| object.get(inner)) else { continue };
        values.insert(usual.to_owned(), tower.clone());
    }
    if let Some(vision) = values.get_mut("vision_config").and_then(Value::as_object_mut) {
        lift_widths(vision);
    }
    values
}

/// Gives the two towers of DeepSeek-OCR, which are members of a width, their places: SAM an object, CLIP the tower itself.
fn lift_widths(vision: &mut Map<String, Value>) {
    let object = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    let Some(towers) = object(vision.get("width")) else { return };
    let mut sam = object(towers.get("sam_vit_b")).unwrap_or_default();
    if let Some(image) = vision.get("image_size") {
        sam.insert("image_size".to_owned(), image.clone());
    }
    vision.extend(object(towers.get("clip-l-14-224")).unwrap_or_default());
    vision.insert("sam".to_owned(), Value::Object(sam));
}

impl Architecture {
    /// Whether the configuration describes a tower: in an object, or by keys among those of the language model.
    pub(crate) fn has_tower(&self, raw: &Map<String, Value>) -> bool {
        let towers = ["vision_config", "audio_config", "encoder_config", "encoder"];
        let raw = with_towers(raw);
        let layers = raw.get("vision_n_layers");
        layers.is_some_and(|layers| layers.as_u64() != Some(0))
            || towers.iter().any(|tower| raw.get(*tower).is_some_and(Value::is_object))
    }
}

/// The configuration of a projector.
pub(crate) fn config(raw: &Map<String, Value>, files: &dyn SidecarFiles) -> Result<Config> {
    let mut values = with_towers(raw);
    let mut text = Map::new();
    for (key, value) in language_model::nested(raw).flatten() {
        text.insert(key.clone(), value.clone());
    }
    let is_nested = !text.is_empty();
    for (key, default) in defaults::of_model_type(raw).into_iter().filter(|_| is_nested) {
        if let (Some(value), false) = (default.constant(), text.contains_key(key)) {
            text.insert(key.to_owned(), value);
        }
    }
    values.insert("text_config".to_owned(), Value::Object(text));
    let mut preprocessing = Map::new();
    for (name, inner) in FILES {
        let Some(text) = files.read(name)? else { continue };
        let Ok(Value::Object(own)) = json::from_slice(&text) else {
            return Err(AnamnesisError::parse(format!("{name} is no JSON object")));
        };
        let lifted = own.get(inner).and_then(Value::as_object).cloned().unwrap_or_default();
        preprocessing.extend(own);
        preprocessing.extend(lifted);
    }
    values.insert(PREPROCESSOR.to_owned(), Value::Object(preprocessing));
    Ok(Config::of_projector(values))
}
