//! Quantisation tests, byte for byte against each library.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod blocks;
mod classes;
mod encoders;
mod extremes;
mod joined;
mod mixing;
mod twice;
