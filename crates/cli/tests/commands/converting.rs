//! `convert` and `forget`.

use std::fs;

use anamnesis::{Checkpoint, ParseLimits, parse_gguf};
use serde_json::json;

use crate::checkpoint::{self, NAME};
use crate::folder::{Folder, MODEL};

/// A file with a linear layer, an embedding, a norm and a mask.
fn plain() -> Folder {
    let folder = Folder::empty();
    let tensors = [("embed.weight", 4 * 64), ("layer.weight", 8 * 64), ("norm.weight", 16)];
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    header.insert("__metadata__".into(), json!({"format": "pt"}));
    for (name, values) in tensors {
        let start = data.len();
        data.extend((0..values).flat_map(|index| ((index as f32) * 0.7).sin().to_le_bytes()));
        let shape = if values > 64 { vec![values / 64, 64] } else { vec![values] };
        header.insert(name.into(), json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
    }
    let start = data.len();
    data.extend([0, 1]);
    header.insert("mask".into(), json!({"dtype": "BOOL", "shape": [2], "data_offsets": [start, data.len()]}));
    let header = serde_json::Value::Object(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    fs::write(folder.path("model.safetensors"), file).unwrap();
    folder
}

#[test]
fn a_conversion_prints_a_summary() {
    let folder = Folder::with_model();
    let wanted = "\
Converting model-fp8.safetensors -> model-gguf.gguf
  1 dequantized to BF16
  Note: one metadata entry of the input is not kept
  Note: llama.cpp will not load the output: it has no general.architecture
  Size: 1.29 KB -> 2.08 KB
  Wrote 2 tensors -> model-gguf.gguf
";
    assert_eq!(folder.amn(&format!("convert {MODEL} --to gguf")).ok(), wanted);
    assert_eq!(parse_gguf(folder.path("model-gguf.gguf")).unwrap().len(), 2);
    let wanted = "\
Converting model-fp8.safetensors -> model-f32.safetensors
  1 dequantized to F32
  Size: 1.29 KB -> 3.92 KB
  Wrote 2 tensors -> model-f32.safetensors
";
    assert_eq!(folder.amn(&format!("convert {MODEL} --to safetensors --out-dtype f32")).ok(), wanted);
    folder.amn(&format!("remember {MODEL} --to f32 -o same.safetensors")).ok();
    let bytes = |name: &str| fs::read(folder.path(name)).unwrap();
    assert!(bytes("model-f32.safetensors") == bytes("same.safetensors"));
    let run = folder.amn(&format!("convert {MODEL} --to npz")).ok();
    assert!(run.ends_with("  Wrote 2 tensors -> model-npz.npz\n"), "{run}");
}

#[test]
fn quantising_prints_the_error() {
    let folder = plain();
    let text = folder.amn("forget model.safetensors --to nf4").ok();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "Converting model.safetensors -> model-bnb-nf4.safetensors");
    assert_eq!(lines[1], "  1 quantized to NF4, 3 passed through");
    assert_eq!(
        lines[2..5],
        ["  1 not quantized: an embedding", "  1 not quantized: not a matrix", "  Size: 3.45 KB -> 2.09 KB"]
    );
    assert!(lines[5].starts_with("  Lethe distance: "), "{text}");
    assert_eq!(lines[6], "  Wrote 4 tensors -> model-bnb-nf4.safetensors");
    let document = folder.amn("quantize model.safetensors --to bnb-int8 --report --json").json();
    assert_eq!((&document["command"], &document["quantized"]), (&json!("forget"), &json!(1)));
    let error = &document["errors"][0];
    assert_eq!((&error["name"], &error["values"]), (&json!("layer.weight"), &json!(512)));
    assert!(error["sqnr_db"].as_f64().unwrap() > 30.0 && document["lethe_distance"].as_f64().unwrap() > 0.0);
    let all = folder.amn("forget model.safetensors --to fp4 --include *.weight --report -o all.safetensors").ok();
    assert!(all.contains("  2 quantized to FP4, 2 passed through") && all.contains("COSINE"), "{all}");
    let none = "forget model.safetensors --to fp4 --exclude layer.* -o none.safetensors";
    let error = folder.amn(none).refused();
    let why = "no weight would be quantised (1 an embedding, 1 kept as asked, 1 not a matrix); --allow-empty";
    assert!(error.contains(why), "{error}");
    let none = folder.amn(&format!("{none} --allow-empty")).ok();
    assert!(none.contains("  0 quantized to FP4, 4 passed through"), "{none}");
    // Quantised weights are decoded first, with a note.
    let again = folder.amn("forget model-bnb-nf4.safetensors --to int8 -o again.safetensors").ok();
    assert!(again.contains("  1 dequantized to BF16\n  1 quantized to INT8"), "{again}");
}

#[test]
fn a_dry_run_shows_what_is_quantised_and_why_the_rest_is_not() {
    let folder = plain();
    let text = folder.amn("forget model.safetensors --to nf4 --dry-run").ok();
    for line in ["BitsAndBytes NF4, blocks of 64", "1 not quantized: an embedding", "1 not quantized: not a matrix"] {
        assert!(text.contains(line), "{line} is missing in:\n{text}");
    }
    assert!(text.contains("Would write 4 tensors -> model-bnb-nf4.safetensors"), "{text}");
    assert_eq!(folder.names(), ["model.safetensors"]);
    let document = folder.amn("forget model.safetensors --to nf4 --dry-run --json").json();
    assert_eq!(document["kept_weights"].as_array().unwrap().len(), 2);
}

#[test]
fn impossible_conversions_are_refused_without_output() {
    let folder = plain();
    let failed = |line: &str, words: &[&str]| {
        let text = folder.amn(line).refused();
        for word in words {
            assert!(text.contains(word), "{word} is missing in: {text}");
        }
    };
    failed("convert model.safetensors --to gguf-q9", &["supported convert targets", "safetensors, gguf, npz, bnb-nf4"]);
    failed("convert model.safetensors --to gguf", &["\"mask\" (BOOL [2])", "--exclude"]);
    failed("convert model.safetensors --to npz --rename s/.*/x/", &["would both be named \"x\""]);
    failed("convert model.safetensors --to npz --include nothing", &["no tensor matches", "nothing"]);
    failed("convert model.safetensors --to npz --rename nonsense", &["s/EXPRESSION/REPLACEMENT/"]);
    failed("convert model.safetensors --to gguf --exclude mask --gguf-kv novalue", &["--gguf-kv", "key=value"]);
    for wrong in ["--to gguf --gguf-kv novalue", "--to npz --rename x", "--to npz --include [", "--to q9", "-o out"] {
        assert_eq!(folder.amn(&format!("convert model.safetensors {wrong}")).code, Some(2), "{wrong}");
    }
    failed("convert model.safetensors --to safetensors -o model.safetensors --force", &["the input itself"]);
    failed("forget model.safetensors --to gguf", &["does not quantise", "bnb-nf4"]);
    failed("forget model.safetensors --to nf4 --block-size 65", &["blocks of 65"]);
    assert_eq!(folder.names(), ["model.safetensors"]);
    folder.amn("convert model.safetensors --to safetensors").ok();
    failed("convert model.safetensors --to safetensors", &["exists already", "--force"]);
    let usage = folder.amn("convert model.safetensors --to npz --gguf-kv a=b");
    assert_eq!(usage.code, Some(2), "{usage:?}");
    let usage = folder.amn("convert model.safetensors --to gguf --shard-size 1GB");
    assert_eq!(usage.code, Some(2), "{usage:?}");
}

#[test]
fn nonfinite_values_are_reported_with_their_position() {
    let folder = plain();
    let mut bytes = fs::read(folder.path("model.safetensors")).unwrap();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let place = data + (4 * 64 + 70) * 4;
    bytes[place..place + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    fs::write(folder.path("model.safetensors"), bytes).unwrap();
    let text = folder.amn("forget model.safetensors --to nf4").failed();
    assert!(text.contains("\"layer.weight\": value 70 is inf") && text.contains("--exclude"), "{text}");
    assert_eq!(folder.names(), ["model.safetensors"]);
    let text = folder.amn("forget model.safetensors --to nf4 --allow-nonfinite").ok();
    assert!(text.contains("  Note: one NaN or infinity was replaced\n"), "{text}");
}

#[test]
fn selections_match_the_names_of_weights() {
    let folder = plain();
    assert!(
        folder
            .amn("parse model.safetensors --include *.weight --exclude embed*")
            .ok()
            .starts_with("2 tensors parsed\n")
    );
    let fp8 = Folder::with_model();
    let info = fp8.amn(&format!("inspect {MODEL} --include *.weight --json")).json();
    // The companion is included, though its own name does not match.
    assert_eq!((&info["quantized"], &info["scales"]), (&json!(1), &json!(1)));
    assert!(folder.amn("parse model.safetensors --include none").refused().contains("no tensor matches"));
    // A part of a set is no broken set.
    let set = checkpoint::folder();
    let document = set.amn(&format!("inspect {NAME} --exclude *norm* --json")).json();
    assert_eq!(document["problems"], json!([]));
}

#[test]
fn metadata_options_are_applied_and_dropped_entries_are_noted() {
    let folder = plain();
    fs::write(folder.path("kv.json"), r#"{"a.count": 3, "a.name": "from file"}"#).unwrap();
    let line = "convert model.safetensors --to gguf --exclude mask --gguf-metadata kv.json --gguf-kv a.name=typed";
    let text = folder.amn(line).ok();
    assert!(text.contains("  Note: one metadata entry of the input is not kept\n"), "{text}");
    let file = parse_gguf(folder.path("model-gguf.gguf")).unwrap();
    assert_eq!(file.metadata()["a.count"].as_u32(), Some(3));
    assert_eq!(file.metadata()["a.name"].as_string(), Some("typed"));
    folder.amn("convert model-gguf.gguf --to gguf --gguf-remove-kv a.count -o less.gguf").ok();
    assert!(!parse_gguf(folder.path("less.gguf")).unwrap().metadata().contains_key("a.count"));
}

#[test]
fn a_directory_becomes_a_quantised_directory_or_one_file() {
    let folder = checkpoint::folder();
    let text = folder.amn(&format!("forget {NAME} --to nf4 -o quantised")).ok();
    assert!(
        text.contains("dequantized to BF16") && text.contains("config.json: set torch_dtype, quantization_config"),
        "{text}"
    );
    let config: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path("quantised/config.json")).unwrap()).unwrap();
    assert_eq!(config["quantization_config"]["bnb_4bit_quant_type"], "nf4");
    assert!(folder.amn("verify quantised").ok().ends_with("sound\n"));
    let again = folder.amn(&format!("forget {NAME} --to nf4 -o quantised")).ok();
    assert!(again.contains("0 shards written, 1 kept from an earlier run"), "{again}");
    let other = folder.amn(&format!("forget {NAME} --to fp4 -o quantised")).failed();
    assert!(other.contains("is not empty"), "{other}");
    folder.amn(&format!("convert {NAME} --to gguf --keep-names -o model.gguf")).ok();
    assert!(Checkpoint::open(folder.path("model.gguf"), &ParseLimits::default()).unwrap().directory().is_none());
    let chosen = folder.amn(&format!("remember {NAME} --include *norm* -o chosen --dry-run --json")).json();
    let names: Vec<_> = chosen["tensors"].as_array().unwrap().iter().map(|tensor| tensor["name"].clone()).collect();
    assert!(!names.is_empty() && names.iter().all(|name| name.as_str().unwrap().contains("norm")), "{names:?}");
}
