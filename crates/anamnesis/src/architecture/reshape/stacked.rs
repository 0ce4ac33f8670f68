//! Tensors, concatenated.

use std::ops::Range;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::{Context, Inner, TileDecoder, Window, element_bytes};

/// Several decoders as one.
#[derive(Hash)]
pub(super) struct Stacked {
    /// At least one.
    pub(super) inner: Vec<Inner>,
}

impl Stacked {
    /// The decoders that a range is in, with the piece of each.
    fn pieces(&self, elements: &Range<u64>) -> impl Iterator<Item = (&Inner, Range<u64>)> {
        let (mut start, elements) = (0, elements.clone());
        let piece = move |inner: &'_ Inner| {
            let piece = elements.start.saturating_sub(start)..elements.end.saturating_sub(start).min(inner.elements);
            start += inner.elements;
            piece
        };
        self.inner.iter().zip(self.inner.iter().map(piece)).filter(|(_, piece)| piece.start < piece.end)
    }
}

impl TileDecoder for Stacked {
    fn granule(&self) -> u64 {
        let largest = self.inner.iter().map(|inner| inner.decoder.granule().max(1)).max().unwrap_or(1);
        let is_even = |inner: &Inner| {
            largest.is_multiple_of(inner.decoder.granule().max(1)) && inner.elements.is_multiple_of(largest)
        };
        let each = self.inner.first().map_or(1, |inner| inner.elements).max(1);
        match self.inner.iter().all(is_even) {
            true => largest,
            false if self.inner.iter().all(|inner| inner.elements == each) => each,
            false => self.inner.iter().map(|inner| inner.elements).sum::<u64>().max(1),
        }
    }

    fn tile_bytes(&self) -> u64 {
        self.inner.iter().map(|inner| inner.decoder.tile_bytes()).max().unwrap_or(1)
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        for (inner, piece) in self.pieces(&elements) {
            inner.windows(&piece, windows);
        }
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let each = element_bytes(&elements, out);
        let (mut inputs, mut rest, mut written) = (inputs, out, 0);
        for (inner, piece) in self.pieces(&elements) {
            let (now, behind) = std::mem::take(&mut rest).split_at_mut((piece.end - piece.start) as usize * each);
            rest = behind;
            inputs = inner.decode(&piece, inputs, target, now, context)?;
            written += now.len();
        }
        Ok(written)
    }

    fn describe(&self) -> String {
        self.inner.first().map_or_else(String::new, |inner| inner.decoder.describe())
    }
}
