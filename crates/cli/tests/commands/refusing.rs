//! Incomplete, inconsistent or hostile checkpoint directories, and foreign outputs.

use std::fs;

use serde_json::json;

use crate::checkpoint::{self, INDEX, NAME, SMALL, Tensor, assert_same_files, shard_name, shards};
use crate::folder::Folder;

/// Asserts that every command fails without output.
#[track_caller]
fn refused(folder: &Folder, words: &[&str]) {
    let before = folder.names();
    let error = folder.amn(&format!("remember {NAME}")).failed();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
    let run = folder.amn(&format!("verify {NAME}"));
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(words.iter().any(|word| run.stdout.contains(word)) && run.stdout.contains("  1. "), "{run:?}");
    let run = folder.amn(&format!("verify {NAME} --json"));
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &document["sound"]), (Some(1), &false.into()));
    assert!(run.stderr.contains("\"kind\":\"unsound\""), "{run:?}");
    assert_eq!(folder.names(), before);
}

#[test]
fn an_index_that_escapes_its_directory_is_refused() {
    for name in ["../../etc/passwd", "/etc/passwd", "sub/../../x.safetensors"] {
        let folder = checkpoint::folder();
        let mut index = checkpoint::index(&shards());
        index["weight_map"]["model.norm.weight"] = name.into();
        fs::write(folder.path(NAME).join(INDEX), index.to_string()).unwrap();
        refused(&folder, &[name]);
    }
}

#[test]
fn a_missing_shard_is_named_with_what_to_do() {
    let folder = checkpoint::folder();
    fs::remove_file(folder.path(NAME).join(shard_name(2, 2))).unwrap();
    refused(&folder, &[&shard_name(2, 2), "no such file"]);
    let error = folder.amn(&format!("inspect {NAME}/{}", shard_name(1, 2))).failed();
    assert!(error.contains("download the rest of the checkpoint") && error.contains("--only-this-file"), "{error}");
    // The same without an index.
    fs::remove_file(folder.path(NAME).join(INDEX)).unwrap();
    refused(&folder, &[&shard_name(2, 2), "no such file"]);
}

#[test]
fn a_tensor_that_two_shards_hold_is_refused() {
    let folder = checkpoint::folder();
    let mut twice = shards();
    twice[1].push(twice[0][0].clone());
    checkpoint::write(&folder.path(NAME), &twice);
    refused(&folder, &["model.layers.0.mlp.weight", "again in"]);
}

#[test]
fn an_inconsistent_index_is_refused() {
    let folder = checkpoint::folder();
    let mut index = checkpoint::index(&shards());
    index["metadata"]["total_size"] = 1.into();
    fs::write(folder.path(NAME).join(INDEX), index.to_string()).unwrap();
    refused(&folder, &["a total_size of 1 bytes, the tensors take"]);
    let mut index = checkpoint::index(&shards());
    index["weight_map"]["not.there"] = shard_name(1, 2).into();
    fs::write(folder.path(NAME).join(INDEX), index.to_string()).unwrap();
    refused(&folder, &["not.there"]);
    fs::write(folder.path(NAME).join(INDEX), json!({ "weight_map": {} }).to_string()).unwrap();
    refused(&folder, &["names no file"]);
}

#[test]
fn a_git_lfs_pointer_is_named() {
    let folder = checkpoint::folder();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    fs::write(folder.path(NAME).join(shard_name(2, 2)), pointer).unwrap();
    refused(&folder, &[&shard_name(2, 2), "Git LFS pointer", "git lfs pull"]);
}

#[test]
fn a_weight_without_its_scale_is_refused() {
    let folder = checkpoint::folder();
    let mut bare = shards();
    bare[1].remove(0);
    checkpoint::write(&folder.path(NAME), &bare);
    refused(&folder, &["model.layers.0.mlp.weight"]);
}

#[test]
fn a_directory_without_weights_is_named() {
    let folder = Folder::empty();
    let error = folder.amn("remember .").failed();
    assert!(error.contains("contains no safetensors, GGUF or PyTorch weights"), "{error}");
}

#[test]
fn a_foreign_output_is_replaced_only_with_force() {
    let folder = checkpoint::folder();
    let output = folder.path("out");
    fs::create_dir(&output).unwrap();
    fs::write(output.join("notes.txt"), "mine").unwrap();
    let error = folder.amn(&format!("remember {NAME} -o out")).failed();
    assert!(error.contains("out: is not empty") && error.contains("--force"), "{error}");
    assert_eq!(checkpoint::files(&output).len(), 1);
    folder.amn(&format!("remember {NAME} -o out/ --force")).ok();
    assert_eq!(fs::read(output.join("notes.txt")).unwrap(), b"mine");
    assert!(output.join("model.safetensors").is_file());
}

