//! Entry points for fuzz targets into modules that are not public.

use serde_json::{Map, Value};

use crate::architecture::card::{self, Counts, FileType};
use crate::architecture::sidecars::in_memory::InMemory;
use crate::architecture::tokenizer::back::back;
use crate::architecture::tokenizer::rules::{LLAMA_LIKE, PIECES_OR_BPE};
use crate::architecture::tokenizer::{VocabularyRequest, keys};

/// Reads a vocabulary from one file; if it is valid, it must survive a round trip.
pub fn vocabulary(name: &str, text: &[u8]) {
    let files = InMemory::default().with(name, text);
    let config: Map<String, Value> = Map::new();
    let rules = if name == "tokenizer.model" { &PIECES_OR_BPE } else { &LLAMA_LIKE };
    let request =
        VocabularyRequest { rules, config: &config, filled: None, vocab_size: None, architecture: "", pre: None };
    let Ok(written) = keys(&files, &request) else { return };
    let (metadata, _) = written.into_parts();
    let Ok(restored) = back(&metadata) else { return };
    let files = restored.files.into_iter().fold(InMemory::default(), |files, (name, text)| files.with(&name, text));
    if !files.files.is_empty() {
        let _ = keys(&files, &VocabularyRequest { pre: Some("default"), ..request });
    }
}

/// Reads a model card.
pub fn card(text: &[u8]) {
    let files = InMemory::default().named("Model-7B-v1").with("README.md", text);
    let metadata = card::general(&files, &Map::new(), &Counts::default(), FileType::Model);
    assert!(metadata.is_ok_and(|metadata| !metadata.entries().is_empty()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::tokenizer::hostile::{Numbers, changed};

    #[test]
    fn changed_files_pass_the_doors_of_the_fuzzer() {
        let seed = std::env::var("AMN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(2);
        println!("AMN_SEED={seed}");
        let mut numbers = Numbers(seed);
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vocabularies");
        let directories = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = directories.filter(|path| path.is_dir()).flat_map(|path| std::fs::read_dir(path).unwrap());
        let mut passed = 0;
        for path in files.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let known = ["tokenizer.model", "tokenizer.json", "tekken.json", "README.md"];
            if !known.contains(&name.as_str()) {
                continue;
            }
            let whole = std::fs::read(&path).unwrap();
            for round in 0..40 {
                let text = if round == 0 { whole.clone() } else { changed(&whole, &mut numbers) };
                match name.as_str() {
                    "README.md" => card(&text),
                    name => vocabulary(name, &text),
                }
                passed += 1;
            }
        }
        // Random bytes, which are not a vocabulary.
        for _ in 0..200 {
            let noise: Vec<u8> = (0..numbers.below(200)).map(|_| numbers.below(256) as u8).collect();
            ["tokenizer.model", "tokenizer.json", "tekken.json"].iter().for_each(|name| vocabulary(name, &noise));
            card(&noise);
        }
        assert!(passed >= 400, "{passed} files, AMN_SEED={seed}");
    }
}
