//! The output of `inspect` and `parse` for unsupported weights, and the evidence for supported ones.

use std::fs;

use serde_json::{Value, json};

use crate::folder::Folder;
use crate::samples;

/// A safetensors file of zeros.
fn zeros(tensors: &[(&str, &str, &[usize], usize)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, dtype, shape, bytes) in tensors {
        header.insert((*name).into(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [end, end + bytes] }));
        end += bytes;
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; end]].concat()
}

#[test]
fn a_refused_format_is_named_and_its_decoded_size_is_unknown() {
    let folder = Folder::empty();
    let model = zeros(&[
        ("a.trellis", "I16", &[1, 1, 32], 64),
        ("a.suh", "F16", &[4], 8),
        ("a.svh", "F16", &[4], 8),
        ("norm.weight", "F32", &[4], 16),
    ]);
    fs::write(folder.path("exl3.safetensors"), model).unwrap();
    let text = folder.amn("inspect exl3.safetensors").ok();
    let wanted = "\
Format:      EXL3 (not decoded)
Quantized:   1 tensors (weights) + 2 scale tensors (F16)
Passthrough: 1 tensors (norms, embeddings)
Size:        96 B (EXL3) -> unknown (BF16)
Problems:    ";
    assert!(text.starts_with(wanted), "{text}");
    let document = folder.amn("inspect exl3.safetensors --json").json();
    assert_eq!((&document["scheme"], &document["decoded_bytes"]), (&"EXL3 (not decoded)".into(), &Value::Null));
    assert_eq!(document["undecoded"], 1);
    let text = folder.amn("parse exl3.safetensors").ok();
    assert!(text.contains("  1 quantized   EXL3 (not decoded)\n"), "{text}");
    assert_eq!(folder.amn("parse exl3.safetensors --json").json()["scheme"], "EXL3 (not decoded)");
}

#[test]
fn an_incomplete_weight_of_a_known_scheme_is_not_plain() {
    let folder = Folder::empty();
    fs::write(folder.path("cut.safetensors"), zeros(&[("a.qweight", "I32", &[8, 8], 256)])).unwrap();
    let document = folder.amn("inspect cut.safetensors --json").json();
    assert_ne!(document["scheme"], "Unquantized", "{document}");
    assert_eq!(document["decoded_bytes"], Value::Null);
}

#[test]
fn bits_groups_and_evidence_are_listed_per_scheme() {
    let folder = samples::folder();
    let text = folder.amn("inspect Tiny-GPTQ").ok();
    let line = "Decided by:  1 × GPTQ 4-bit, groups of 16: config.json: quantization_config.quant_method\n";
    assert!(text.contains(line), "{text}");
    let scheme = &folder.amn("inspect Tiny-GPTQ --json").json()["schemes"][0];
    assert_eq!((&scheme["bits"], &scheme["group_size"], &scheme["format"]), (&4.into(), &16.into(), &"gptq".into()));
    let scheme = &folder.amn("inspect Tiny-NF4 --json").json()["schemes"][0];
    assert_eq!((&scheme["format"], &scheme["evidence"]), (&"NF4".into(), &"names, types and shapes".into()));
    let scheme = &folder.amn("inspect model-fp8.safetensors --json").json()["schemes"][0];
    assert_eq!((&scheme["format"], &scheme["block_shape"]), (&"E4M3".into(), &json!([128, 128])));
    let schemes = folder.amn("inspect model.gguf --json").json()["schemes"].clone();
    assert!(schemes.as_array().unwrap().iter().all(|scheme| scheme["evidence"] == "types"), "{schemes}");
}
