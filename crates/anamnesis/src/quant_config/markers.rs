//! Markers: descriptions of single modules inside a weight file.
//!
//! | marker | content |
//! |---|---|
//! | `X.comfy_quant`, a tensor of bytes | a JSON object for the module `X` |
//! | `_quantization_metadata`, an entry of the metadata | `{"layers": {X: object}}`, the same objects |
//! | `scaled_fp8`, a tensor | its type: the format of all weights that have a `scale_weight` |
//!
//! Older writers put everything but `format` into an object `params`. Two markers of one module must agree.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::de::DeserializeSeed;

use super::args::{Args, Layer};
use super::json::{Json, JsonSeed, MAX_VALUES, Members};
use super::place::Place;
use crate::error::{AnamnesisError, quoted};
use crate::json::strict;

/// The name of the dialect in messages.
const DIALECT: &str = "ComfyUI";

/// The member with one object per module.
const LAYERS: &str = "layers";

/// The member with the options of older writers.
const PARAMS: &str = "params";

/// The members on which two markers must agree.
const DECISIVE: [&str; 6] = ["format", "group_size", "convrot", "convrot_groupsize", "layout", "linear_dtype"];

/// One marker of one module.
#[derive(Debug)]
struct Marker {
    document: String,
    path: &'static str,
    members: Members,
}

/// The markers of a checkpoint.
#[derive(Debug)]
pub(crate) struct Markers {
    modules: BTreeMap<String, Vec<Marker>>,
    /// Invalid markers, which leave the meaning of tensors in doubt.
    problems: Vec<AnamnesisError>,
    /// How many more values markers may have.
    remaining: usize,
}

impl Default for Markers {
    fn default() -> Self {
        Self { modules: BTreeMap::new(), problems: Vec::new(), remaining: MAX_VALUES }
    }
}

impl Markers {
    /// Adds the JSON text of a marker of a module.
    pub(crate) fn add_text(&mut self, module: &str, document: String, text: &[u8]) {
        match self.object(text) {
            Ok(members) => self.add(module, Marker { document, path: "", members }),
            Err(why) => self.refuse(format!("{document} {why}")),
        }
    }

    /// Adds the JSON text of a metadata entry with the markers of several modules.
    pub(crate) fn add_entry(&mut self, key: &'static str, text: &[u8]) {
        const DOCUMENT: &str = "__metadata__";
        let members = match self.object(text) {
            Ok(members) => members,
            Err(why) => return self.refuse(format!("{DOCUMENT}: {key} {why}")),
        };
        let Some(Json::Object(layers)) = members.get(LAYERS) else {
            return self.refuse(format!("{DOCUMENT}: {key} has no object {LAYERS}"));
        };
        if let Some(module) = layers.repeated() {
            self.refuse(format!("{DOCUMENT}: {key}.{LAYERS} has {} twice", quoted(module)));
        }
        for (module, value) in layers.iter() {
            match value {
                Json::Object(members) => {
                    let members = (**members).clone();
                    self.add(module, Marker { document: DOCUMENT.to_owned(), path: key, members });
                }
                other => {
                    let (module, found) = (quoted(module), other.brief());
                    self.refuse(format!("{DOCUMENT}: {key}.{LAYERS} has {found} for {module}, an object is needed"));
                }
            }
        }
    }

    /// Adds a format that the type of a tensor implies.
    pub(crate) fn add_format(&mut self, module: &str, document: String, format: &str) {
        let members = Members::new(vec![("format".to_owned(), Json::Text(format.to_owned()))]);
        self.add(module, Marker { document, path: "", members });
    }

    /// Records an invalid marker.
    pub(crate) fn refuse(&mut self, why: String) {
        self.problems.push(AnamnesisError::unsupported(DIALECT, why));
    }

    /// The problems: invalid or contradicting markers, and markers of modules without tensors.
    pub(super) fn problems(&mut self, is_stored: &dyn Fn(&str) -> bool) -> Vec<AnamnesisError> {
        let mut problems = std::mem::take(&mut self.problems);
        for (module, markers) in &self.modules {
            problems.extend(conflict(markers).map(AnamnesisError::parse));
            if let Some(marker) = markers.first().filter(|_| !is_stored(module)) {
                let (place, module) = (marker.place(), quoted(module));
                let why = format!("{place} describes module {module}, which has no tensor here");
                problems.push(AnamnesisError::unsupported(DIALECT, why));
            }
        }
        problems
    }

