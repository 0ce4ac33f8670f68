//! Weights whose codes and scales GGUF has as blocks go there without being decoded.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use anamnesis::{BlockType, Checkpoint, ConvertOptions, ConvertTarget, Dtype, ParseLimits};
use serde_json::Value;
use support::{Folder, fixture};

/// A fixture as a model, and the same as GGUF.
fn converted(case: &str, options: &ConvertOptions) -> (Checkpoint, Checkpoint, usize) {
    let config = std::fs::read(fixture(&format!("{case}.config.json"))).ok();
    let config = config.map(|text| serde_json::from_slice::<Value>(&text).unwrap());
    let folder = Folder::staged(&std::fs::read(fixture(&format!("{case}.safetensors"))).unwrap(), config.as_ref());
    let limits = ParseLimits::default();
    let before = Checkpoint::open(folder.model(), &limits).unwrap();
    let plan = before.plan_convert(ConvertTarget::Gguf, options).unwrap();
    let repacked = plan.stats().repacked;
    let (bytes, _) = plan.to_bytes(|_| {}).unwrap_or_else(|error| panic!("{case}: {error}"));
    (before, Checkpoint::from_bytes(bytes, &limits).unwrap(), repacked)
}

/// The values of a weight, zeros without their sign: blocks of ggml have no negative zero.
fn values(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    checkpoint.decode::<f32>(name).unwrap().into_iter().map(|value| if value == 0.0 { 0.0 } else { value }).collect()
}

/// A matrix of each expert with rows and columns exchanged.
fn turned(values: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    let matrix = |matrix: &[f32]| -> Vec<f32> {
        (0..cols).flat_map(|col| (0..rows).map(move |row| row * cols + col)).map(|at| matrix[at]).collect()
    };
    values.chunks_exact(rows * cols).flat_map(matrix).collect()
}

#[test]
fn blocks_of_one_scale_keep_every_number() {
    for case in ["compressed_tensors/mxfp4_group", "mxfp4/deepseek_v4"] {
        let (before, after, repacked) = converted(case, &ConvertOptions::new());
        assert!(repacked > 0, "{case}");
        for weight in before.weights() {
            let stored = after.tensors().into_iter().find(|tensor| tensor.name == weight.name).unwrap();
            if stored.dtype == Dtype::Block(BlockType::MXFP4) {
                assert_eq!(values(&before, &weight.name), values(&after, &weight.name), "{case} {}", weight.name);
            }
        }
    }
}

#[test]
fn experts_that_are_turned_when_decoded_stay_as_they_lie() {
    let (before, after, repacked) = converted("mxfp4/gpt_oss", &ConvertOptions::new());
    assert!(repacked > 0);
    for weight in before.weights() {
        let shape = weight.shape.clone().unwrap();
        let [.., rows, cols] = shape[..] else { panic!("{shape:?}") };
        let stored = after.tensors().into_iter().find(|tensor| tensor.name == weight.name).unwrap();
        assert_eq!(stored.shape[shape.len() - 2..], [cols, rows]);
        assert_eq!(turned(&values(&before, &weight.name), rows, cols), values(&after, &weight.name), "{}", weight.name);
    }
}

#[test]
fn scales_of_scales_stand_beside_their_blocks() {
    for (case, is_exact) in [("modelopt/nvfp4_wide", false), ("compressed_tensors/nvfp4_global_vector", false)] {
        let (before, after, repacked) = converted(case, &ConvertOptions::new());
        if repacked == 0 {
            continue;
        }
        for weight in before.weights() {
            let (exact, found) = (values(&before, &weight.name), values(&after, &weight.name));
            for (exact, found) in exact.iter().zip(&found) {
                // The order of multiplications is another, so that the last bit may be.
                let apart = (exact - found).abs();
                assert!(apart <= exact.abs() * 2.5e-7, "{case}: {found} is not {exact}, {is_exact}");
            }
        }
    }
}

#[test]
fn a_type_that_is_asked_for_is_decoded_to() {
    let options = ConvertOptions::new().with_output_dtype(Dtype::F32);
    let (_, after, repacked) = converted("compressed_tensors/mxfp4_group", &options);
    assert_eq!(repacked, 0);
    assert!(after.tensors().iter().all(|tensor| !matches!(tensor.dtype, Dtype::Block(_))));
}

#[test]
fn a_scale_that_is_another_number_in_a_block_is_refused() {
    let limits = ParseLimits::default();
    let case = "modelopt/mxfp4";
    let config: Value =
        serde_json::from_slice(&std::fs::read(fixture(&format!("{case}.config.json"))).unwrap()).unwrap();
    let folder = Folder::staged(&std::fs::read(fixture(&format!("{case}.safetensors"))).unwrap(), Some(&config));
    let plan = Checkpoint::open(folder.model(), &limits)
        .unwrap()
        .plan_convert(ConvertTarget::Gguf, &ConvertOptions::new())
        .unwrap();
    assert!(plan.stats().repacked > 0);
    let error = plan.to_bytes(|_| {}).unwrap_err().to_string();
    assert!(error.contains("0xff"), "{error}");
}
