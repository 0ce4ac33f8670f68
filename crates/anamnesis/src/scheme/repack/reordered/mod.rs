//! Codes, scales and offsets of [whole numbers](super::Integers) in the layout of another scheme that has the same.
//! Codes keep their bits; whether the numbers of all groups are the same there is asked before.

mod groups;
mod stored;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Range;

use crate::error::Result;
use crate::scheme::coder::{ByteTiles, Context, Window};

pub(crate) use groups::{Agreement, Companion, RepackedCompanion};
pub(crate) use words::RepackedCodes;

/// Output bytes of a tile: what is turned is read in short pieces, and longer ones cost less.
const TILE_BYTES: u64 = 1 << 20;

/// Bytes that are the same whatever the codes are.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Constant(pub Vec<u8>);

impl ByteTiles for Constant {
    fn granule(&self) -> u64 {
        1
    }

    fn windows(&self, _bytes: Range<u64>, _windows: &mut Vec<Window>) {}

    fn fill(&self, bytes: Range<u64>, _inputs: &[&[u8]], out: &mut [u8], _context: &mut Context) -> Result<usize> {
        out.copy_from_slice(self.0.get(bytes.start as usize..bytes.end as usize).unwrap_or_default());
        Ok(out.len())
    }

    fn describe(&self) -> String {
        "what depends on no value".to_owned()
    }
}
