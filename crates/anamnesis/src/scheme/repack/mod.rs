//! Repacking: copying codes and scales into the layout of another scheme without decoding a value.

mod block_parts;
mod reordered;

pub(crate) use block_parts::{BlockParts, StoredBlocks};
pub(crate) use reordered::{Agreement, Companion, Constant, RepackedCodes, RepackedCompanion};
