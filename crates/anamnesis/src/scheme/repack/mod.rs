//! The same codes and scales in the layout of another scheme; no value is decoded.

mod block_parts;
mod reordered;

pub(crate) use block_parts::{BlockParts, StoredBlocks};
pub(crate) use reordered::{Agreement, Companion, Constant, RepackedCodes, RepackedCompanion};
