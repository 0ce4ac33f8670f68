//! Tests of malformed and contradictory tokenizer files, which must be refused by name.

use serde_json::{Map, Value, json};

use super::rules::{BPE, LLAMA_LIKE, PIECES_OR_BPE, TokenizerRules};
use super::{VocabularyRequest, keys};
use crate::architecture::Architecture;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::sidecars::in_memory::InMemory;
use crate::error::{AnamnesisError, ModelPart, Result};

fn rules_of(architecture: &str) -> &'static TokenizerRules {
    Architecture::of_gguf(architecture).unwrap().tokenizer()
}

fn keys_of(files: &InMemory, rules: &TokenizerRules, config: &Value) -> Result<MetadataBuilder> {
    let config: &Map<String, Value> = config.as_object().unwrap();
    let vocab_size = config.get("vocab_size").and_then(Value::as_u64);
    keys(
        files,
        &VocabularyRequest { rules, config, filled: None, vocab_size, architecture: "llama", pre: Some("gpt-2") },
    )
}

fn document(vocab: &Value, merges: &Value, added: &Value) -> InMemory {
    let text = json!({"model": {"type": "BPE", "vocab": vocab, "merges": merges}, "added_tokens": added});
    InMemory::default().with("tokenizer.json", text.to_string())
}

fn refused(result: Result<MetadataBuilder>, part: &str) {
    let error = result.expect_err(part).to_string();
    assert!(error.contains(part), "{error:?} does not say {part:?}");
}

/// A piece of a SentencePiece model.
fn piece(text: &[u8], kind: u8) -> Vec<u8> {
    let inner = [&[0x0a, text.len() as u8], text, &[0x15, 0, 0, 0, 0, 0x18, kind]].concat();
    [&[0x0a, inner.len() as u8], inner.as_slice()].concat()
}

fn model(pieces: &[Vec<u8>]) -> InMemory {
    InMemory::default().with("tokenizer.model", pieces.concat())
}

#[test]
fn a_vocabulary_larger_than_the_embedding_is_refused() {
    let files = document(&json!({"a": 0, "b": 1}), &json!([]), &json!([]));
    refused(keys_of(&files, &BPE, &json!({"vocab_size": 1})), "token \"b\" has id 1, 1 tokens are in the embedding");
    refused(keys_of(&files, &BPE, &json!({"vocab_size": 1_u64 << 40})), "MAX_TOKENS");
    assert!(keys_of(&files, &BPE, &json!({"vocab_size": 4})).is_ok());
}

#[test]
fn duplicate_tokens_are_refused() {
    let text = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}}"#;
    refused(keys_of(&InMemory::default().with("tokenizer.json", text), &BPE, &json!({})), "\"a\" appears twice");
    let files = document(&json!({"a": 0, "b": 0}), &json!([]), &json!([]));
    refused(keys_of(&files, &BPE, &json!({})), "\"a\" and \"b\" have the same id 0");
    refused(
        keys_of(&model(&[piece(b"<unk>", 2), piece(b"a", 1), piece(b"a", 1)]), &PIECES_OR_BPE, &json!({})),
        "piece 2",
    );
}

#[test]
fn added_tokens_after_a_gap_are_refused() {
    let added = json!([{"id": 7, "content": "<x>", "special": true}]);
    let files = document(&json!({"a": 0, "b": 1}), &json!([]), &added);
    refused(keys_of(&files, &BPE, &json!({"vocab_size": 9})), "added token \"<x>\" has id 7, 2 is expected");
    let added = json!([{"id": -1, "content": "<x>"}]);
    refused(keys_of(&document(&json!({}), &json!([]), &added), &BPE, &json!({})), "no id");
}

#[test]
fn merges_that_do_not_make_tokens_are_refused() {
    let vocab = json!({"a": 0, "b": 1, "ab": 2});
    for merges in [
        json!([["a", ""]]),
        json!([["", "ab"]]),
        json!([["b", "a"]]),
        json!([["a", "x"]]),
        json!(["ab"]),
        json!(["a b a"]),
    ] {
        refused(keys_of(&document(&vocab, &merges, &json!([])), &BPE, &json!({})), "merge 0");
    }
    for merges in [json!([["a", "b"], "a b"]), json!([["a"]]), json!([["a", "b", "a"]]), json!([1]), json!({"a": "b"})]
    {
        refused(keys_of(&document(&vocab, &merges, &json!([])), &BPE, &json!({})), "tokenizer.json");
    }
    assert!(keys_of(&document(&vocab, &json!(["a b"]), &json!([])), &BPE, &json!({})).is_ok());
}

#[test]
fn models_with_broken_pieces_are_refused() {
    let unknown = piece(b"<unk>", 2);
    for (pieces, part) in [
        (vec![piece(b"a", 1)], "0 of 1 pieces are of type unknown"),
        (vec![unknown.clone(), piece(b"<u>", 2)], "2 of 2 pieces"),
        (vec![unknown.clone(), piece(b"\xff\xfe", 1)], "piece 1: it is not UTF-8"),
        (vec![unknown.clone(), piece(b"", 1)], "piece 1: it has no text"),
        (vec![unknown.clone(), piece(b"a", 9)], "piece 1: its type is 9"),
        (vec![unknown.clone(), vec![0x0a, 0x7f, 1]], "has 127 bytes"),
        (vec![unknown.clone(), vec![0x08, 1]], "not messages"),
        (vec![unknown.clone(), vec![0x0b]], "wire type 3"),
    ] {
        refused(keys_of(&model(&pieces), &PIECES_OR_BPE, &json!({})), part);
    }
    assert!(keys_of(&model(&[unknown, piece(b"a", 1)]), &PIECES_OR_BPE, &json!({"vocab_size": 3})).is_ok());
}

