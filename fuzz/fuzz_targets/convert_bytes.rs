//! Any bytes are converted to each target or refused with a typed error, within the limits; what is written can be opened.

#![no_main]

use anamnesis::convert::{ConvertOptions, ConvertTarget, convert_bytes};
use anamnesis::{AnamnesisError, Checkpoint, ParseLimits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let limits = ParseLimits::default().with_max_single_alloc(4 << 20).with_max_total_bytes(16 << 20);
    let options = ConvertOptions::new().with_limits(limits).with_threads(1);
    for target in ConvertTarget::all() {
        let Ok((output, _)) = convert_bytes(file, target, &options) else { continue };
        let again = match Checkpoint::from_bytes(output, &ParseLimits::default()) {
            // NumPy has no name for the types of one byte: a reader has to be told.
            Err(AnamnesisError::TensorNotRead { .. }) if target == ConvertTarget::Npz => continue,
            again => again.expect("what was written can be opened"),
        };
        assert!(again.format().extensions().contains(&target.extension()));
    }
});
