//! Any bytes are an NPZ archive or refused with a typed error, within the limits; inspection and reading agree.

#![no_main]

use anamnesis::{
    InspectOptions, ParseLimits, inspect_npz_from_reader_with_options, npz_to_safetensors_bytes,
    parse_npz_bytes_with_limits, parse_safetensors_header,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let limits = ParseLimits::default().with_max_single_alloc(4 << 20).with_max_total_bytes(16 << 20);
    let options = InspectOptions::new().with_limits(limits.clone());
    let inspected = inspect_npz_from_reader_with_options(std::io::Cursor::new(file), &options);
    let Ok(arrays) = parse_npz_bytes_with_limits(file.to_vec(), &limits) else { return };
    let info = inspected.expect("what can be read can be inspected");
    assert_eq!(info.tensors.len(), arrays.len());
    for tensor in &info.tensors {
        let array = &arrays[&tensor.name];
        assert_eq!((&array.shape, array.dtype, array.data.len()), (&tensor.shape, tensor.dtype, tensor.byte_len));
    }
    if let Ok(output) = npz_to_safetensors_bytes(&arrays) {
        let header = parse_safetensors_header(&output).expect("what was written can be read");
        assert_eq!(header.tensors.len(), arrays.len());
    }
});
