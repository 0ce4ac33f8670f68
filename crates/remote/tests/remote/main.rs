//! Remote sources against servers on this machine.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod containers;
mod counting;
mod faults;
mod hub;
mod outputs;
mod samples;
mod server;
