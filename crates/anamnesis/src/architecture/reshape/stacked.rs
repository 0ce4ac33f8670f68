//! Tensors of equal size, concatenated.

use std::ops::Range;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::{Context, Inner, TileDecoder, Window, element_bytes};

/// Several decoders as one.
#[derive(Hash)]
pub(super) struct Stacked {
    /// At least one, all with as many elements.
    pub(super) inner: Vec<Inner>,
}

impl Stacked {
    fn each(&self) -> u64 {
        self.inner.first().map_or(1, |inner| inner.elements).max(1)
    }

    /// The decoders that a range is in, with the piece of each.
    fn pieces(&self, elements: &Range<u64>) -> impl Iterator<Item = (&Inner, Range<u64>)> {
        let (each, elements) = (self.each(), elements.clone());
        let first = (elements.start / each) as usize;
        self.inner.iter().enumerate().skip(first).map_while(move |(index, inner)| {
            let start = index as u64 * each;
            let piece = elements.start.saturating_sub(start)..elements.end.saturating_sub(start).min(each);
            (elements.end > start).then_some((inner, piece))
        })
    }
}

impl TileDecoder for Stacked {
    fn granule(&self) -> u64 {
        let largest = self.inner.iter().map(|inner| inner.decoder.granule().max(1)).max().unwrap_or(1);
        let is_even = self.inner.iter().all(|inner| largest.is_multiple_of(inner.decoder.granule().max(1)));
        if is_even && self.each().is_multiple_of(largest) { largest } else { self.each() }
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
