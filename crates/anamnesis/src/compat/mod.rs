//! The names of earlier versions, which do what they did: thin faces over the rooms below, which nothing else is built on.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | one safetensors file: parsed, inspected, decoded |
//! | [`parse`] | headers and tensors of single files of every container; GGUF files written from slices |
//! | [`remember`] | single weights decoded from slices; arrays in memory written as safetensors |
//! | [`lethe`] | single weights encoded into slices; NF4 files written from slices |
//!
//! They are public as modules of the crate itself.

mod in_memory;
pub mod lethe;
pub mod model;
pub mod parse;
pub mod remember;
