//! Interleaved tensors: a number of elements of each in turn.

use std::ops::Range;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::{Context, Inner, TileDecoder, Window, element_bytes};

/// A number of elements of each decoder per round, until all are used.
#[derive(Hash)]
pub(super) struct Interleaved {
    /// Each with its elements per round.
    pub(super) inner: Vec<(Inner, u64)>,
}

impl Interleaved {
    /// The elements of a round.
    fn round(&self) -> u64 {
        self.inner.iter().map(|(_, each)| each).sum::<u64>().max(1)
    }
}

impl TileDecoder for Interleaved {
    fn granule(&self) -> u64 {
        self.round()
    }

    fn tile_bytes(&self) -> u64 {
        self.inner.iter().map(|(inner, _)| inner.decoder.tile_bytes()).max().unwrap_or(1)
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let (start, end) = (elements.start / self.round(), elements.end / self.round());
        for (inner, each) in &self.inner {
            inner.windows(&(start * each..end * each), windows);
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
        let bytes = element_bytes(&elements, out);
        let (start, end) = (elements.start / self.round(), elements.end / self.round());
        let (mut inputs, mut place, mut written) = (inputs, 0, 0);
        for (inner, each) in &self.inner {
            let piece = *each as usize * bytes;
            let mut all = context.lend((end - start) as usize * piece);
            inputs = inner.decode(&(start * each..end * each), inputs, target, &mut all, context)?;
            let rounds = out.chunks_exact_mut(self.round() as usize * bytes);
            for (round, from) in rounds.zip(all.chunks_exact(piece.max(1))) {
                round[place..place + piece].copy_from_slice(from);
                written += piece;
            }
            place += piece;
            context.take_back(all);
        }
        Ok(written)
    }

    fn describe(&self) -> String {
        self.inner.first().map_or_else(String::new, |(inner, _)| inner.decoder.describe())
    }
}
