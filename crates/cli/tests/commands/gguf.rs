//! GGUF files, and models of a local Ollama store.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::folder::{Folder, Run};

/// A folder with `model.gguf`, of several types and with metadata of every type.
fn folder() -> Folder {
    let folder = Folder::empty();
    fs::copy(fixture("several_types.gguf"), folder.path("model.gguf")).unwrap();
    folder
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../anamnesis/tests/fixtures/gguf").join(name)
}

#[test]
fn parse_lists_what_the_file_holds_in_its_own_order() {
    let wanted = "\
Parsed model.gguf (GGUF v3)
  Arch:       llama
  Tensors:    7
  Total size: 1.78 KB
  Dtypes:     Q6_K, Q4_K, Q8_0, IQ4_NL, MXFP4, F32, F16
  Alignment:  32 bytes

  token_embd.weight                        Q6_K [256, 4]        840 B
  blk.0.attn_q.weight                      Q4_K [256, 2]        288 B
  blk.0.attn_v.weight                      Q8_0 [64, 3]         204 B
  blk.0.ffn_up.weight                      IQ4_NL [96, 2]         108 B
  blk.0.ffn_gate_exps.weight               MXFP4 [32, 3, 2]      102 B
  blk.0.attn_norm.weight                   F32 [40]            160 B
  blk.0.half.weight                        F16 [8, 5]          80 B
";
    assert_eq!(folder().amn("parse model.gguf").ok(), wanted);
    let listed = folder().amn("parse model.gguf --list").ok();
    assert!(listed.contains("\nblk.0.ffn_gate_exps.weight  MXFP4   [32, 3, 2]  quantized    102 B\n"), "{listed}");
}

#[test]
fn inspect_prints_format_and_sizes() {
    let wanted = "\
Format:      GGUF v3
Arch:        llama
Tensors:     7
Total size:  1.78 KB
Dequantized: 4.46 KB (BF16)
Dtypes:      Q6_K, Q4_K, Q8_0, IQ4_NL, MXFP4, F32, F16
Alignment:   32 bytes
";
    let folder = folder();
    let text = folder.amn("inspect model.gguf").ok();
    assert!(text.starts_with(wanted), "{text}");
    assert!(folder.amn("inspect model.gguf --to f32").ok().contains("Dequantized: 8.69 KB (F32)"));
    // A directory with one model is treated like that model.
    let text = folder.amn("inspect .").ok();
    assert!(text.starts_with(wanted), "{text}");
}

#[test]
fn remember_writes_a_file_of_the_same_name() {
    let folder = folder();
    let wanted = "\
Converting model.gguf → model.safetensors
  7 tensors
  Note: 19 metadata entries of the input are not kept
  Size: 3.07 KB -> 5.04 KB
  5 dequantized to BF16, 2 passed through
  Output: model.safetensors
";
    assert_eq!(folder.amn("remember model.gguf").ok(), wanted);
    let listed = folder.amn("parse --list model.safetensors").ok();
    assert!(listed.contains("blk.0.ffn_gate_exps.weight  BF16   [2, 3, 32]"), "{listed}");
    let first = fs::read(folder.path("model.safetensors")).unwrap();
    assert!(folder.amn("remember model.gguf").failed().contains("exists already; --force replaces it"));
    folder.amn("remember model.gguf --to safetensors --force").ok();
    assert!(fs::read(folder.path("model.safetensors")).unwrap() == first);
    let error = folder.amn("remember model.safetensors --to safetensors").refused();
    assert!(error.contains("bf16, f16 and f32"), "{error}");
    // A directory with one model is converted next to that model.
    fs::remove_file(folder.path("model.safetensors")).unwrap();
    assert!(folder.amn("parse .").ok().starts_with("Parsed model.gguf (GGUF v3)\n"));
    assert!(folder.amn("remember . --to f32").ok().starts_with("Converting model.gguf → model.safetensors\n"));
    assert_eq!(folder.names(), ["model.gguf", "model.safetensors"]);
}

