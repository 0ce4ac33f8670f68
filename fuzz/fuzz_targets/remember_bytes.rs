//! Any bytes are decoded or refused with a typed error, within the limits; what is written can be read and is plain.

#![no_main]

use anamnesis::{ParseLimits, RememberOptions, TargetDtype, parse_bytes_with_limits, parse_safetensors_header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    // The length of the header decides, so that a seed keeps its target.
    let choice = usize::from(file.first().copied().unwrap_or_default());
    let target = [TargetDtype::BF16, TargetDtype::F16, TargetDtype::F32][choice % 3];
    let limits = ParseLimits::default().with_max_single_alloc(4 << 20).with_max_total_bytes(16 << 20);
    let Ok(model) = parse_bytes_with_limits(file.to_vec(), &limits) else { return };
    let info = model.inspect();
    let _ = info.to_string();
    let options = RememberOptions::new().with_threads(1);
    if let Ok(output) = model.remember_to_bytes_with_options(target, options) {
        assert!(info.problems.is_empty(), "decoded in spite of {:?}", info.problems);
        let again = parse_safetensors_header(&output).expect("what was written can be read");
        assert_eq!(again.quantized_count(), 0);
    }
});
