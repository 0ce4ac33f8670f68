//! Any bytes are a TensorFlow checkpoint or a typed error. An input is its index with its length in front, and its data
//! file.

#![no_main]

#[path = "../folder.rs"]
mod folder;
#[path = "../reading.rs"]
mod reading;

use anamnesis::Checkpoint;
use folder::Folder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let names = [("x.index", "x.index"), ("x.data-00000-of-00001", "x.data-")];
    let Some(folder) = Folder::split(input, &names) else { return };
    let mount = folder.mount();
    if let Ok(checkpoint) = Checkpoint::open_with(mount.root().join("x.index"), &reading::options()) {
        reading::decode(&checkpoint);
    }
});