#[test]
fn json_documents_are_those_of_every_format() {
    let folder = folder();
    let parsed = folder.amn("parse model.gguf --json --list").json();
    assert_eq!((&parsed["format"], &parsed["quantized"]), (&"gguf".into(), &5.into()));
    assert_eq!(parsed["facts"], json!({"title": "GGUF v3", "arch": "llama", "alignment": "32 bytes"}));
    assert_eq!(parsed["tensors"].as_array().map(Vec::len), Some(7));
    // Shapes are row major, as in every document.
    let gate = parsed["tensors"].as_array().unwrap().iter().find(|tensor| tensor["dtype"] == "MXFP4").unwrap();
    assert_eq!(gate["shape"], json!([2, 3, 32]));
    let inspected = folder.amn("inspect model.gguf --json").json();
    assert_eq!((&inspected["decoded_bytes"], inspected.get("metadata")), (&4464.into(), None));
}

#[test]
fn metadata_is_listed_with_types() {
    let folder = folder();
    let text = folder.amn("inspect --metadata model.gguf").ok();
    for line in [
        "KEY                   TYPE       VALUE",
        "general.architecture  string     llama",
        "test.float32          f32        0.1",
        "test.string           string     naïve “text”\\u{a}",
        "test.uint64           u64        18446744073709551615",
        "test.array.string     string[3]  [\"one\", \"\", \"three\"]",
        "test.array.array      array[2]   [[1, 2], [3]]",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert_eq!(folder.amn("inspect model.gguf --metadata test.string").ok(), "naïve “text”\n");
    assert_eq!(folder.amn("inspect model.gguf --metadata test.array.bool").ok(), "true\nfalse\n");
    let error = folder.amn("inspect model.gguf --metadata test.sting").refused();
    assert!(error.contains("no metadata key \"test.sting\"; did you mean test.string"), "{error}");
    assert!(folder.amn("inspect model.gguf --metadata qqq").refused().contains("--metadata alone lists all 19"));
    // An unknown key is a usage error, as for `--gguf-remove-kv`.
    for line in ["inspect model.gguf --metadata qqq", "convert model.gguf --to gguf -o x.gguf --gguf-remove-kv qqq"] {
        assert_eq!(folder.amn(line).code, Some(2), "{line}");
    }
    // A key alone makes no sense.
    assert_eq!(folder.amn("inspect model.gguf test.string").code, Some(2));
}

#[test]
fn metadata_is_a_document_with_types() {
    let folder = folder();
    let metadata = &folder.amn("inspect model.gguf --metadata --json").json()["metadata"];
    assert_eq!(metadata.as_object().map(serde_json::Map::len), Some(19));
    assert_eq!(metadata["test.uint8"], json!({"type": "u8", "value": 255}));
    assert_eq!(metadata["test.float32"]["value"].as_f64(), Some(f64::from(0.1f32)));
    assert_eq!(metadata["test.array.float32"], json!({"type": "array", "item_type": "f32", "value": [0.5, -0.25]}));
    let one = &folder.amn("inspect model.gguf --json --metadata test.bool").json()["metadata"];
    assert_eq!(*one, json!({"test.bool": {"type": "bool", "value": true}}));
    // Safetensors metadata is listed too.
    let model = Folder::with_model();
    assert_eq!(model.amn("inspect model-fp8.safetensors --metadata format").ok(), "pt\n");
    folder.amn("remember model.gguf").ok();
    assert_eq!(folder.amn("inspect model.safetensors --metadata").ok(), "no metadata\n");
    assert_eq!(folder.amn("inspect model.safetensors --metadata --json").json()["metadata"], json!({}));
}

#[test]
fn big_endian_files_are_marked_and_decoded_alike() {
    let folder = Folder::empty();
    fs::copy(fixture("big_endian.gguf"), folder.path("big.gguf")).unwrap();
    assert!(folder.amn("parse big.gguf").ok().contains("  Byte order: big-endian\n"));
    assert!(folder.amn("inspect big.gguf").ok().contains("\nByte order:  big-endian\n"));
    assert!(folder.amn("remember big.gguf").ok().contains("  22 dequantized to BF16, 8 passed through\n"));
}

#[test]
fn broken_files_are_refused_by_name() {
    let folder = folder();
    let whole = fs::read(folder.path("model.gguf")).unwrap();
    for length in [0, 3, 4, 30, 500, whole.len() - 100] {
        fs::write(folder.path("model.gguf"), &whole[..length]).unwrap();
        for command in ["parse", "inspect", "inspect --metadata", "remember"] {
            let error = folder.amn(&format!("{command} model.gguf")).failed();
            assert!(error.contains("model.gguf"), "{length} bytes, {command}: {error}");
        }
    }
    assert_eq!(folder.names(), ["model.gguf"]);
}

#[test]
fn a_directory_with_several_models_lists_them() {
    let folder = folder();
    fs::copy(folder.path("model.gguf"), folder.path("other.gguf")).unwrap();
    let error = folder.amn("inspect .").failed();
    assert!(error.contains("(\"model.gguf\", \"other.gguf\"); name one"), "{error}");
}

/// A GGUF file of one F32 tensor, as one part of a model.
fn part(index: u16, count: u16) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let entry = |key: &str, value: u16| [&text(key)[..], &2u32.to_le_bytes(), &value.to_le_bytes()].concat();
    let numbers = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
    let tensor = [text(&format!("t{index}")), 1u32.to_le_bytes().to_vec(), numbers(&[4]), vec![0; 4], numbers(&[0])];
    let mut file = [b"GGUF\x03\0\0\0", &numbers(&[1, 2])[..]].concat();
    file.extend([entry("split.no", index), entry("split.count", count), tensor.concat()].concat());
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend([index as u8; 16]);
    file
}

