//! Any bytes are a PyTorch file or a typed error, within the limits; what is read can be written, and refers to no code.

#![no_main]

use anamnesis::{
    ParseLimits, parse_pth_bytes_with_limits, parse_pth_front_matter_from_reader, parse_safetensors_header,
};
use anamnesis::{ScanVerdict, scan_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let limits = ParseLimits::default().with_max_single_alloc(4 << 20).with_max_total_bytes(16 << 20);
    let Ok(parsed) = parse_pth_bytes_with_limits(file.to_vec(), &limits) else { return };
    let front = parse_pth_front_matter_from_reader(std::io::Cursor::new(file)).expect("readers see the same");
    assert_eq!(front.tensors, parsed.tensor_info());
    let names = parsed.len();
    if let Ok(output) = parsed.to_safetensors_bytes() {
        let again = parse_safetensors_header(&output).expect("what was written can be read");
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
});
