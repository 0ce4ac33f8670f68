//! Any bytes are an ONNX model or a typed error, within the limits; what is decoded can be read again.

#![no_main]

#[path = "../reading.rs"]
mod reading;

use anamnesis::{
    AnamnesisError, Checkpoint, Format, RememberOptions, TargetDtype, detect_format_from_bytes,
    parse_safetensors_header,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    if !matches!(detect_format_from_bytes(file), Ok(Format::Onnx)) {
        return;
    }
    let Ok(model) = Checkpoint::from_bytes_with(file.to_vec(), &reading::options()) else { return };
    let _ = model.inspect(&Default::default()).to_string();
    // The tensors decide, so that a seed keeps its target.
    let target = [TargetDtype::BF16, TargetDtype::F16, TargetDtype::F32][model.tensor_count() % 3];
    let options = RememberOptions::new().with_threads(1);
    match model.plan(target).and_then(|plan| plan.to_bytes(&options)) {
        Ok(output) => drop(parse_safetensors_header(&output).expect("what was written can be read")),
        Err(error) => assert!(!matches!(error, AnamnesisError::Internal { .. }), "{error}"),
    }
});