#[test]
fn a_split_model_becomes_one_file() {
    let folder = Folder::empty();
    for index in 0..2 {
        fs::write(folder.path(&format!("m-0000{}-of-00002.gguf", index + 1)), part(index, 2)).unwrap();
    }
    // One part selects the whole model, unless it is requested alone.
    let part = "m-00002-of-00002.gguf";
    assert!(folder.amn(&format!("parse {part}")).ok().contains("  Tensors:    2\n"));
    assert!(folder.amn(&format!("parse {part} --only-this-file")).ok().contains("  Tensors:    1\n"));
    for path in [".", "m-00002-of-00002.gguf"] {
        let text = folder.amn(&format!("inspect {path}")).ok();
        assert!(text.contains("Tensors:     2\n") && text.contains("\nFiles:       2 (.)\n"), "{text}");
    }
    let text = folder.amn("remember m-00002-of-00002.gguf").ok();
    assert!(text.starts_with("Converting m-00002-of-00002.gguf → m.safetensors\n  2 tensors\n"), "{text}");
    assert!(folder.amn("parse m.safetensors").ok().starts_with("2 tensors parsed\n"));
    assert!(folder.amn("inspect m-00001-of-00002.gguf").ok().starts_with("Format:      GGUF v3\n"));
    folder.amn("remember m-00001-of-00002.gguf --shard-size 16 -o shards").ok();
    assert!(folder.path("shards/model.safetensors.index.json").is_file());
}

// Ollama

/// The SHA-256 of `several_types.gguf`.
const DIGITS: &str = "89b2714e883ee98ca3f76b5f2b54db3efb9c49d2f98b3d630b57829b88161bb0";

/// Adds a store with one model under these names.
fn store(folder: &Folder, names: &[&str]) {
    let blobs = folder.path("store/blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::copy(fixture("several_types.gguf"), blobs.join(format!("sha256-{DIGITS}"))).unwrap();
    let layer = json!({"mediaType": "application/vnd.ollama.image.model", "digest": format!("sha256:{DIGITS}")});
    for name in names {
        let path = folder.path("store/manifests").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, json!({"layers": [layer]}).to_string()).unwrap();
    }
}

fn with_store(folder: &Folder, line: &str) -> Run {
    Run::of(folder.command(line).env("OLLAMA_MODELS", folder.path("store")).output().unwrap())
}

