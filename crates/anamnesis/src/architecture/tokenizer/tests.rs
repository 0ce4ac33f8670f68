//! Tests of vocabularies and names of whole directories against the output of the converter of llama.cpp.
//!
//! `AMN_HF_CORPUS` names a folder with more cases: directories, each next to the output of the converter,
//! `NAME.TYPE.expected.gguf`; `AMN_RESTORED` a folder to which the restored vocabularies are written.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::back::back;
use super::{VocabularyRequest, keys};
use crate::architecture::Architecture;
use crate::architecture::card::{self, Counts};
use crate::architecture::sidecars::Directory;
use crate::architecture::sidecars::in_memory::InMemory;
use crate::catalog::MetadataValue;
use crate::{Checkpoint, ParseLimits};

type Entries = Vec<(String, MetadataValue)>;

/// The architecture of a configuration.
fn architecture(config: &Map<String, Value>) -> &'static Architecture {
    Architecture::of_config(config).unwrap().unwrap()
}

/// The directories below a folder that have an output of the converter, and those outputs.
fn cases(folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().ends_with(".expected.gguf")).collect();
    files.sort();
    let directory = |file: PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap().split('.').next().unwrap().to_owned();
        // Some names have a dot.
        let stem = file.file_name().unwrap().to_str().unwrap().trim_end_matches(".expected.gguf").to_owned();
        let stem = stem.rsplit_once('.').map_or(name, |(stem, _)| stem.to_owned());
        (folder.join(stem), file)
    };
    files.into_iter().map(directory).collect()
}

fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vocabularies");
    let more = std::env::var_os("AMN_HF_CORPUS").map(PathBuf::from);
    own.is_dir().then_some(own).into_iter().chain(more).collect()
}

fn config(directory: &Path) -> Map<String, Value> {
    serde_json::from_slice(&std::fs::read(directory.join("config.json")).unwrap()).unwrap()
}

fn vocab_size(config: &Map<String, Value>) -> Option<u64> {
    let inner = config.get("text_config").and_then(|inner| inner.get("vocab_size"));
    inner.or_else(|| config.get("vocab_size")).and_then(Value::as_u64)
}

/// The differences of two lists of keys, as text.
fn differences(found: &[(String, MetadataValue)], wanted: &[(String, MetadataValue)]) -> Vec<String> {
    let mut differences = Vec::new();
    for (key, value) in wanted {
        match found.iter().find(|(known, _)| known == key) {
            None => differences.push(format!("{key} is missing: {}", shortened(value))),
            Some((_, other)) if other != value => {
                differences.push(format!("{key}: {} not {}", shortened(other), shortened(value)));
                differences.extend(first_difference(other, value));
            }
            Some(_) => {}
        }
    }
    let extra = found.iter().filter(|(key, _)| wanted.iter().all(|(known, _)| known != key));
    differences.extend(extra.map(|(key, value)| format!("{key} is too much: {}", shortened(value))));
    let order = |entries: &[(String, MetadataValue)]| entries.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    if differences.is_empty() && order(found) != order(wanted) {
        differences.push(format!("order {:?} not {:?}", order(found), order(wanted)));
    }
    differences
}

fn shortened(value: &MetadataValue) -> String {
    format!("{value:?}").chars().take(160).collect()
}

fn first_difference(found: &MetadataValue, wanted: &MetadataValue) -> Option<String> {
    let (found, wanted) = (found.as_array()?, wanted.as_array()?);
    if let (Some(found), Some(wanted)) = (found.as_string_slice(), wanted.as_string_slice()) {
        let place = found.iter().zip(wanted).position(|(a, b)| a != b)?;
        return Some(format!("  at {place}: {:?} not {:?}", found[place], wanted[place]));
    }
    let (found, wanted) = (found.as_i32_slice()?, wanted.as_i32_slice()?);
    let place = found.iter().zip(wanted).position(|(a, b)| a != b)?;
    Some(format!("  at {place}: {} not {}", found[place], wanted[place]))
}

/// The keys of a file with a prefix that this room is responsible for.
fn written(file: &Checkpoint, begin: &str) -> Entries {
    let left = ["general.architecture", "general.file_type", "general.quantization_version"];
    let entries = file.metadata().unwrap();
    entries.into_iter().filter(|(key, _)| key.starts_with(begin) && !left.contains(&key.as_str())).collect()
}

