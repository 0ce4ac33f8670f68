//! The summary of an output: its type, losses and sizes.

use std::fs;

use serde_json::{Value, json};

use crate::checkpoint::{self, INDEX, NAME, Tensor, safetensors, shard_name};
use crate::folder::Folder;

/// A directory with one plain BF16 tensor and its configuration.
fn plain_bf16() -> Folder {
    let folder = Folder::empty();
    let directory = folder.path("plain");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("model.safetensors"), safetensors(&[Tensor::bf16("norm.weight", 64)])).unwrap();
    fs::write(directory.join("config.json"), "{\"torch_dtype\": \"bfloat16\"}\n").unwrap();
    folder
}

fn config(folder: &Folder, path: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.path(path)).unwrap()).unwrap()
}

#[test]
fn the_configuration_names_the_type_of_the_tensors() {
    let folder = plain_bf16();
    let text = folder.amn("remember plain --to f32 -o kept").ok();
    assert!(text.contains("  Note: nothing to decode; --cast all converts plain tensors\n"), "{text}");
    assert_eq!(config(&folder, "kept/config.json"), json!({ "torch_dtype": "bfloat16" }));
    let text = folder.amn("remember plain --to f32 --cast all -o cast").ok();
    assert!(!text.contains("nothing to decode"), "{text}");
    assert_eq!(config(&folder, "cast/config.json"), json!({ "torch_dtype": "float32" }));
    assert!(folder.amn("parse cast --list").ok().contains("norm.weight  F32"));
    let document = folder.amn("remember plain/model.safetensors --to f32 --json").json();
    assert_eq!(document["notes"], json!(["nothing to decode; --cast all converts plain tensors"]));
    folder.amn("convert plain --to safetensors --out-dtype f16 -o converted").ok();
    assert_eq!(config(&folder, "converted/config.json"), json!({ "torch_dtype": "bfloat16" }));
}

#[test]
fn a_matrix_is_quantised_regardless_of_its_name() {
    let folder = Folder::empty();
    let names = ["linear", "W_enc", "encoder.w", "wte.weight", "lm_head.weight", "final_norm.weight"];
    let tensors = names.map(|name| Tensor::f32(name, [2, 64], 0.5));
    fs::write(folder.path("m.safetensors"), safetensors(&tensors)).unwrap();
    let document = folder.amn("forget m.safetensors --to nf4 --json").json();
    assert_eq!((&document["quantized"], &document["passthrough"]), (&json!(3), &json!(3)));
    let wanted = json!({ "an embedding": 1, "the head of the model": 1, "a norm": 1 });
    assert_eq!(document["kept_by_reason"], wanted);
    assert_eq!(document["kept_weights"].as_array().unwrap().len(), 3);
    assert!(document["notes"][0].as_str().unwrap().contains("is written as"), "{document}");
    let verbose = folder.amn("forget m.safetensors --to nf4 --force -v");
    assert!(verbose.stderr.contains("final_norm.weight: not quantized, a norm\n"), "{verbose:?}");
    // The reverse.
    folder.amn("remember m-bnb-nf4.safetensors --to f32 -o back.safetensors").ok();
    assert!(folder.amn("parse back.safetensors --list").ok().contains("W_enc.weight"));
    // An existing name is not reused.
    let twice = ["linear", "linear.weight"].map(|name| Tensor::f32(name, [2, 64], 0.5));
    fs::write(folder.path("twice.safetensors"), safetensors(&twice)).unwrap();
    let error = folder.amn("forget twice.safetensors --to nf4").refused();
    assert!(error.contains("would both be named \"linear.weight\""), "{error}");
}

#[test]
fn values_beyond_f16_are_counted_whatever_the_number_of_threads() {
    let folder = Folder::empty();
    let tensors = [
        Tensor::f32("large", [700, 1000], 1e5),
        Tensor::f32("endless", [3, 3], f32::INFINITY),
        Tensor::f32("small", [3, 3], 65504.0),
    ];
    fs::write(folder.path("m.safetensors"), safetensors(&tensors)).unwrap();
    for threads in [1, 4] {
        let line = format!("remember m.safetensors --to f16 --cast all --force --threads {threads}");
        let text = folder.amn(&line).ok();
        let wanted = "  Note: 700000 finite values are infinite in the output: the maximum of F16 is 65504\n";
        assert!(text.contains(wanted), "{text}");
        assert_eq!(folder.amn(&format!("{line} --json")).json()["overflowed_values"], 700_000);
    }
    let line = "convert m.safetensors --to npz --out-dtype bf16 --cast all --json";
    assert_eq!(folder.amn(line).json()["overflowed_values"], 0);
}