#[test]
fn ids_and_lists_of_other_types_are_refused() {
    let files = || document(&json!({"a": 0}), &json!([]), &json!([]));
    refused(keys_of(&files(), &BPE, &json!({"bos_token_id": -1})), "bos_token_id");
    refused(keys_of(&files(), &BPE, &json!({"bos_token_id": 1_u64 << 33})), "bos_token_id");
    assert!(
        keys_of(&files(), &BPE, &json!({"bos_token_id": [1, 2], "eos_token_id": null, "pad_token_id": 1.5})).is_ok()
    );
    for settings in
        ["[]", "{", r#"{"added_tokens_decoder": []}"#, r#"{"added_tokens_decoder": {"x": {"content": "a"}}}"#]
    {
        refused(keys_of(&files().with("tokenizer_config.json", settings), &BPE, &json!({})), "tokenizer_config.json");
    }
    let pieces = model(&[piece(b"<unk>", 2)]);
    refused(
        keys_of(&pieces.with("added_tokens.json", r#"{"x": "y"}"#), &PIECES_OR_BPE, &json!({})),
        "added_tokens.json",
    );
}

#[test]
fn other_models_and_missing_files_are_unsupported() {
    let unigram =
        InMemory::default().with("tokenizer.json", r#"{"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}"#);
    for (files, rules) in [
        (InMemory::default(), &BPE),
        (InMemory::default(), &LLAMA_LIKE),
        (InMemory::default(), rules_of("gemma2")),
        (InMemory::default(), rules_of("phi3")),
        (unigram, &BPE),
    ] {
        assert!(
            matches!(
                keys_of(&files, rules, &json!({})),
                Err(AnamnesisError::UnsupportedModel { part: ModelPart::Tokenizer, .. })
            ),
            "{rules:?}"
        );
    }
}

#[test]
fn a_pre_tokenizer_without_a_name_is_refused_and_can_be_named() {
    let text =
        json!({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "pre_tokenizer": {"type": "Whitespace"}});
    let files = InMemory::default().with("tokenizer.json", text.to_string());
    let config = Map::new();
    let request = VocabularyRequest {
        rules: &BPE,
        config: &config,
        filled: None,
        vocab_size: None,
        architecture: "llama",
        pre: None,
    };
    assert!(matches!(
        keys(&files, &request),
        Err(AnamnesisError::UnsupportedModel { part: ModelPart::PreTokenizer, .. })
    ));
    let named = keys(&files, &VocabularyRequest { pre: Some("whitespace"), ..request }).unwrap();
    assert!(named.entries().iter().any(|(_, value)| value.as_string() == Some("whitespace")));
}

#[test]
fn deeply_nested_and_truncated_documents_are_refused() {
    for text in [
        "{\"normalizer\": ".to_owned() + &"[".repeat(100_000),
        "{\"model\": {\"vocab\": {\"a\"".to_owned(),
        "[]".to_owned(),
        String::new(),
    ] {
        let files = InMemory::default().with("tokenizer.json", text);
        refused(keys_of(&files, &BPE, &json!({})), "tokenizer.json");
    }
    for text in [
        "{}",
        "[]",
        r#"{"config": {}, "vocab": [{"rank": 1, "token_bytes": "AA=="}]}"#,
        r#"{"vocab": [{"rank": 0, "token_bytes": "?"}]}"#,
    ] {
        refused(keys_of(&InMemory::default().with("tekken.json", text), &LLAMA_LIKE, &json!({})), "tekken.json");
    }
}

/// Pseudo-random numbers of a seed.
pub(crate) struct Numbers(pub u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// A file with bytes changed, removed or duplicated.
pub(crate) fn changed(file: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut file = file.to_vec();
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(file.len());
        let end = (at + numbers.below(24)).min(file.len());
        match numbers.below(4) {
            0 => drop(file.drain(at..end)),
            1 => {
                let piece = file[at..end].to_vec();
                file.splice(at..at, piece);
            }
            2 => file.truncate(at.max(1)),
            _ => {
                let byte = numbers.below(256) as u8;
                file.splice(at..(at + 1).min(file.len()), [byte]);
            }
        }
    }
    file
}

#[test]
fn mutated_files_are_refused_or_round_trip() {
    let seed = std::env::var("AMN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("AMN_SEED={seed}");
    let mut numbers = Numbers(seed);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vocabularies");
    let (mut read, mut refused) = (0, 0);
    for (case, rules) in [
        ("qwen", &PIECES_OR_BPE),
        ("llama3", &LLAMA_LIKE),
        ("glm4", rules_of("glm4")),
        ("sentencepieces", &LLAMA_LIKE),
        ("phi3", rules_of("phi3")),
        ("pieces_in_json", &LLAMA_LIKE),
        ("tekken", &LLAMA_LIKE),
    ] {
        let paths = std::fs::read_dir(folder.join(case)).unwrap().map(|entry| entry.unwrap().path());
        let paths: Vec<_> = paths.filter(|path| path.is_file()).collect();
        let name = |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let whole =
            paths.iter().fold(InMemory::default(), |files, path| files.with(&name(path), std::fs::read(path).unwrap()));
        for path in paths.iter().filter(|path| name(path) != "config.json").cycle().take(60) {
            let file = changed(&whole.files[&name(path)], &mut numbers);
            match keys_of(&whole.clone().with(&name(path), file), rules, &json!({"vocab_size": 320})) {
                Ok(metadata) => {
                    read += 1;
                    let _ = super::back::back(&metadata.into_parts().0);
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(read > 20 && refused > 100, "{read} read, {refused} refused, AMN_SEED={seed}");
}
