//! The documents that describe a quantisation, and the members inside them; a conversion removes the same members.
//!
//! | document | place |
//! |---|---|
//! | `config.json`, `params.json`, `hf_quant_config.json` | `quantization_config` or `compression_config` in any object, `quantization` where it is an object |
//! | `quantize_config.json`, `quant_config.json`, `quantization_config.json` | the whole document |
//!
//! Models with sub-models (`text_config`, `thinker_config.text_config`, …) have the description inside the part it
//! concerns, and some tools wrap one description in another, so every object is searched.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::json::{Json, JsonSeed, MAX_VALUES, Members};
use super::model_sizes::SizeMembers;
use crate::json;

/// Documents that may describe the quantisation, the most authoritative first.
pub(crate) const DOCUMENTS: [&str; 6] = [
    "config.json",
    "hf_quant_config.json",
    "quantize_config.json",
    "quant_config.json",
    "quantization_config.json",
    "params.json",
];

/// Documents that describe a quantisation and nothing else.
pub(crate) const QUANTISATION_ONLY: [&str; 6] = [
    "quantize_config.json",
    "hf_quant_config.json",
    "quant_config.json",
    "quantization_config.json",
    "quanto_qmap.json",
    super::module_table::MODULE_TABLE,
];

/// Documents that are a description themselves.
const WHOLE: [&str; 3] = ["quantize_config.json", "quant_config.json", "quantization_config.json"];

/// Members that identify a bare description.
const DESCRIPTION_KEYS: [&str; 8] = [
    "quant_method",
    "quant_algo",
    "bits",
    "w_bit",
    "config_groups",
    "weight_block_size",
    "load_in_4bit",
    "load_in_8bit",
];

/// Whether a member of this name describes the quantisation.
pub(crate) fn is_quantisation(key: &str, is_object: bool) -> bool {
    match key {
        "quantization_config" | "compression_config" => true,
        "quantization" => is_object,
        _ => false,
    }
}

/// An object that describes a quantisation, and its path.
#[derive(Debug)]
pub(super) struct FoundDescription {
    /// Dotted keys; empty for a whole document.
    pub(super) path: String,
    pub(super) members: Members,
}

/// Which objects of a document describe a quantisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// Objects under the known keys.
    DescriptionFinder,
    /// The document itself, and objects inside it.
    Whole,
    /// Objects under the known keys, or else the document itself if it has the members of a description.
    Either,
}

impl Search {
    pub(super) fn of(document: &str) -> Self {
        if WHOLE.contains(&document) { Self::Whole } else { Self::DescriptionFinder }
    }
}

/// The relevant parts of a document.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// All descriptions, outer ones first.
    pub(super) descriptions: Vec<FoundDescription>,
    /// Messages for members under a known key that are not objects.
    pub(super) misplaced: Vec<String>,
    /// Every `model_type`, of the model and of its sub-models.
    pub(super) model_types: Vec<String>,
    /// The dimensions of matrices.
    pub(super) model_sizes: Vec<u64>,
}

/// The member with the type of a model or sub-model.
const MODEL_TYPE: &str = "model_type";
/// The longest `model_type` and the largest number of them that are recorded.
const MAX_MODEL_TYPE_BYTES: usize = 64;
const MAX_MODEL_TYPES: usize = 64;

/// Reads a document. The error explains why it is not one.
pub(super) fn find(text: &[u8], search: Search) -> Result<Findings, String> {
    let text = &*json::strict(text);
    let remaining = Cell::new(MAX_VALUES);
    let explain = |error: serde_json::Error| match remaining.get() {
        0 => format!("describes its quantisation by more than {MAX_VALUES} values"),
        _ => format!("is not valid JSON: {error}"),
    };
    let places = DescriptionFinder {
        remaining: &remaining,
        path: &RefCell::default(),
        found: &RefCell::default(),
        types: &RefCell::default(),
        sizes: &RefCell::default(),
    };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let is_object = if search == Search::Whole {
        let document = JsonSeed(&remaining).deserialize(&mut reader).map_err(explain)?;
        let is_object = document.members().is_some();
        places.record(document);
        is_object
    } else {
        places.deserialize(&mut reader).map_err(explain)?
    };
    reader.end().map_err(explain)?;
    if !is_object {
        return Err("is not a JSON object".to_owned());
    }
    let is_found = !places.found.borrow().is_empty();
    if search == Search::Either && !is_found {
        let document =
            JsonSeed(&remaining).deserialize(&mut serde_json::Deserializer::from_slice(text)).map_err(explain)?;
        if document.members().is_some_and(|members| DESCRIPTION_KEYS.iter().any(|key| members.get(key).is_some())) {
            places.record(document);
        }
    }
    let mut found = places.found.take();
    found.sort_by_key(|(depth, ..)| *depth);
    let model_sizes = places.sizes.borrow().sizes();
    let mut findings = Findings { model_types: places.types.take(), model_sizes, ..Findings::default() };
    for (_, path, value) in found {
        match value {
            Json::Null => {}
            Json::Object(members) => findings.descriptions.push(FoundDescription { path, members: *members }),
            other => findings.misplaced.push(format!("{path} is {}, an object is needed", other.brief())),
        }
    }
    Ok(findings)
}

/// Finds descriptions without reading anything else into memory. Returns whether the value is an object.
#[derive(Clone, Copy)]
struct DescriptionFinder<'a> {
    /// How many more values descriptions may have.
    remaining: &'a Cell<usize>,
    /// The keys and indices that lead here.
    path: &'a RefCell<Vec<String>>,
    /// Depth, path and value of each description.
    found: &'a RefCell<Vec<(usize, String, Json)>>,
    /// Every `model_type` found.
    types: &'a RefCell<Vec<String>>,
    /// The sizes found.
    sizes: &'a RefCell<SizeMembers>,
}

