//! Checkpoints of very many weights and patterns: time grows with the sum of both, not with the product.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::folder::Folder;

const WEIGHTS: usize = 60_000;
/// Far more than needed in a debug build, far less than comparing every weight with every pattern.
const PATIENCE: Duration = Duration::from_secs(150);

/// A file of [`WEIGHTS`] weights of one value each, `w0`, `w1`, …
fn folder() -> Folder {
    let entry = |index: usize| {
        let value = json!({"dtype": "F32", "shape": [1, 1], "data_offsets": [4 * index, 4 * index + 4]});
        (format!("w{index}.weight"), value)
    };
    let header = Value::Object((0..WEIGHTS).map(entry).collect()).to_string();
    let folder = Folder::empty();
    let values = vec![0; 4 * WEIGHTS];
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat();
    fs::write(folder.path("model.safetensors"), file).unwrap();
    folder
}

#[test]
fn as_many_ignored_modules_as_weights_are_fast() {
    let folder = folder();
    let ignored: Vec<_> = (0..WEIGHTS + 1000).map(|index| format!("w{index}")).collect();
    let weights = json!({"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": true});
    let config = json!({"quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "ignore": ignored,
        "config_groups": {"all": {"targets": ["Linear"], "weights": weights}},
    }});
    fs::write(folder.path("config.json"), config.to_string()).unwrap();
    let started = Instant::now();
    let document = folder.amn("remember . -o out --json").json();
    assert_eq!(document["copied"], WEIGHTS);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn as_many_patterns_as_weights_are_fast() {
    let folder = folder();
    let started = Instant::now();
    // As many as fit on a command line on every system.
    let names = |from: usize| (from..from + 10_000).map(|index| format!("--include=w{index}.weight"));
    let mut command = folder.command("remember model.safetensors -o out.safetensors --json");
    let run = crate::folder::Run::of(command.args(names(50_000)).output().unwrap());
    assert_eq!(run.json()["copied"], 10_000);
    let mut command = folder.command("inspect model.safetensors");
    let run = crate::folder::Run::of(command.args(names(50_001)).output().unwrap());
    assert!(run.code == Some(2) && run.stderr.contains("no tensor matches the pattern \"w60000.weight\""), "{run:?}");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}
