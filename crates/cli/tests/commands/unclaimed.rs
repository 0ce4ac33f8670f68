//! Tensors that look like parts of quantised weights but belong to none: refused, or copied and listed.

use std::fs;

use crate::folder::Folder;

/// A model with a plain weight, and zero points without a weight.
fn stray() -> Folder {
    let header = serde_json::json!({
        "a.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "b.qzeros": {"dtype": "I32", "shape": [1, 2], "data_offsets": [4, 12]},
    });
    let (header, folder) = (header.to_string(), Folder::empty());
    let values: Vec<u8> = (0..12).collect();
    fs::write(
        folder.path("m.safetensors"),
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat(),
    )
    .unwrap();
    folder
}

#[test]
fn a_leftover_part_is_refused_with_the_option_that_allows_it() {
    let folder = stray();
    for command in ["remember m.safetensors", "convert m.safetensors --to npz", "forget m.safetensors --to bnb-nf4"] {
        let error = folder.amn(command).failed();
        assert!(error.contains("\"b.qzeros\" (I32) is left over"), "{error}");
        assert!(error.ends_with("--allow-unclaimed copies it\n"), "{error}");
    }
}

#[test]
fn unclaimed_tensors_are_counted_and_listed() {
    let count = "one tensor that no scheme claims is";
    for command in [
        "parse m.safetensors",
        "remember m.safetensors -o out.safetensors",
        "remember m.safetensors -o out.safetensors --dry-run",
        "convert m.safetensors --to npz -o out.npz",
        "forget m.safetensors --to bnb-nf4 --allow-empty -o out.safetensors",
    ] {
        let folder = stray();
        let text = folder.amn(&format!("{command} --allow-unclaimed")).ok();
        assert!(text.contains(count) && text.contains("\"b.qzeros\""), "{command}: {text}");
        let document = stray().amn(&format!("{command} --allow-unclaimed --json")).json();
        assert_eq!(document["unclaimed"], serde_json::json!(["b.qzeros"]), "{command}");
        let notes = document["notes"].to_string();
        assert!(command.starts_with("parse") || (notes.contains(count) && notes.contains("b.qzeros")), "{document}");
    }
    let text = stray().amn("inspect m.safetensors --allow-unclaimed").ok();
    assert!(text.contains("Unclaimed:   1 tensor, treated as plain data\nOdd:         tensor \"b.qzeros\""), "{text}");
    let document = Folder::with_model().amn("inspect model-fp8.safetensors --json").json();
    assert_eq!(document["unclaimed"], serde_json::json!([]));
}
