//! Files of every container: any bytes are a file of the format, read within the limits, or a typed error; the tensors of a
//! file that is read are decoded or refused.

use anamnesis::{
    AnamnesisError, Checkpoint, Format, RememberOptions, ScanVerdict, TargetDtype, detect_format_from_bytes,
    parse_pth_bytes_with_limits, parse_pth_front_matter_from_reader, parse_safetensors_header, scan, scan_bytes,
};

use crate::folder::Folder;
use crate::reading::{self, limits};

/// Flax.
pub fn flax(file: &[u8]) {
    reading::read(file, Format::Flax);
}

/// HDF5.
pub fn hdf5(file: &[u8]) {
    reading::read(file, Format::Hdf5);
}

/// Keras archives.
pub fn keras(file: &[u8]) {
    reading::read(file, Format::Keras);
}

/// TensorFlow Lite.
pub fn tflite(file: &[u8]) {
    reading::read(file, Format::TfLite);
}

/// whisper.cpp.
pub fn whisper(file: &[u8]) {
    reading::read(file, Format::Whisper);
}

/// Tar files with a model inside, such as NeMo's.
pub fn tar(file: &[u8]) {
    if file.get(257..262) == Some(b"ustar")
        && let Ok(checkpoint) = Checkpoint::from_bytes_with(file.to_vec(), &reading::options())
    {
        reading::decode(&checkpoint);
    }
}

/// TensorFlow: an index with its length in front, and a data file.
pub fn tensorflow(input: &[u8]) {
    let names = [("x.index", "x.index"), ("x.data-00000-of-00001", "x.data-")];
    let Some(folder) = Folder::split(input, &names) else { return };
    let mount = folder.mount();
    if let Ok(checkpoint) = Checkpoint::open_with(mount.root().join("x.index"), &reading::options()) {
        reading::decode(&checkpoint);
    }
}

/// Distributed checkpoints: `.metadata` with its length in front, and a file of chunks.
pub fn distributed(input: &[u8]) {
    const CHUNKS: &str = "__0_0.distcp";
    let Some(folder) = Folder::split(input, &[(".metadata", ".metadata"), (CHUNKS, "__")]) else { return };
    let mount = folder.mount();
    let _ = scan(mount.root().join(CHUNKS));
    if let Ok(checkpoint) = Checkpoint::open_with(mount.root(), &reading::options()) {
        reading::decode(&checkpoint);
    }
}

/// ONNX; decoded values are a file that can be read.
pub fn onnx(file: &[u8]) {
    if !matches!(detect_format_from_bytes(file), Ok(Format::Onnx)) {
        return;
    }
    let Ok(model) = Checkpoint::from_bytes_with(file.to_vec(), &reading::options()) else { return };
    let _ = model.inspect(&Default::default()).to_string();
    // The tensors decide, so that a seed keeps its target.
    let target = [TargetDtype::BF16, TargetDtype::F16, TargetDtype::F32][model.tensor_count() % 3];
    let options = RememberOptions::new().with_threads(1);
    match model.plan(target).and_then(|plan| plan.to_bytes(&options)) {
        Ok(output) => drop(parse_safetensors_header(&output).expect("an output can be read")),
        Err(error) => assert!(!matches!(error, AnamnesisError::Internal { .. }), "{error}"),
    }
}

/// PyTorch; a file that is read can be written and refers to no code.
pub fn pth(file: &[u8]) {
    let Ok(parsed) = parse_pth_bytes_with_limits(file.to_vec(), &limits()) else { return };
    let front = parse_pth_front_matter_from_reader(std::io::Cursor::new(file)).expect("readers see the same");
    assert_eq!(front.tensors, parsed.tensor_info());
    let names = parsed.len();
    if let Ok(output) = parsed.to_safetensors_bytes() {
        let again = parse_safetensors_header(&output).expect("an output can be read");
        assert_eq!(again.tensors.len(), names);
    }
    if let Ok(tensors) = parsed.tensors() {
        for (tensor, info) in tensors.iter().zip(&front.tensors) {
            assert_eq!(tensor.data.len(), info.byte_len);
        }
    }
    let report = scan_bytes(file).expect("bytes can be read");
    // Another entry of the archive may refer to anything; the object that was read does not.
    if report.pickles.len() == 1 {
        assert_ne!(report.verdict(), ScanVerdict::RefersToCode);
    }
}

/// Pickles are scanned for all names that they refer to.
pub fn pickle(file: &[u8]) {
    let Ok(report) = scan_bytes(file) else { return };
    let _ = report.verdict().to_string();
    for pickle in &report.pickles {
        assert!(pickle.offset <= file.len() as u64);
        assert!(pickle.globals.iter().all(|global| global.uses > 0));
    }
}
