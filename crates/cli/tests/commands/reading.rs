//! `parse` and `inspect`.

use std::fs;

use crate::folder::{Folder, MODEL};

#[test]
fn parse_counts_tensors_by_role() {
    let wanted = "\
3 tensors parsed
    1 quantized   Fine-grained FP8 (E4M3), 128x128 blocks
    1 scale       BF16
    1 passthrough BF16 (norms, embeddings, lm_head)
File: 978 B
";
    assert_eq!(Folder::with_model().amn("parse model-fp8.safetensors").ok(), wanted);
}

#[test]
fn parse_omits_roles_that_do_not_occur() {
    let wanted = "\
2 tensors parsed
    1 quantized   Fine-grained FP8 (E4M3), 128x128 blocks
    1 scale       F32
File: 520 B
";
    assert_eq!(Folder::with_fixture("block128_allcodes").amn("parse model-fp8.safetensors").ok(), wanted);
}

#[test]
fn parse_lists_every_tensor_by_name() {
    let wanted = "
NAME                                       DTYPE    SHAPE     ROLE          SIZE
lm_head.weight                             BF16     [4, 8]    passthrough   64 B
model.layers.0.mlp.down_proj.weight        F8_E4M3  [130, 7]  quantized    910 B
model.layers.0.mlp.down_proj.weight_scale  BF16     [2, 1]    scale          4 B
";
    for option in ["--list", "-l", "--tensors"] {
        let text = Folder::with_model().amn(&format!("parse {MODEL} {option}")).ok();
        assert!(text.ends_with(wanted), "{text}");
    }
}

#[test]
fn inspect_prints_scheme_and_sizes() {
    let wanted = "\
Format:      Fine-grained FP8 (E4M3), 128x128 blocks
Quantized:   1 tensors (weights) + 1 scale tensors (BF16)
Passthrough: 1 tensors (norms, embeddings)
Size:        978 B (FP8) -> 1.88 KB (BF16)
Lethe took:  ~906 B of precision
";
    let folder = Folder::with_model();
    let text = folder.amn("inspect model-fp8.safetensors").ok();
    assert!(text.starts_with(wanted), "{text}");
    assert_eq!(folder.amn("info model-fp8.safetensors").ok(), text);
    let as_f32 = folder.amn("inspect model-fp8.safetensors --to f32").ok();
    assert!(as_f32.contains("Size:        978 B (FP8) -> 3.70 KB (F32)"), "{as_f32}");
}

#[test]
fn json_documents_have_the_same_facts() {
    let folder = Folder::with_model();
    let parsed = folder.amn("parse model-fp8.safetensors --json").json();
    assert_eq!((&parsed["command"], &parsed["quantized"]), (&"parse".into(), &1.into()));
    assert_eq!((&parsed["bytes"], &parsed["scale_dtypes"][0]), (&978.into(), &"BF16".into()));
    assert!(parsed.get("tensors").is_none());
    let listed = folder.amn("--json parse -l model-fp8.safetensors").json();
    assert_eq!(listed["tensors"].as_array().map(Vec::len), Some(3));
    assert_eq!(listed["tensors"][1]["shape"], serde_json::json!([130, 7]));
    let inspected = folder.amn("inspect model-fp8.safetensors --to f16 --json").json();
    assert_eq!((&inspected["command"], &inspected["to"]), (&"inspect".into(), &"F16".into()));
    assert_eq!((&inspected["decoded_bytes"], &inspected["problems"]), (&1884.into(), &serde_json::json!([])));
}

#[test]
fn a_missing_file_is_named() {
    for command in ["parse", "inspect", "remember"] {
        let error = Folder::empty().amn(&format!("{command} no-such.safetensors")).failed();
        assert!(error.contains("no-such.safetensors: "), "{error}");
    }
}

#[test]
fn failures_are_documents_too() {
    let folder = Folder::empty();
    fs::write(folder.path("broken.safetensors"), b"\x04\0\0\0\0\0\0\0nope").unwrap();
    for (line, kind, code) in [
        ("parse no-such.safetensors --json", "io", 1),
        ("parse broken.safetensors --json", "parse", 1),
        ("inspect broken.safetensors --json --to int3", "usage", 2),
    ] {
        let run = folder.amn(line);
        assert_eq!((run.code, run.stdout.as_str()), (Some(code), ""), "{run:?}");
        let document: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
        assert_eq!((&document["schema"], &document["error"]["kind"]), (&1.into(), &kind.into()), "{line}");
        assert!(document["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[test]
fn a_truncated_file_is_refused_by_name() {
    let folder = Folder::with_model();
    let whole = fs::read(folder.path(MODEL)).unwrap();
    for length in [0, 4, 8, 100, whole.len() - 1] {
        fs::write(folder.path(MODEL), &whole[..length]).unwrap();
        for command in ["parse", "inspect", "remember"] {
            let error = folder.amn(&format!("{command} {MODEL}")).failed();
            assert!(error.contains(MODEL), "{length} bytes: {error}");
        }
    }
    assert_eq!(folder.names(), ["config.json", MODEL]);
}

#[test]
fn a_file_of_another_kind_is_identified() {
    let folder = Folder::empty();
    fs::write(folder.path("notes.txt"), "these are no tensors").unwrap();
    let error = folder.amn("inspect notes.txt").failed();
    assert!(error.contains("notes.txt does not look like a safetensors file"), "{error}");
}

#[test]
fn control_characters_of_names_are_escaped() {
    let folder = Folder::empty();
    folder.add_sparse("evil.safetensors", "F32", &["a\u{1b}[2J\u{202e}b"], 0);
    for line in ["parse evil.safetensors -l", "remember evil.safetensors --dry-run"] {
        let text = folder.amn(line).ok();
        assert!(text.contains("a\\u{1b}[2J\\u{202e}b"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn devices_are_refused() {
    assert!(Folder::empty().amn("parse /dev/zero").failed().contains("is not a regular file"));
}
