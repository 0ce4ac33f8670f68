//! Tests of schemes: claiming, detection and decoding.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod claiming;
mod compressed_tensors;
mod configuration;
mod dialects;
mod fixtures;
mod hqq;
mod inputs;
mod leftovers;
mod markers;
mod marlin;
mod methods;
mod mlx;
mod modelopt;
mod mxfp4;
mod quanto;
mod quark;
mod rows;
mod torchao;
mod weights;
