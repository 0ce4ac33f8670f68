//! Conjugated and negated views, whose sign changes torch applies lazily.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::view::SignBits;
use crate::error::Result;
use crate::io::{Region, Source};

/// A region with the signs of its numbers changed. Negating a float flips one bit.
#[derive(Debug)]
pub(super) struct SignedRegion {
    /// Offset of the numbers in the underlying source.
    pub(super) base: u64,
    pub(super) bytes: u64,
    /// Bytes of one real number.
    pub(super) width: usize,
    /// Whether numbers are pairs of a real and an imaginary part.
    pub(super) complex: bool,
    pub(super) signs: SignBits,
}

impl Region for SignedRegion {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        below.read_at(self.base + offset, buffer)?;
        let width = self.width as u64;
        for (at, byte) in (offset..).zip(buffer.iter_mut()) {
            let is_imaginary = self.complex && (at / width) % 2 == 1;
            let changes = self.signs.negated ^ (self.signs.conjugated && is_imaginary);
            // The sign is the top bit of the last byte.
            if changes && at % width == width - 1 {
                *byte ^= 0x80;
            }
        }
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        let Self { base, bytes: _, width, complex, signs } = self;
        ("signed", width, complex, signs).hash(&mut hasher);
        below.identify(base + range.start..base + range.end, hasher);
    }
}