#[test]
fn deselected_tensors_are_counted() {
    let folder = checkpoint::folder();
    let line = format!("remember {NAME} --exclude *norm* --dry-run");
    let text = folder.amn(&line).ok();
    assert!(text.contains("  Note: one tensor of the input is left out by the selection\n"), "{text}");
    assert_eq!(folder.amn(&format!("{line} --json")).json()["left_out"], 1);
    let document = folder.amn(&format!("convert {NAME} -o one.gguf --keep-names --include *.0.* --json")).json();
    let notes = json!([
        "one metadata entry of the input is not kept",
        "6 tensors of the input are left out by the selection",
        "llama.cpp will not load the output: it has no general.architecture",
        "2 sidecar files of the input are not part of the output",
    ]);
    let notes: Vec<_> = notes.as_array().unwrap()[1..].to_vec();
    assert_eq!((&document["left_out"], &document["notes"]), (&json!(6), &json!(notes)));
}

#[test]
fn sizes_before_and_after_are_printed() {
    let folder = checkpoint::folder();
    let shards = [1, 2].map(|number| fs::metadata(folder.path(NAME).join(shard_name(number, 2))).unwrap().len());
    let read: u64 = shards.iter().sum();
    for line in ["remember", "convert --to npz", "forget --to nf4"] {
        let document = folder.amn(&format!("{line} {NAME} --json")).json();
        assert_eq!(document["input_bytes"], read, "{line}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_does_not_fit_the_disk_is_refused_before_it_is_written() {
    let folder = Folder::empty();
    folder.add_sparse("huge.safetensors", "F8_E4M3", &["a", "b"], 1 << 40);
    let plan = folder.amn("convert huge.safetensors --to npz --dry-run").ok();
    assert!(plan.contains("Memory: about ") && plan.contains("needed, only "), "{plan}");
    let error = folder.amn("convert huge.safetensors --to npz").failed();
    assert!(error.contains("bytes are needed, ") && error.contains("nothing was left behind"), "{error}");
    assert_eq!(folder.names(), ["huge.safetensors"]);
}

#[test]
fn the_name_of_an_output_and_what_is_written_agree() {
    let folder = checkpoint::folder();
    // A file name selects a single file, even for a directory.
    let text = folder.amn(&format!("remember {NAME} -o whole.safetensors")).ok();
    assert!(folder.path("whole.safetensors").is_file(), "{text}");
    assert!(text.contains("  Note: 2 sidecar files of the input are not part of the output\n"), "{text}");
    folder.amn(&format!("convert {NAME} --to bf16 -o too.safetensors")).ok();
    let [one, two] = ["whole", "too"].map(|name| fs::read(folder.path(&format!("{name}.safetensors"))).unwrap());
    assert!(one == two);
    for line in [
        format!("convert {NAME} --to gguf -o out.safetensors"),
        format!("convert {NAME}/{INDEX} --to nf4 -o out.npz"),
        format!("remember {NAME} -o out.gguf"),
        format!("remember {NAME} -o out.safetensors --shard-size 1G --force"),
        format!("convert {NAME} -o out.any"),
        format!("convert {NAME}"),
    ] {
        let run = folder.amn(&line);
        assert_eq!(run.code, Some(2), "{line}: {run:?}");
    }
    assert!(!folder.names().iter().any(|name| name.starts_with("out")), "{:?}", folder.names());
    let text = folder.amn(&format!("convert {NAME} -o inferred.npz")).ok();
    assert!(text.starts_with(&format!("Converting {NAME} -> inferred.npz\n")), "{text}");
    assert!(folder.amn("parse inferred.npz").ok().contains("NPZ"));
}

#[test]
fn a_gguf_file_has_the_parameters_and_the_cache_of_its_source() {
    let folder = crate::samples::folder();
    folder.amn("convert Tiny-Llama --to gguf -o m.gguf").ok();
    let [source, file] =
        ["Tiny-Llama", "m.gguf"].map(|path| folder.amn(&format!("inspect {path} --context 100 --json")).json());
    assert_eq!(source["parameters"]["total"], file["parameters"]["total"]);
    assert_eq!(source["memory"]["cache"]["bytes"], file["memory"]["cache"]["bytes"]);
    assert_eq!(file["memory"]["cache"]["dtype"], "F16");
    for key in ["layers", "hidden", "heads", "kv_heads", "context", "vocabulary"] {
        assert_eq!(source["model"][key], file["model"][key], "{key}");
    }
}
