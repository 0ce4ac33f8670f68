//! Any bytes are a file of Flax parameters or a typed error.

#![no_main]

#[path = "../reading.rs"]
mod reading;

use anamnesis::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| reading::read(file, Format::Flax));
