//! Cutting tensors into tiles.

use std::ops::Range;

use super::plan::{Plan, PlannedTensor, Work};
use crate::io::Source;

/// Bytes copied at a time.
const COPIED_TILE_BYTES: u64 = 1 << 20;

/// A piece of one output tensor: a range of its elements, or of its bytes where it is copied, to be done in steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tile {
    pub tensor: usize,
    pub range: Range<u64>,
    step: u64,
}

impl Tile {
    /// The steps of the piece, front to back.
    pub(super) fn steps(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (range, step) = (self.range.clone(), self.step.max(1));
        let starts = (0..(range.end - range.start).div_ceil(step)).map(move |index| range.start + index * step);
        starts.map(move |start| start..start.saturating_add(step).min(range.end))
    }
}

/// Hands out the tiles of a plan in order. A tensor whose bytes can only be read from front to back is one tile.
pub(super) struct Tiles<'a> {
    plan: &'a Plan,
    sources: &'a [Box<dyn Source>],
    tensor: usize,
    at: u64,
}

impl<'a> Tiles<'a> {
    pub(super) fn new(plan: &'a Plan, sources: &'a [Box<dyn Source>]) -> Self {
        Self { plan, sources, tensor: 0, at: 0 }
    }
}

impl Iterator for Tiles<'_> {
    type Item = Tile;

    fn next(&mut self) -> Option<Tile> {
        loop {
            let index = self.tensor;
            let tensor = self.plan.tensors.get(index)?;
            let (units, step) = units_and_step(tensor, self.sources);
            let start = self.at;
            let taken = if is_sequential(tensor, self.sources) { units } else { step };
            let end = start.saturating_add(taken).min(units);
            (self.tensor, self.at) = if end == units { (index + 1, 0) } else { (index, end) };
            if start < end {
                return Some(Tile { tensor: index, range: start..end, step });
            }
        }
    }
}

/// How many units (elements, or bytes of a copy) a tensor has, and how many of them make a tile.
fn units_and_step(tensor: &PlannedTensor, sources: &[Box<dyn Source>]) -> (u64, u64) {
    match &tensor.work {
        Work::Copy(extent) => {
            let source = sources.get(extent.file as usize);
            let wanted = source.and_then(|source| source.tile_bytes(extent.offset..extent.offset + extent.bytes));
            (extent.bytes, wanted.unwrap_or(COPIED_TILE_BYTES))
        }
        Work::Decode { decoder, .. } => {
            let element_bytes = tensor.output.dtype.byte_size() as u64;
            let granule = decoder.granule().max(1);
            let granules = (decoder.tile_bytes() / element_bytes / granule).max(1);
            (tensor.output.bytes / element_bytes, granules.saturating_mul(granule))
        }
    }
}

fn is_sequential(tensor: &PlannedTensor, sources: &[Box<dyn Source>]) -> bool {
    tensor.work.parts().iter().any(|part| {
        let source = sources.get(part.file as usize);
        source.is_some_and(|source| source.is_sequential(part.offset..part.offset + part.bytes))
    })
}
