//! Conversion tests: every input to every target, directories, threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod adapters;
mod architectures;
mod completeness;
mod convert;
mod end_to_end;
mod identity;
mod large_projectors;
mod output;
mod projectors;
mod repacking;
mod repacking_integers;
mod speech;
mod splitting;
mod streaming;
mod threads;
