//! Repacking [integer codes](crate::scheme::coder::Integers) with their scales and offsets into the layout of another
//! scheme. Codes keep their bits. Whether all groups decode to the same values there is checked before ([`Agreement`]).

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

/// Output bytes per tile. Transposed input is read in short pieces, and longer pieces cost less.
const TILE_BYTES: u64 = 1 << 20;

/// An output whose bytes do not depend on the weight.
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
        "constant".to_owned()
    }
}
