//! Parts whose rows are packed codes of a few bits, as bytes.

use std::ops::Range;

use crate::error::Result;
use crate::scheme::coder::{Context, Restore, Window, filled, mishandled};

/// A part with rows of `row_values` codes, each row from a new byte on, the lowest bits first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct UnpackedPart {
    pub(super) part: usize,
    pub(super) bits: u64,
    pub(super) row_values: u64,
}

impl UnpackedPart {
    fn row_bytes(&self) -> u64 {
        (self.row_values * self.bits).div_ceil(8)
    }

    /// The byte that contains a code.
    fn byte_of(&self, code: u64) -> u64 {
        code / self.row_values * self.row_bytes() + code % self.row_values * self.bits / 8
    }
}

impl Restore for UnpackedPart {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let bytes = match plain.is_empty() || self.row_values == 0 {
            true => 0..0,
            false => self.byte_of(plain.start)..self.byte_of(plain.end - 1) + 1,
        };
        windows.push(Window::between(self.part, bytes));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let [stored] = inputs else { return Err(mishandled("another number of windows")) };
        if plain.is_empty() || self.row_values == 0 {
            return filled(0, out.len());
        }
        let (first, mask) = (self.byte_of(plain.start), (1u32 << self.bits) - 1);
        for (out, code) in out.iter_mut().zip(plain.clone()) {
            let byte = stored.get((self.byte_of(code) - first) as usize);
            let byte = byte.ok_or_else(|| mishandled("a window of another size"))?;
            *out = (u32::from(*byte) >> (code % self.row_values * self.bits % 8) & mask) as u8;
        }
        Ok(())
    }
}
