//! The codes of `asym_w4a8_int8`: each stands for a level, which the scale of its group turns into an eight-bit integer.
//!
//! A row is a plane of `cols / 2` bytes with the low four bits of every code, then, for six bits, `cols / 4` bytes with
//! the upper two. The level is an entry of the codebook, or the code less the middle one. The product of level and group
//! scale is rounded half to even and clamped to ±127.

use std::ops::Range;

use crate::error::Result;
use crate::scheme::coder::{Context, Restore, ScaleType, Window, mishandled};

/// Restores the eight-bit integers, one byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Levels {
    pub cols: u64,
    pub group: u64,
    /// Four or six.
    pub bits: u64,
    pub scale: ScaleType,
    /// The part with the codebook.
    pub codebook: Option<usize>,
}

/// The part indices of codes and group scales.
const CODES: usize = 0;
const SCALES: usize = 1;
/// The entries of a codebook.
pub(super) const CODEBOOK: usize = 16;

impl Levels {
    fn rows(&self, plain: &Range<u64>) -> Range<u64> {
        plain.start / self.cols.max(1)..plain.end.div_ceil(self.cols.max(1))
    }

    fn row_bytes(&self) -> u64 {
        self.cols * self.bits / 8
    }

    fn groups(&self) -> u64 {
        self.cols / self.group.max(1)
    }

    fn code(&self, row: &[u8], col: usize) -> Option<u8> {
        let low = row.get(col / 2)? >> (col % 2 * 4) & 15;
        let high = match self.bits {
            6 => row.get(self.cols as usize / 2 + col / 4)? >> (col % 4 * 2) & 3,
            _ => 0,
        };
        Some(low | high << 4)
    }
}

impl Restore for Levels {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let rows = self.rows(plain);
        for (part, bytes) in [(CODES, self.row_bytes()), (SCALES, self.groups() * self.scale.bytes())] {
            windows.push(Window::between(part, rows.start * bytes..rows.end * bytes));
        }
        windows.extend(self.codebook.map(|part| Window::run(part, 0, 4 * CODEBOOK as u64)));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<()> {
        let (codes, stored, book) = match inputs {
            [codes, scales] => (*codes, *scales, None),
            [codes, scales, book] => (*codes, *scales, Some(*book)),
            _ => return Err(mishandled("other windows than it asked for")),
        };
        let middle = f32::from(1u8 << (self.bits.clamp(1, 8) - 1));
        let mut table: [f32; 64] = std::array::from_fn(|code| code as f32 - middle);
        if let Some(book) = book {
            ScaleType::F32.widen(context.level(), book, &mut table[..CODEBOOK])?;
        }
        let rows = self.rows(plain);
        let groups = self.groups() as usize;
        let mut scales = context.lend_floats((rows.end - rows.start) as usize * groups);
        self.scale.widen(context.level(), stored, &mut scales)?;
        for (out, at) in out.iter_mut().zip(plain.start..) {
            let (row, col) = ((at / self.cols - rows.start) as usize, (at % self.cols) as usize);
            let row_codes = codes.get(row * self.row_bytes() as usize..).unwrap_or_default();
            let code = self.code(row_codes, col).ok_or_else(|| mishandled("too few codes"))?;
            let scale = scales.get(row * groups + col / self.group as usize).copied().unwrap_or(f32::NAN);
            let level = table.get(usize::from(code)).copied().unwrap_or(f32::NAN);
            let value = (level * scale).round_ties_even().clamp(-127.0, 127.0);
            *out = (value as i8).cast_unsigned();
        }
        context.take_back_floats(scales);
        Ok(())
    }
}
