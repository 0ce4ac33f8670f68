//! The promises that hold for any bytes, each a function of them that panics if it is broken.
//!
//! `fuzz` runs them under libFuzzer, one target each; the test `smoke` runs them on stable over seeds and changed seeds.
//!
//! | module | promise |
//! |---|---|
//! | [`containers`] | any bytes are a file of the format or a typed error; its tensors are decoded or refused |
//! | [`outputs`] | files that are written can be opened, decoded ones are plain |
//! | [`descriptions`] | configurations, indices, importance matrices and vocabularies are read or refused |
//! | [`schemes`] | parts of quantised weights are decoded or refused; levels and ranges of rows give the same bits |
//! | [`slices`] | slices of any lengths are decoded to the values of their shape, or refused |
//! | [`encodings`] | values are quantised and decoded again, or refused |
//! | [`levels`] | every CPU level gives the same bits |
//! | [`splits`] | results do not depend on how reads are split |
//! | [`against_gguf`], [`against_safetensors`], [`against_zip`] | other readers find the same |

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a broken promise is a panic")]

mod folder;
#[path = "../../anamnesis/tests/mutilation/ggml_blocks.rs"]
mod ggml_blocks;
mod input;
mod naive_gguf;
mod parts;
mod reading;

pub mod against_gguf;
pub mod against_safetensors;
pub mod against_zip;
pub mod containers;
pub mod descriptions;
pub mod encodings;
pub mod levels;
pub mod outputs;
pub mod schemes;
pub mod seeds;
pub mod slices;
pub mod splits;
mod targets;

pub use targets::{TARGETS, Target};
