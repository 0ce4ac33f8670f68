//! Cutting tensors into tiles.

use std::ops::Range;

use super::plan::{Plan, PlannedTensor, Work};

/// Bytes copied at a time.
const COPIED_TILE_BYTES: u64 = 1 << 20;

/// A piece of one output tensor: a range of its elements, or of its bytes where it is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tile {
    pub tensor: usize,
    pub range: Range<u64>,
}

/// Hands out the tiles of a plan in order.
pub(super) struct Tiles<'a> {
    plan: &'a Plan,
    tensor: usize,
    at: u64,
}

impl<'a> Tiles<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self { plan, tensor: 0, at: 0 }
    }
}

impl Iterator for Tiles<'_> {
    type Item = Tile;

    fn next(&mut self) -> Option<Tile> {
        loop {
            let index = self.tensor;
            let tensor = self.plan.tensors.get(index)?;
            let (units, step) = units_and_step(tensor);
            let start = self.at;
            let end = start.saturating_add(step).min(units);
            (self.tensor, self.at) = if end == units { (index + 1, 0) } else { (index, end) };
            if start < end {
                return Some(Tile { tensor: index, range: start..end });
            }
        }
    }
}

/// How many units (elements, or bytes of a copy) a tensor has, and how many of them make a tile.
fn units_and_step(tensor: &PlannedTensor) -> (u64, u64) {
    match &tensor.work {
        Work::Copy(extent) => (extent.bytes, COPIED_TILE_BYTES),
        Work::Decode { decoder, .. } => {
            let element_bytes = tensor.output.dtype.byte_size() as u64;
            let granule = decoder.granule().max(1);
            let granules = (decoder.tile_bytes() / element_bytes / granule).max(1);
            (tensor.output.bytes / element_bytes, granules.saturating_mul(granule))
        }
    }
}
