//! Any bytes are a GGUF file or a typed error, read alike from bytes and from a reader; what can be decoded is decoded within
//! the limits, and what is written can be read and is plain.

#![no_main]

use std::io::Cursor;

use anamnesis::{
    ParseLimits, RememberOptions, TargetDtype, parse_gguf_bytes_with_limits,
    parse_gguf_front_matter_from_reader_with_limits, parse_safetensors_header,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let limits = ParseLimits::default().with_max_single_alloc(4 << 20).with_max_total_bytes(16 << 20);
    let streamed = parse_gguf_front_matter_from_reader_with_limits(Cursor::new(file), &limits);
    let Ok(model) = parse_gguf_bytes_with_limits(file.to_vec(), &limits) else { return };
    // The limits of the two differ in the input itself, which is a buffer only where it is owned.
    let streamed = streamed.expect("what is read from bytes is also read from a reader");
    assert_eq!(streamed.metadata.len(), model.metadata().len());
    assert_eq!(streamed.tensor_infos, model.tensor_info());
    let _ = model.inspect().to_string();
    for tensor in model.tensors() {
        let elements = tensor.shape.iter().product::<usize>() as u64;
        assert_eq!(tensor.dtype.byte_size_for_n_elements(elements).ok(), Some(tensor.data.len() as u64));
    }
    // The tensors decide, so that a seed keeps its target.
    let target = [TargetDtype::BF16, TargetDtype::F16, TargetDtype::F32][model.len() % 3];
    if let Ok(output) = model.remember_to_bytes_with_options(target, RememberOptions::new().with_threads(1)) {
        let again = parse_safetensors_header(&output).expect("what was written can be read");
        assert_eq!(again.quantized_count(), 0);
    }
});
