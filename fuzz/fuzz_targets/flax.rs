//! Any bytes are a file of Flax parameters or a typed error.

#![no_main]

#[path = "../shared.rs"]
mod shared;

use anamnesis::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| shared::read(file, Format::Flax));
