//! The public functions and types of earlier versions, unchanged: thin wrappers over the modules below, which no
//! other module uses.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | one safetensors file: parsed, inspected, decoded |
//! | [`parse`] | headers and tensors of single files of every container; GGUF files written from slices |
//! | [`remember`] | single weights decoded from slices; arrays in memory written as safetensors |
//! | [`lethe`] | single weights encoded into slices; NF4 files written from slices |
//!
//! They are re-exported at the root of the crate.

mod in_memory;
pub mod lethe;
pub mod model;
pub mod names;
pub mod parse;
pub mod remember;