#[test]
fn an_output_that_cannot_be_a_directory_is_refused() {
    let folder = checkpoint::folder();
    fs::write(folder.path("file"), "mine").unwrap();
    assert!(folder.amn(&format!("remember {NAME} -o file --force")).failed().contains("file: is a file"));
    assert!(folder.amn(&format!("remember {NAME} -o no/such")).failed().contains("no: there is no such folder"));
    let before = checkpoint::files(&folder.path(NAME));
    let error = folder.amn(&format!("remember {NAME} -o ./{NAME} --force")).failed();
    assert!(error.contains("the output is the input itself") && error.contains("-o"), "{error}");
    assert!(checkpoint::files(&folder.path(NAME)) == before);
}

#[test]
fn a_different_conversion_does_not_resume_this_one() {
    let folder = checkpoint::folder();
    folder.amn(&format!("remember {NAME} {SMALL} -o out --part 2/2")).ok();
    for (options, reason) in [
        ("--to f32", "it holds a BF16 conversion, this one is F32"),
        ("--shard-size 4KB", "it has 6 weight files, this one has"),
        ("--single-file", "it has 6 weight files, this one has 1"),
        ("--rename s/model/other/ --shard-size 2KB", "other names"),
        ("--exclude *norm* --shard-size 2KB", "weight files"),
    ] {
        let small = if options.starts_with("--to") { SMALL } else { "" };
        let error = folder.amn(&format!("remember {NAME} {small} {options} -o out")).failed();
        assert!(error.contains("started by another conversion") && error.contains(reason), "{error}");
        assert!(error.contains("--force"), "{error}");
    }
    folder.amn(&format!("remember {NAME} --shard-size 4KB -o fresh")).ok();
    folder.amn(&format!("remember {NAME} --shard-size 4KB -o out --force")).ok();
    assert_same_files(&folder.path("out"), &folder.path("fresh"));
}

#[test]
fn a_changed_input_is_reported() {
    let folder = checkpoint::folder();
    folder.amn(&format!("remember {NAME} -o out --part 2/2")).ok();
    let mut longer = shards();
    longer[1].push(Tensor::bf16("model.extra", 8));
    checkpoint::write(&folder.path(NAME), &longer);
    let error = folder.amn(&format!("remember {NAME} -o out")).failed();
    assert!(error.contains(".safetensors\" has changed") && error.contains("--force"), "{error}");
}

#[cfg(unix)]
#[test]
fn files_that_are_not_regular_are_skipped_with_a_note() {
    let folder = checkpoint::folder();
    let made = std::process::Command::new("mkfifo").arg(folder.path(NAME).join("pipe")).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let run = folder.amn(&format!("remember {NAME} -o out")).ok();
    assert!(run.contains("left out pipe: not a regular file"), "{run}");
}

#[test]
fn a_malformed_name_of_a_store_is_wrong_usage() {
    let folder = Folder::empty();
    for name in ["hf:", "hf:a/b//c", "hf:org/name@..", "ollama:", "ollama:a/b/c/d"] {
        for command in ["parse", "inspect", "remember", "verify", "scan"] {
            let run = folder.amn(&format!("{command} {name}"));
            assert_eq!(run.code, Some(2), "{command} {name}: {run:?}");
            assert!(run.stderr.contains(&format!("model name \"{name}\" ")), "{run:?}");
        }
    }
}

#[test]
fn files_beyond_a_limit_are_refused_with_its_name() {
    let folder = crate::samples::folder();
    for (line, limit) in [
        ("parse model-fp8.safetensors", "items=2"),
        ("inspect model.gguf", "memory=100"),
        ("remember arrays.npz", "items=1"),
        ("convert model.gguf --to npz", "buffer=8"),
        ("forget plain.safetensors --to bnb-nf4", "memory=1K"),
    ] {
        let error = folder.amn(&format!("{line} --limit {limit}")).failed();
        let name = limit.split('=').next().unwrap();
        assert!(
            error.contains("limit exceeded") && error.contains(&format!("--limit {name} allows no more")),
            "{error}"
        );
        let run = folder.amn(&format!("{line} --limit {limit} --json"));
        assert!(run.stderr.contains("\"kind\":\"limit\""), "{run:?}");
    }
    folder.amn("parse model-fp8.safetensors --limit items=100 --limit memory=10MB --limit ratio=10").ok();
    for wrong in ["items", "items=many", "speed=1"] {
        assert_eq!(folder.amn(&format!("parse model-fp8.safetensors --limit {wrong}")).code, Some(2), "{wrong}");
    }
}
