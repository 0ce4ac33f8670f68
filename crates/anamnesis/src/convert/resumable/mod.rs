//! Outputs of several files that the same command resumes after an interruption.
//!
//! The files are completed one by one in a folder with a manifest, which identifies the plan: the output directory
//! itself, or a [`Stage`] if the files appear together. A run with the same manifest keeps the complete files.

mod entry;
mod files;
pub(super) mod manifest;
mod stage;

pub(super) use entry::{Entry, is_vacant};
pub(super) use files::{NamedPlan, is_done, is_file, write_missing};
pub(super) use stage::Stage;
