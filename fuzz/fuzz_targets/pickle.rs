//! Any bytes are scanned, within bounds; a pickle that a conversion accepts refers to nothing that the scan refuses.

#![no_main]

use anamnesis::scan_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let Ok(report) = scan_bytes(file) else { return };
    let _ = report.verdict().to_string();
    for pickle in &report.pickles {
        assert!(pickle.offset <= file.len() as u64);
        assert!(pickle.globals.iter().all(|global| global.uses > 0));
    }
});