#[test]
fn models_of_an_ollama_store_are_inputs() {
    let folder = Folder::empty();
    store(&folder, &["registry.ollama.ai/library/tiny/latest", "registry.ollama.ai/me/own/v1", "hf.co/org/model/Q4_K"]);
    let before = fs::read_dir(folder.path("store/blobs")).unwrap().count();
    let parsed = with_store(&folder, "parse ollama:tiny").ok();
    assert!(parsed.starts_with("Parsed ollama:tiny (GGUF v3)\n"), "{parsed}");
    assert!(with_store(&folder, "inspect ollama:me/own:v1").ok().starts_with("Format:      GGUF v3\n"));
    assert!(with_store(&folder, "verify ollama:hf.co/org/model:Q4_K").ok().ends_with("sound\n"));
    for (spec, output) in [("tiny", "tiny"), ("me/own:v1", "own-v1"), ("hf.co/org/model:Q4_K", "model-Q4_K")] {
        let text = with_store(&folder, &format!("remember ollama:{spec}")).ok();
        assert!(text.starts_with(&format!("Converting ollama:{spec} → {output}.safetensors\n")), "{text}");
        assert!(folder.path(&format!("{output}.safetensors")).is_file());
    }
    assert_eq!(fs::read_dir(folder.path("store/blobs")).unwrap().count(), before);
}

#[test]
fn names_that_an_ollama_store_does_not_have_are_refused() {
    let folder = Folder::empty();
    store(&folder, &["registry.ollama.ai/library/tiny/latest"]);
    let error = with_store(&folder, "inspect ollama:llama3:8b").failed();
    assert!(error.contains("ollama pull llama3:8b"), "{error}");
    for spec in ["ollama:", "ollama:../../tiny", "ollama:tiny:../latest", "ollama:a/b/c/d"] {
        let run = with_store(&folder, &format!("parse {spec} --json"));
        let document: Value = serde_json::from_str(&run.stderr).unwrap();
        assert_eq!((run.code, &document["error"]["kind"]), (Some(2), &"usage".into()), "{spec}");
    }
}

#[test]
fn a_model_is_split_into_files_and_opened_by_the_first() {
    let folder = folder();
    let printed = folder.amn("convert model.gguf --to gguf -o cut.gguf --split-max-tensors 3").ok();
    assert!(
        printed.ends_with("Wrote 7 tensors -> cut-00001-of-00003.gguf … cut-00003-of-00003.gguf (3 files)\n"),
        "{printed}"
    );
    let again = folder.amn("convert cut-00001-of-00003.gguf --to gguf -o whole.gguf").ok();
    assert!(again.contains("Wrote 7 tensors -> whole.gguf"), "{again}");
    folder.amn("convert model.gguf --to gguf -o once.gguf").ok();
    assert_eq!(fs::read(folder.path("whole.gguf")).unwrap(), fs::read(folder.path("once.gguf")).unwrap());
    let kept = folder.amn("convert cut-00001-of-00003.gguf --to gguf --keep-split -o kept.gguf").ok();
    assert!(kept.ends_with("(3 files)\n"), "{kept}");
    for number in 1..=3 {
        let read = |name: &str| fs::read(folder.path(&format!("{name}-0000{number}-of-00003.gguf"))).unwrap();
        assert_eq!(read("kept"), read("cut"), "{number}");
    }
}

#[test]
fn split_options_are_refused_where_they_do_not_apply() {
    let folder = folder();
    for (line, words) in [
        ("convert model.gguf --to npz --split-max-size 1G", "--split-max-size does not apply to the target npz"),
        ("forget model.gguf --to bnb-nf4 --keep-split", "--keep-split does not apply to the target bnb-nf4"),
        ("convert model.gguf --to gguf --keep-split --split-max-size 1G", "cannot be used with"),
        ("convert model.gguf --to gguf --split-max-tensors 0", "write a number from 1 on"),
        ("convert model.gguf --to gguf --split-max-size 0", "a size is a number of bytes"),
        ("convert model.gguf --to gguf --split-max-tensors 1 -o -", "not into one stream"),
    ] {
        let run = folder.amn(line);
        assert!(run.code == Some(2) && run.stderr.contains(words), "{line}: {run:?}");
    }
}
