//! The sampling parameters that the authors recommend: `general.sampling.*`, from `generation_config.json`.

use serde_json::{Map, Value};

use crate::architecture::metadata_builder::MetadataBuilder;
use crate::catalog::MetadataValue;
use crate::json;

/// A parameter by its names in GGUF and in the file, and whether it is an integer.
const SETTINGS: [(&str, &[&str], bool); 11] = [
    ("top_k", &["top_k"], true),
    ("top_p", &["top_p"], false),
    ("min_p", &["min_p"], false),
    ("xtc_probability", &["xtc_probability"], false),
    ("xtc_threshold", &["xtc_threshold"], false),
    ("temp", &["temperature"], false),
    ("penalty_last_n", &["penalty_last_n"], true),
    ("penalty_repeat", &["penalty_repeat", "repetition_penalty"], false),
    ("mirostat", &["mirostat"], true),
    ("mirostat_tau", &["mirostat_tau"], false),
    ("mirostat_eta", &["mirostat_eta"], false),
];

/// Writes the parameters of a file; one that cannot be read gives a note.
pub(super) fn write(text: Option<&[u8]>, metadata: &mut MetadataBuilder) {
    let Some(text) = text else { return };
    let Ok(settings) = json::from_slice::<Map<String, Value>>(text) else {
        metadata.note("generation_config.json is no JSON object, so that nothing is written about sampling");
        return;
    };
    if let Some(sequence) = settings.get("sequence").and_then(Value::as_str) {
        metadata.text("general.sampling.sequence", sequence);
    }
    for (key, names, is_whole) in SETTINGS {
        let Some(value) = names.iter().find_map(|name| settings.get(*name)).filter(|value| !value.is_null()) else {
            continue;
        };
        let number = match is_whole {
            true => value.as_i64().and_then(|number| i32::try_from(number).ok()).map(MetadataValue::I32),
            false => value.as_f64().map(|number| MetadataValue::F32(number as f32)),
        };
        match number {
            Some(number) => metadata.set(format!("general.sampling.{key}"), number),
            None => metadata.note(format!("generation_config.json: {key} is {value}, which is left out")),
        }
    }
}
