//! Matrices that are stored with padding: the decoder of the padded matrix is cropped.

use std::ops::Range;

use super::context::Context;
use super::decoder::{TileDecoder, Window};
use super::filled::filled;
use super::inner::{Inner, element_bytes};
use crate::catalog::TargetDtype;
use crate::error::Result;

/// Wraps the decoder of rows of `stored` columns and keeps the first `cols` of each.
#[derive(Clone, Hash)]
pub(crate) struct Cropped {
    pub(crate) inner: Inner,
    pub(crate) cols: u64,
    pub(crate) stored: u64,
}

impl Cropped {
    fn padded(&self, elements: &Range<u64>) -> Range<u64> {
        let cols = self.cols.max(1);
        elements.start / cols * self.stored..elements.end.div_ceil(cols) * self.stored
    }
}

impl TileDecoder for Cropped {
    fn granule(&self) -> u64 {
        self.cols.max(1)
    }

    fn tile_bytes(&self) -> u64 {
        self.inner.decoder.tile_bytes()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        self.inner.windows(&self.padded(&elements), windows);
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let (each, range) = (element_bytes(&elements, out), self.padded(&elements));
        if self.cols == self.stored {
            self.inner.decode(&range, inputs, target, out, context)?;
            return Ok(out.len());
        }
        let mut padded = context.lend((range.end - range.start) as usize * each);
        self.inner.decode(&range, inputs, target, &mut padded, context)?;
        let (kept, stored) = (self.cols as usize * each, self.stored as usize * each);
        let mut written = 0;
        for (out, row) in out.chunks_exact_mut(kept.max(1)).zip(padded.chunks_exact(stored.max(1))) {
            out.copy_from_slice(&row[..kept]);
            written += kept;
        }
        context.take_back(padded);
        filled(written, out.len())?;
        Ok(written)
    }

    fn describe(&self) -> String {
        self.inner.decoder.describe()
    }
}
