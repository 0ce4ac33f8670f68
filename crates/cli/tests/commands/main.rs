//! The real binary, as a user or a script runs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod demo;
mod folder;
mod help;
mod interruption;
mod reading;
mod streams;
mod writing;
