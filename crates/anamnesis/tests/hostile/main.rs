//! Malformed and hostile files end in a typed error or the right values, container by container.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod arrays;
mod bad_input;
mod checksums;
mod distributed;
mod gguf;
mod npy;
mod onnx;
mod packed;
mod pickle;
mod safetensors;
mod scanned;
mod zip;
