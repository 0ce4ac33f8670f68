//! Numbers whose signs torch keeps beside them: conjugated and negated views.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::view::Signs;
use crate::error::Result;
use crate::io::{Region, Source};

/// The numbers of a region of the source, with their signs changed. Negation of a float is one bit.
#[derive(Debug)]
pub(super) struct Signed {
    /// Where the numbers are in the source below.
    pub(super) base: u64,
    pub(super) bytes: u64,
    /// Bytes of one real number.
    pub(super) width: usize,
    /// Whether numbers are pairs of a real and an imaginary part.
    pub(super) complex: bool,
    pub(super) signs: Signs,
}

impl Region for Signed {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        below.read_at(self.base + offset, buffer)?;
        let width = self.width as u64;
        for (at, byte) in (offset..).zip(buffer.iter_mut()) {
            let is_imaginary = self.complex && (at / width) % 2 == 1;
            let changes = self.signs.negated ^ (self.signs.conjugated && is_imaginary);
            // The sign is the highest bit of the highest byte.
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
