//! The same codes and scales in the layout of another scheme; no value is decoded.

mod apart;
mod reordered;

pub(crate) use apart::{Apart, Ones, StoredBlocks};
pub(crate) use reordered::{Agreement, Companion, Constant, SameGroups, SameWords};
