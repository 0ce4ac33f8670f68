//! Doors for fuzz targets to rooms that have no public one.

use serde_json::{Map, Value};

use crate::architecture::beside::in_memory::InMemory;
use crate::architecture::card::{self, Counts};
use crate::architecture::tokenizer::back::back;
use crate::architecture::tokenizer::{Family, Wanted, keys};

/// Reads a vocabulary of one file with a name; one that is read can be written back and read again.
pub fn vocabulary(name: &str, text: &[u8]) {
    let files = InMemory::default().with(name, text);
    let config: Map<String, Value> = Map::new();
    let family = if name == "tokenizer.model" { Family::Qwen } else { Family::LlamaLike };
    let wanted = Wanted { family, config: &config, vocab_size: None, architecture: "llama", pre: None };
    let Ok(told) = keys(&files, &wanted) else { return };
    let (metadata, _) = told.into_parts();
    let Ok(restored) = back(&metadata) else { return };
    let files = restored.files.into_iter().fold(InMemory::default(), |files, (name, text)| files.with(&name, text));
    if !files.files.is_empty() {
        let _ = keys(&files, &Wanted { pre: Some("default"), ..wanted });
    }
}

/// Reads a model card.
pub fn card(text: &[u8]) {
    let files = InMemory::default().named("Model-7B-v1").with("README.md", text);
    let told = card::general(&files, &Map::new(), &Counts::default());
    assert!(told.is_ok_and(|told| !told.entries().is_empty()));
}
