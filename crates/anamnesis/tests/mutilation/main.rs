//! A mutilated checkpoint is refused or decoded right, never decoded wrong: every fixture with a tensor or
//! configuration member removed, renamed, retyped, reshaped or changed.
//!
//! Only structure is changed, never a code or a scale, so every weight that is decoded has known values. By default a
//! sample is tried, selected by `AMN_SEED`; `AMN_MUTILATIONS=all` tries everything, `AMN_CORPUS` names a folder with
//! more cases, and `AMN_CASES` selects cases by prefix. `AMN_REASONS` lists the legitimate changes by reason.
//! Every try writes files: with `TMPDIR` in memory, the long form takes minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod case;
mod configuration;
mod ggml_blocks;
mod gguf;
mod gguf_file;
mod legitimate;
mod metadata;
mod mutation;
mod names;
mod shapes;
mod shards;
mod subject;
mod tally;
mod trial;
mod types;
mod verdict;

use case::cases;
use trial::{Amount, run};

#[test]
fn a_mutilated_checkpoint_is_refused_or_decoded_right() {
    let (amount, seed) = (Amount::wanted(), Amount::seed());
    let tally = run(&cases(), amount, seed);
    println!("{tally}");
    assert!(tally.tries() > 1000, "{tally}");
    assert!(!tally.has_faults(), "AMN_SEED={seed}\n{tally}");
}

#[test]
fn a_mutilated_gguf_file_is_refused_or_decoded_right() {
    let (amount, seed) = (Amount::wanted(), Amount::seed());
    let tally = gguf::run(amount, seed);
    println!("{tally}");
    assert!(!tally.has_faults(), "AMN_SEED={seed}\n{tally}");
}
