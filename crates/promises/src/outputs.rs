//! Files that are converted and decoded: an output can be opened, and is plain if it was decoded.

use anamnesis::convert::{ConvertOptions, ConvertTarget, convert_bytes};
use anamnesis::{
    AnamnesisError, Checkpoint, ParseLimits, RememberOptions, TargetDtype, parse_bytes_with_limits,
    parse_gguf_bytes_with_limits, parse_gguf_front_matter_from_reader_with_limits, parse_safetensors_header,
};

use crate::reading::limits;

const TARGETS: [TargetDtype; 3] = [TargetDtype::BF16, TargetDtype::F16, TargetDtype::F32];

/// Any file is converted to a target or refused; its length decides to which.
pub fn converted(file: &[u8]) {
    let options = ConvertOptions::new().with_limits(limits()).with_threads(1);
    let count = ConvertTarget::all().count();
    let target = ConvertTarget::all().nth(file.len() % count).expect("a target");
    let Ok((output, _)) = convert_bytes(file, target, &options) else { return };
    let again = match Checkpoint::from_bytes(output, &ParseLimits::default()) {
        // NumPy has no name for the types of one byte: a reader needs them as an option.
        Err(AnamnesisError::TensorNotRead { .. }) if target == ConvertTarget::Npz => return,
        again => again.expect("an output can be opened"),
    };
    assert!(again.format().extensions().contains(&target.extension()));
}

/// A safetensors file is decoded or refused; a decoded one is plain and had no problems.
pub fn remembered(file: &[u8]) {
    // The length of the header decides, so that a seed keeps its target.
    let target = TARGETS[usize::from(file.first().copied().unwrap_or_default()) % 3];
    let Ok(model) = parse_bytes_with_limits(file.to_vec(), &limits()) else { return };
    let info = model.inspect();
    let _ = info.to_string();
    let options = RememberOptions::new().with_threads(1);
    if let Ok(output) = model.remember_to_bytes_with_options(target, options) {
        assert!(info.problems.is_empty(), "decoded in spite of {:?}", info.problems);
        let again = parse_safetensors_header(&output).expect("an output can be read");
        assert_eq!(again.quantized_count(), 0);
    }
}

/// A GGUF file is read alike from bytes and from a reader, and decoded within the limits.
pub fn gguf(file: &[u8]) {
    let streamed = parse_gguf_front_matter_from_reader_with_limits(std::io::Cursor::new(file), &limits());
    let Ok(model) = parse_gguf_bytes_with_limits(file.to_vec(), &limits()) else { return };
    // The limits of the two differ in the input itself, which is a buffer only where it is owned.
    let streamed = streamed.expect("bytes that are read are also read from a reader");
    assert_eq!(streamed.metadata.len(), model.metadata().len());
    assert_eq!(streamed.tensor_infos, model.tensor_info());
    let _ = model.inspect().to_string();
    for tensor in model.tensors() {
        let elements = tensor.shape.iter().product::<usize>() as u64;
        assert_eq!(tensor.dtype.byte_size_for_n_elements(elements).ok(), Some(tensor.data.len() as u64));
    }
    // The tensors decide, so that a seed keeps its target.
    let target = TARGETS[model.len() % 3];
    if let Ok(output) = model.remember_to_bytes_with_options(target, RememberOptions::new().with_threads(1)) {
        let again = parse_safetensors_header(&output).expect("an output can be read");
        assert_eq!(again.quantized_count(), 0);
    }
}