impl DescriptionFinder<'_> {
    /// Records the value at this path as a description, and descriptions inside it separately.
    fn record(self, mut value: Json) {
        self.search_inside(&mut value);
        let path = self.path.borrow();
        self.found.borrow_mut().push((path.len(), path.join("."), value));
    }

    fn search_inside(self, value: &mut Json) {
        let step = |key: String, value: &mut Json| {
            let is_description = is_quantisation(&key, value.members().is_some());
            self.path.borrow_mut().push(key);
            match is_description {
                true => self.record(std::mem::replace(value, Json::Null)),
                false => self.search_inside(value),
            }
            self.path.borrow_mut().pop();
        };
        match value {
            Json::Object(members) => members.iter_mut().for_each(|(key, value)| step(key.to_owned(), value)),
            Json::List(items) => {
                items.iter_mut().enumerate().for_each(|(place, item)| step(format!("[{place}]"), item))
            }
            _ => {}
        }
    }
}

impl<'de> DeserializeSeed<'de> for DescriptionFinder<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DescriptionFinder<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, number: u64) -> Result<bool, E> {
        self.sizes.borrow_mut().add(&self.path.borrow(), number);
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, text: &str) -> Result<bool, E> {
        let is_type = self.path.borrow().last().is_some_and(|key| key == MODEL_TYPE);
        let mut types = self.types.borrow_mut();
        if is_type && text.len() <= MAX_MODEL_TYPE_BYTES && types.len() < MAX_MODEL_TYPES {
            types.push(text.to_owned());
        }
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        for place in 0_usize.. {
            self.path.borrow_mut().push(format!("[{place}]"));
            let item = list.next_element_seed(self)?;
            self.path.borrow_mut().pop();
            if item.is_none() {
                break;
            }
        }
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            // The key `quantization` is a description only if its value is an object.
            if !is_quantisation(&key, true) {
                self.path.borrow_mut().push(key);
                map.next_value_seed(self)?;
                self.path.borrow_mut().pop();
                continue;
            }
            let mut value = map.next_value_seed(JsonSeed(self.remaining))?;
            let is_description = is_quantisation(&key, value.members().is_some());
            self.path.borrow_mut().push(key);
            match is_description {
                true => self.record(value),
                false => self.search_inside(&mut value),
            }
            self.path.borrow_mut().pop();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str, search: Search) -> Vec<String> {
        find(text.as_bytes(), search).unwrap().descriptions.into_iter().map(|found| found.path).collect()
    }

    #[test]
    fn descriptions_are_found_in_any_object_the_outer_ones_first() {
        let text = r#"{"thinker_config": {"text_config": {"quantization_config": {"bits": 4}}},
            "parts": [{}, {"compression_config": {"quantization_config": {}}}], "quantization": {"bits": 4},
            "decoder": {"quantization": "none", "quantization_config": null}}"#;
        let expected = [
            "quantization",
            "thinker_config.text_config.quantization_config",
            "parts.[1].compression_config",
            "parts.[1].compression_config.quantization_config",
        ];
        assert_eq!(paths(text, Search::DescriptionFinder), expected);
    }

    #[test]
    fn a_document_of_quantisation_only_is_a_description_itself() {
        assert_eq!(paths(r#"{"bits": 4}"#, Search::of("quantize_config.json")), [""]);
        assert_eq!(paths(r#"{"a": {"quantization": {}}}"#, Search::Whole), ["", "a.quantization"]);
        assert!(paths(r#"{"bits": 4}"#, Search::of("config.json")).is_empty());
        assert_eq!(paths(r#"{"bits": 4}"#, Search::Either), [""]);
        assert_eq!(paths(r#"{"bits": 4, "quantization_config": {}}"#, Search::Either), ["quantization_config"]);
        assert!(paths(r#"{"hidden_size": 4}"#, Search::Either).is_empty());
    }

    #[test]
    fn invalid_documents_and_descriptions_are_errors() {
        for (text, why) in
            [("", "not valid JSON"), ("{", "not valid JSON"), ("{} x", "not valid JSON"), ("[1]", "object")]
        {
            for search in [Search::DescriptionFinder, Search::Whole, Search::Either] {
                assert!(find(text.as_bytes(), search).unwrap_err().contains(why), "{text}");
            }
        }
        assert!(find(b"{\"a\": \"\xff\"}", Search::DescriptionFinder).is_err());
        let findings = find(br#"{"a": {"quantization_config": [1]}}"#, Search::DescriptionFinder).unwrap();
        assert!(findings.descriptions.is_empty());
        assert_eq!(findings.misplaced, ["a.quantization_config is [1], an object is needed"]);
    }

    #[test]
    fn model_types_are_found_at_any_depth() {
        let text =
            br#"{"model_type": "vision-encoder-decoder", "decoder": {"model_type": "gpt2"}, "x": {"model_type": 7},
            "quantization_config": {"model_type": "none"}}"#;
        assert_eq!(find(text, Search::DescriptionFinder).unwrap().model_types, ["vision-encoder-decoder", "gpt2"]);
        let long = format!(r#"{{"model_type": "{}"}}"#, "x".repeat(MAX_MODEL_TYPE_BYTES + 1));
        assert!(find(long.as_bytes(), Search::DescriptionFinder).unwrap().model_types.is_empty());
    }

    #[test]
    fn a_duplicate_description_is_found_twice() {
        let text = r#"{"quantization_config": {"bits": 4}, "quantization_config": {"bits": 8}}"#;
        assert_eq!(paths(text, Search::DescriptionFinder).len(), 2);
    }
}
