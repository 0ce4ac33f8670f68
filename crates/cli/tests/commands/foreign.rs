//! Inputs that are not models: the error names their kind and a remedy.

use std::fs;

use crate::folder::Folder;
use crate::samples;

/// Asserts that every command refuses the file with the same message.
#[track_caller]
fn refused(folder: &Folder, name: &str, content: &[u8], words: &[&str]) {
    fs::write(folder.path(name), content).unwrap();
    for command in ["inspect", "parse", "remember"] {
        let error = folder.amn(&format!("{command} {name}")).failed();
        assert!(words.iter().all(|word| error.contains(word)), "amn {command} {name}: {error}");
    }
    let run = folder.amn(&format!("inspect {name} --json"));
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("\"kind\":\"parse\""), "{run:?}");
}

#[test]
fn known_files_that_are_not_models_are_identified() {
    let folder = Folder::empty();
    let samples = samples::folder();
    let checkpoint = fs::read(samples.path("checkpoint.pth")).unwrap();
    let module = fs::read(samples.path("untrusted.pth")).unwrap();
    let cases: [(&str, &[u8], &[&str]); 14] = [
        ("config.json", b"{\"model_type\": \"llama\"}", &["a JSON document, the configuration", "folder"]),
        ("tokenizer.json", b"{\"version\": \"1.0\"}", &["a JSON document, the tokenizer of a model"]),
        ("tokenizer.model", b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02", &["SentencePiece tokenizer"]),
        ("README.md", b"---\nlicense: mit\n---\n# A model\n", &["a text document, the description of a model"]),
        ("training_args.bin", &module, &["the arguments of a training run, not a model", "--all"]),
        ("optimizer.pt", &checkpoint, &["the state of an optimizer, not a model", "--all"]),
        ("model.pdparams", b"\x80\x04}.", &["the format Paddle, which is not read", "amn formats"]),
        ("model.pte", b"\x30\0\0\0ET12\0\0\0\0", &["the format ExecuTorch, which is not read"]),
        ("model.safetensors", b"<!DOCTYPE html><title>404</title>", &["an HTML page", "download it again"]),
        ("model.gguf", b"\x1f\x8b\x08\0\0\0\0\0\x02\xff", &["a gzip file", "unpack it first"]),
        ("model.npz", b"", &["the file is empty", "download or copy it again"]),
        ("model.pkl", b"\x80\x04}.", &["a Python pickle", "amn scan"]),
        ("model.7z", b"7z\xbc\xaf\x27\x1c\0\x04\x01", &["a 7z archive", "unpack it first"]),
        ("notes", b"Entry not found", &["a text document", "notes does not look like a safetensors file"]),
    ];
    for (name, content, words) in cases {
        refused(&folder, name, content, words);
    }
    assert!(folder.amn("inspect optimizer.pt --all").ok().contains("Tensors:     21"));
}

#[test]
fn an_invalid_shard_is_named_with_its_kind() {
    let folder = crate::checkpoint::folder();
    let shard = crate::checkpoint::shard_name(1, 2);
    let path = format!("{}/{shard}", crate::checkpoint::NAME);
    fs::write(folder.path(&path), "Access to this model is restricted").unwrap();
    let error = folder.amn(&format!("inspect {}", crate::checkpoint::NAME)).failed();
    assert!(error.contains(&shard) && error.contains("this is a text document"), "{error}");
}
