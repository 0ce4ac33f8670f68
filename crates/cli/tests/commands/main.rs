//! The real binary, as a user or a script runs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod checkpoint;
mod converting;
mod demo;
mod directories;
mod folder;
mod gguf;
mod help;
mod interruption;
mod killing;
mod reading;
mod refusing;
mod resuming;
mod scanning;
mod streams;
mod verifying;
mod writing;