#[test]
fn vocabularies_are_written_as_the_converter_writes_them() {
    let mut faults = Vec::new();
    let mut tried = 0;
    for (directory, file) in folders().iter().flat_map(|folder| cases(folder)) {
        let config = config(&directory);
        let of = architecture(&config);
        let (rules, architecture) = (of.tokenizer(), of.name());
        let request = VocabularyRequest {
            rules,
            config: &config,
            filled: None,
            vocab_size: vocab_size(&config),
            architecture,
            pre: None,
        };
        let file = Checkpoint::open(&file, &ParseLimits::default()).unwrap();
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        tried += 1;
        match keys(&Directory::new(&directory, &ParseLimits::default()), &request) {
            Ok(metadata) => {
                // Mistral's vocabularies also write their size, a key of the model.
                let mut entries = metadata.entries().to_vec();
                entries.retain(|(key, _)| key.starts_with("tokenizer."));
                for difference in differences(&entries, &written(&file, "tokenizer.")) {
                    faults.push(format!("{name}: {difference}"));
                }
                if !metadata.notes.is_empty() {
                    println!("{name}: {:?}", metadata.notes);
                }
            }
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    assert!(tried > 0 && faults.is_empty(), "{tried} tried\n{}", faults.join("\n"));
}

#[test]
fn models_are_named_as_the_converter_names_them() {
    let mut faults = Vec::new();
    for (directory, file) in folders().iter().flat_map(|folder| cases(folder)) {
        let config = config(&directory);
        let file = Checkpoint::open(&file, &ParseLimits::default()).unwrap();
        let mut counts = Counts::default();
        for tensor in file.tensors() {
            counts.add(tensor.name, tensor.shape);
        }
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        match card::general(
            &Directory::new(&directory, &ParseLimits::default()),
            &config,
            &counts,
            card::FileType::Model,
        ) {
            Ok(metadata) => {
                for difference in differences(metadata.entries(), &written(&file, "general.")) {
                    faults.push(format!("{name}: {difference}"));
                }
            }
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The keys that must survive a round trip.
fn tokenizer_entries(entries: &[(String, MetadataValue)]) -> Entries {
    let names = [
        "model",
        "pre",
        "tokens",
        "scores",
        "token_type",
        "merges",
        "bos_token_id",
        "eos_token_id",
        "padding_token_id",
    ];
    let is_one = |key: &str| {
        key.strip_prefix("tokenizer.ggml.").map_or(key.starts_with("tokenizer.chat"), |name| names.contains(&name))
    };
    entries.iter().filter(|(key, _)| is_one(key)).cloned().collect()
}

#[test]
fn restored_vocabularies_convert_back_to_the_same_keys() {
    let mut faults = Vec::new();
    for (directory, file) in folders().iter().flat_map(|folder| cases(folder)) {
        let config = config(&directory);
        let of = architecture(&config);
        let (rules, architecture) = (of.tokenizer(), of.name());
        let stored: Entries = Checkpoint::open(&file, &ParseLimits::default()).unwrap().metadata().unwrap();
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let pre = stored.iter().find(|(key, _)| key == "tokenizer.ggml.pre").unwrap().1.as_string().unwrap();
        let request = VocabularyRequest {
            rules,
            config: &config,
            filled: None,
            vocab_size: vocab_size(&config),
            architecture,
            pre: Some(pre),
        };
        let restored = back(&stored.iter().cloned().collect()).unwrap();
        if restored.files.is_empty() {
            println!("{name}: {:?}", restored.notes);
            assert!(!restored.notes.is_empty());
            continue;
        }
        if let Some(folder) = std::env::var_os("AMN_RESTORED") {
            let folder = Path::new(&folder).join(&name);
            std::fs::create_dir_all(&folder).unwrap();
            restored.files.iter().for_each(|(file, content)| std::fs::write(folder.join(file), content).unwrap());
        }
        let files = restored.files.into_iter().fold(InMemory::default(), |files, (name, text)| files.with(&name, text));
        match keys(&files, &request) {
            // Its ranks become merges, and its special tokens a list.
            Ok(_) if directory.join("tekken.json").exists() => {}
            // In Phi 3 the list of tokenizer.json replaces pieces.
            Ok(_) if rules.replaces_pieces => {}
            Ok(metadata) => {
                let (mut found, mut wanted) = (tokenizer_entries(metadata.entries()), tokenizer_entries(&stored));
                found.sort_by(|(a, _), (b, _)| a.cmp(b));
                wanted.sort_by(|(a, _), (b, _)| a.cmp(b));
                faults.extend(differences(&found, &wanted).iter().map(|difference| format!("{name}: {difference}")));
            }
            Err(error) => faults.push(format!("{name}: {error} {:?}", restored.notes)),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
