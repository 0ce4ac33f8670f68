//! Tests of the binary, run like by a user or a script.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod addresses;
mod answering;
mod bombs;
mod browser;
mod checkpoint;
#[cfg(feature = "clouds")]
mod clouds;
mod components;
mod conditions;
mod configuring;
mod converting;
mod demo;
mod describing;
mod directories;
mod documents;
mod faults;
mod folder;
mod folding;
mod foreign;
mod gguf;
mod gguf_options;
mod guides;
mod help;
mod interruption;
mod kill_rounds;
mod killing;
mod levels;
mod listing;
mod load;
mod looking;
mod many;
mod mixing;
mod network;
mod nginx;
mod page;
mod provenance;
mod reading;
mod refusing;
mod resuming;
mod samples;
mod scanning;
mod snapshots;
mod spooling;
mod states;
mod streams;
mod suggesting;
mod summaries;
mod towers;
mod tracer;
mod transcript;
mod unclaimed;
mod verifying;
mod writing;