    /// The modules with a marker, in order.
    pub(super) fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().map(String::as_str)
    }

    /// The options of a module.
    pub(super) fn of(&self, module: &str) -> Option<Args<'_>> {
        let markers = self.modules.get(module)?;
        Some(Args { layers: markers.iter().flat_map(Marker::layers).collect() })
    }

    fn add(&mut self, module: &str, marker: Marker) {
        if let Some(key) = marker.members.repeated() {
            let why = format!("{} has {} twice", marker.place(), quoted(key));
            self.refuse(why);
        }
        self.modules.entry(module.to_owned()).or_default().push(marker);
    }

    /// Parses a JSON object.
    fn object(&mut self, text: &[u8]) -> Result<Members, String> {
        let text = strict(text);
        let mut reader = serde_json::Deserializer::from_slice(&text);
        let remaining = Cell::new(self.remaining);
        let value = JsonSeed(&remaining).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
        self.remaining = remaining.get();
        match value {
            Ok(Json::Object(members)) => Ok(*members),
            Ok(other) => Err(format!("is {}, an object is needed", other.brief())),
            Err(error) => Err(format!("is not valid JSON: {error}")),
        }
    }
}

impl Marker {
    fn place(&self) -> Place<'_> {
        let inside = if self.path.is_empty() { "" } else { LAYERS };
        Place { document: &self.document, path: self.path, inside: [inside, "", "", ""] }
    }

    /// Its members, and those inside `params`.
    fn layers(&self) -> impl Iterator<Item = Layer<'_>> {
        let params = self.members.get(PARAMS).and_then(Json::members);
        let params = params.map(|members| Layer { members, place: self.place().with(PARAMS) });
        std::iter::once(Layer { members: &self.members, place: self.place() }).chain(params)
    }

    fn value_of(&self, key: &str) -> Option<&Json> {
        self.layers().find_map(|layer| layer.members.get(key)).filter(|value| **value != Json::Null)
    }
}

/// A contradiction between two markers of one module.
fn conflict(markers: &[Marker]) -> Option<String> {
    DECISIVE.into_iter().find_map(|key| {
        let mut values = markers.iter().filter_map(|marker| Some((marker, marker.value_of(key)?)));
        let (first, a) = values.next()?;
        let (other, b) = values.find(|(_, value)| *value != a)?;
        Some(format!("{}: {key} is {}, but {} in {}", first.place(), a.brief(), b.brief(), other.place()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(markers: &Markers, module: &str, key: &'static str) -> Option<String> {
        markers.of(module)?.text(&[key]).unwrap().map(str::to_owned)
    }

    fn problems(mut markers: Markers) -> Vec<String> {
        markers.problems(&|module| module != "gone").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn marker_tensors_and_metadata_entries_have_the_same_grammar() {
        let mut markers = Markers::default();
        markers.add_text(
            "a",
            "tensor \"a.comfy_quant\"".to_owned(),
            br#"{"format": "nvfp4", "params": {"layout": "x"}}"#,
        );
        markers.add_entry("_quantization_metadata", br#"{"layers": {"a": {"format": "nvfp4"}, "b": {"format": "y"}}}"#);
        assert_eq!(text(&markers, "a", "format").as_deref(), Some("nvfp4"));
        assert_eq!(text(&markers, "a", "layout").as_deref(), Some("x"));
        assert_eq!(text(&markers, "b", "format").as_deref(), Some("y"));
        assert!(markers.of("c").is_none());
        assert_eq!(markers.modules().collect::<Vec<_>>(), ["a", "b"]);
        assert!(problems(markers).is_empty());
    }

    #[test]
    fn contradicting_markers_are_errors_that_name_both_places() {
        let mut markers = Markers::default();
        markers.add_format("a", "tensor \"scaled_fp8\"".to_owned(), "float8_e5m2");
        markers.add_entry("_quantization_metadata", br#"{"layers": {"a": {"format": "float8_e4m3fn"}}}"#);
        let all = problems(markers).join("");
        assert!(all.contains("tensor \"scaled_fp8\": format is \"float8_e5m2\""), "{all}");
        assert!(all.contains("\"float8_e4m3fn\" in __metadata__: _quantization_metadata.layers"), "{all}");
    }

    #[test]
    fn invalid_markers_and_markers_of_missing_modules_are_errors() {
        for (text, word) in [
            ("", "not valid JSON"),
            ("[]", "an object is needed"),
            ("{}", "no object layers"),
            (r#"{"layers": []}"#, "no object layers"),
            (r#"{"layers": {"a": "nvfp4"}}"#, "has \"nvfp4\" for \"a\""),
            (r#"{"layers": {"a": {}, "a": {}}}"#, "twice"),
            (r#"{"layers": {"gone": {}}}"#, "no tensor here"),
            (r#"{"layers": {"a": {"format": "x", "format": "y"}}}"#, "has \"format\" twice"),
        ] {
            let mut markers = Markers::default();
            markers.add_entry("_quantization_metadata", text.as_bytes());
            let all = problems(markers).join("");
            assert!(all.contains(word), "{text}: {all}");
        }
    }
}
