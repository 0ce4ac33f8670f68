//! Any bytes are the metadata and the chunks of a distributed checkpoint or a typed error. An input is `.metadata` with its
//! length in front, and the file of the chunks.

#![no_main]

#[path = "../folder.rs"]
mod folder;
#[path = "../reading.rs"]
mod reading;

use anamnesis::{Checkpoint, scan};
use folder::Folder;
use libfuzzer_sys::fuzz_target;

const CHUNKS: &str = "__0_0.distcp";

fuzz_target!(|input: &[u8]| {
    let Some(folder) = Folder::split(input, &[(".metadata", ".metadata"), (CHUNKS, "__")]) else { return };
    let mount = folder.mount();
    let _ = scan(mount.root().join(CHUNKS));
    if let Ok(checkpoint) = Checkpoint::open_with(mount.root(), &reading::options()) {
        reading::decode(&checkpoint);
    }
});
