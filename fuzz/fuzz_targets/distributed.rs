//! Any bytes are the metadata and the chunks of a distributed checkpoint or a typed error; what is read can be written. The
//! first four bytes are the length of the metadata, the rest is the file of the chunks.

#![no_main]

use anamnesis::{AnamnesisError, Checkpoint, OpenOptions, ParseLimits, RememberOptions, TargetDtype, scan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((length, rest)) = input.split_first_chunk() else { return };
    let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
    let (metadata, chunks) = rest.split_at(length);
    let folder = std::env::temp_dir().join(format!("amn-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(".metadata"), metadata).expect("a file");
    std::fs::write(folder.join("__0_0.distcp"), chunks).expect("a file");
    let limits = ParseLimits::default().with_max_single_alloc(4 << 20).with_max_total_bytes(16 << 20);
    let options = OpenOptions::new().with_limits(limits).with_skip_unsupported(true);
    let _ = scan(folder.join("__0_0.distcp"));
    let Ok(checkpoint) = Checkpoint::open_with(&folder, &options) else { return };
    let options = RememberOptions::new().with_threads(1);
    if let Err(error) = checkpoint.plan(TargetDtype::BF16).and_then(|plan| plan.to_bytes(&options)) {
        assert!(!matches!(error, AnamnesisError::Internal { .. }), "{error}");
    }
});
