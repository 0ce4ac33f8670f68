//! Tests that each container is read like its own library reads it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod claims;
mod distributed;
mod foreign;
mod frameworks;
mod gguf;
mod gguf_directories;
mod gguf_fixtures;
mod nemo;
mod npz;
mod onnx;
mod pth_fixtures;
mod whisper;
