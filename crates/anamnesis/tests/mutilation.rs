//! A mutilated checkpoint is refused or decoded right, never decoded wrong: every fixture, with something taken away, renamed,
//! retyped, reshaped, or said otherwise in its configuration.
//!
//! Only structure is changed, never a code or a scale, so every weight that still comes out has known numbers. By default a
//! sample is tried, `AMN_SEED` chooses which; `AMN_MUTILATIONS=all` tries everything, `AMN_CORPUS` names a folder with more
//! cases, and `AMN_CASES` the beginnings of those that are tried.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "support/gguf.rs"]
mod builder;
mod support;

mod mutilation {
    pub mod asked_for;
    pub mod case;
    pub mod configuration;
    pub mod gguf;
    pub mod gguf_file;
    pub mod metadata;
    pub mod mutation;
    pub mod names;
    pub mod shapes;
    pub mod shards;
    pub mod subject;
    pub mod tally;
    pub mod trial;
    pub mod types;
    pub mod verdict;
}

use mutilation::case::cases;
use mutilation::trial::{Amount, run};

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
    let tally = mutilation::gguf::run(amount, seed);
    println!("{tally}");
    assert!(!tally.has_faults(), "AMN_SEED={seed}\n{tally}");
}
