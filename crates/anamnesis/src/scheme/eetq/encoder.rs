//! Encoding in EETQ's order: whole pairs of outputs at a time.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::order::Interleaved;
use crate::error::Result;
use crate::scheme::coder::{Context, EncodedTensor, TileDecoder, TileEncoder, Window, mishandled};
use crate::scheme::grouped::GroupedEncoder;

/// Wraps the encoder of codes in rows.
pub(super) struct InterleavedEncoder {
    /// Its decoder is that of codes in EETQ's order.
    pub inner: GroupedEncoder,
}

impl Hash for InterleavedEncoder {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.inner.hash(hasher);
    }
}

impl TileEncoder for InterleavedEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        self.inner.outputs()
    }

    fn granule(&self) -> u64 {
        2 * self.inner.grid.cols
    }

    fn scale_values(&self) -> u64 {
        self.inner.scale_values()
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        self.inner.places(range, places);
    }

    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let written = self.inner.encode(range, values, outs, context)?;
        let codes = outs.first_mut().ok_or_else(|| mishandled("no codes"))?;
        let mut rows = context.lend(codes.len());
        rows.copy_from_slice(codes);
        Interleaved { inputs: self.inner.grid.cols }.store(&rows, codes)?;
        context.take_back(rows);
        Ok(written)
    }

    fn decode(
        &self,
        range: &Range<u64>,
        outs: &[&mut [u8]],
        decoded: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        self.inner.decode(range, outs, decoded, context)
    }

    fn decoder(&self) -> Option<&dyn TileDecoder> {
        self.inner.decoder()
    }
}
