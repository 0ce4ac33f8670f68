//! Tests of the public interface and of the source layout.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod architecture;
mod as_arrays;
mod compatible;
mod digests;
mod encoding;
mod front_door;
mod hashes;
mod inspecting;
mod measure;
mod packed_slices;
mod slices;
mod vocabulary;
