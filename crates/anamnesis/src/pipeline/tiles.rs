//! Division of tensors into tiles.

use std::ops::Range;

use super::plan::{Job, Plan, Work};
use super::values::Values;
use crate::catalog::Extent;
use crate::io::Source;

/// Bytes per tile of a copy.
const COPIED_TILE_BYTES: u64 = 4 << 20;

/// Values per tile of an encoding. Tiles that would exceed the maximum, because input steps and output granules
/// rarely coincide, are replaced by one tile for the whole tensor.
const ENCODED_TILE_VALUES: u64 = 1 << 18;
const LARGEST_TILE_VALUES: u64 = 1 << 22;

/// A part of a job: a range of its values, or of its bytes if it is a copy, processed in steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tile {
    pub job: usize,
    pub range: Range<u64>,
    step: u64,
}

impl Tile {
    /// All values as one tile, in the steps of their decoder.
    pub(super) fn whole(values: &Values, sources: &[Box<dyn Source>]) -> Self {
        Self { job: 0, range: 0..values.elements, step: step_of(values, sources) }
    }

    /// The steps of the tile in order.
    pub(super) fn steps(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (range, step) = (self.range.clone(), self.step.max(1));
        let starts = (0..(range.end - range.start).div_ceil(step)).map(move |index| range.start + index * step);
        starts.map(move |start| start..start.saturating_add(step).min(range.end))
    }
}

/// The tiles of a plan in order. A tensor that can only be read sequentially, or must arrive in order, is one tile.
pub(super) struct Tiles<'a> {
    plan: &'a Plan,
    sources: &'a [Box<dyn Source>],
    job: usize,
    at: u64,
}

impl<'a> Tiles<'a> {
    pub(super) fn new(plan: &'a Plan, sources: &'a [Box<dyn Source>]) -> Self {
        Self { plan, sources, job: 0, at: 0 }
    }
}

impl Iterator for Tiles<'_> {
    type Item = Tile;

    fn next(&mut self) -> Option<Tile> {
        loop {
            let index = self.job;
            let job = self.plan.jobs.get(index)?;
            let TileGeometry { units, step, tile } = TileGeometry::of(job, self.sources);
            let start = self.at;
            let is_whole = self.plan.is_ordered || is_sequential(job.work.parts(), self.sources);
            let taken = if is_whole { units } else { tile };
            let end = start.saturating_add(taken).min(units);
            (self.job, self.at) = if end == units { (index + 1, 0) } else { (index, end) };
            if start < end {
                return Some(Tile { job: index, range: start..end, step });
            }
        }
    }
}

/// Units of a job (values, or bytes of a copy), and units per step and per tile.
struct TileGeometry {
    units: u64,
    step: u64,
    tile: u64,
}

impl TileGeometry {
    fn of(job: &Job, sources: &[Box<dyn Source>]) -> Self {
        match &job.work {
            Work::Copy { extent, .. } => {
                let source = sources.get(extent.file as usize);
                let wanted = source.and_then(|source| source.tile_bytes(extent.offset..extent.offset + extent.bytes));
                let step = wanted.unwrap_or(COPIED_TILE_BYTES);
                Self { units: extent.bytes, step, tile: step }
            }
            Work::Decode(values) => {
                let step = step_of(values, sources);
                Self { units: values.elements, step, tile: step }
            }
            Work::Encode { values, encoder, .. } => {
                let (units, step) = (values.elements, step_of(values, sources));
                let together = least_common_multiple(step, encoder.granule().max(1));
                let tile = match together.filter(|&tile| tile <= LARGEST_TILE_VALUES && encoder.first_pass().is_none())
                {
                    Some(together) => ENCODED_TILE_VALUES.div_ceil(together).saturating_mul(together),
                    None => units,
                };
                Self { units, step, tile }
            }
        }
    }
}

/// Values per decoding step: the decoder's preference, or more if the source prefers larger reads.
pub(super) fn step_of(values: &Values, sources: &[Box<dyn Source>]) -> u64 {
    let granule = values.decoder.granule().max(1);
    let wanted = values.decoder.tile_bytes() / values.each();
    let of_input = values.parts.first().and_then(|part| {
        let piece = sources.get(part.file as usize)?.tile_bytes(part.offset..part.offset + part.bytes)?;
        piece.saturating_mul(values.elements).checked_div(part.bytes)
    });
    let granules = (wanted.max(of_input.unwrap_or(0).min(LARGEST_TILE_VALUES)) / granule).max(1);
    granules.saturating_mul(granule)
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a.checked_div(x)?.checked_mul(b)
}

/// Whether these parts are best read sequentially.
pub(super) fn is_sequential(parts: &[Extent], sources: &[Box<dyn Source>]) -> bool {
    parts.iter().any(|part| {
        let source = sources.get(part.file as usize);
        source.is_some_and(|source| source.is_sequential(part.offset..part.offset + part.bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ranges of up to 12 units, at the start and at the end of all numbers, in all steps.
    #[test]
    fn the_steps_of_every_tile_are_its_range_in_order() {
        for base in [0, u64::MAX - 12] {
            for (start, end) in (0..=12).flat_map(|start| (start..=12).map(move |end| (base + start, base + end))) {
                for step in [0, 1, 2, 3, 5, 7, 12, 13, u64::MAX] {
                    let steps: Vec<_> = Tile { job: 0, range: start..end, step }.steps().collect();
                    let units: Vec<u64> = steps.iter().cloned().flatten().collect();
                    assert_eq!(units, (start..end).collect::<Vec<_>>(), "{start}..{end} by {step}");
                    assert!(steps.iter().all(|part| !part.is_empty() && part.end - part.start <= step.max(1)));
                    // Only the last step may be short.
                    let whole = steps.len().saturating_sub(1);
                    assert!(steps[..whole].iter().all(|part| part.end - part.start == step.max(1)));
                }
            }
        }
    }

    #[test]
    fn the_least_common_multiple_is_the_first_that_both_divide() {
        for (a, b) in (1..=40u64).flat_map(|a| (1..=40).map(move |b| (a, b))) {
            let first = (1..=a * b).find(|multiple| multiple % a == 0 && multiple % b == 0);
            assert_eq!(least_common_multiple(a, b), first, "{a} {b}");
        }
        assert_eq!(least_common_multiple(0, 0), None);
    }

    #[test]
    fn tiles_end_where_steps_and_granules_coincide() {
        assert_eq!(least_common_multiple(70, 64), Some(2240));
        assert_eq!(least_common_multiple(64, 64), Some(64));
        assert_eq!(least_common_multiple(u64::MAX, u64::MAX - 1), None);
    }
}
