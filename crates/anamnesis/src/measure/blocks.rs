//! The measuring sink: cuts decoded tiles into blocks of fixed size and merges the results in a fixed order, so that
//! they do not depend on tiles or workers.
//!
//! A tensor is cut into blocks of [`BLOCK_VALUES`] values, counted from its first value; the last may be shorter. The
//! results of blocks are merged as a binary tree: blocks 0 and 1, blocks 2 and 3 and so on, then the results of these
//! pairs, until one is left. A result without a partner moves up unchanged.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anamnesis_kernels::Level;

use crate::error::{AnamnesisError, Result};
use crate::pipeline::{Plan, TileSink};

/// Values per block.
pub(super) const BLOCK_VALUES: u64 = 4096;
/// Bytes of a value: measurements are made in F32.
const VALUE_BYTES: u64 = 4;

/// A measurement of blocks of F32 values.
pub(super) trait Measure: Send + Sync {
    /// The number of tensors that are measured together: a tile has all its values of the first, then all of the
    /// second.
    const TENSORS: u64;

    type Sums: Default + Send;

    /// Measures one block of a job, in little endian.
    fn block(&self, job: usize, values: &[&[[u8; 4]]], level: Level) -> Result<Self::Sums>;

    /// Merges the results of neighbours.
    fn merge(&self, first: Self::Sums, second: &Self::Sums) -> Self::Sums;
}

/// The results of the blocks of a tensor, merged as far as neighbours are known.
pub(super) struct BlockTree<S> {
    /// By level and index: the node (level, index) covers `2^level` blocks from `index * 2^level` on.
    nodes: BTreeMap<(u32, u64), S>,
}

/// A sink that measures the tensors of a plan.
pub(super) struct MeasuringSink<M: Measure> {
    measure: M,
    level: Level,
    /// Offset and number of values of every job.
    jobs: Vec<(u64, u64)>,
    state: Mutex<State<M::Sums>>,
}

struct State<S> {
    unfinished: HashMap<usize, Unfinished<S>>,
    finished: Vec<S>,
}

/// A tensor of which some values were measured.
struct Unfinished<S> {
    left: u64,
    merged: BlockTree<S>,
    /// Blocks that are spread over several tiles, by index, with the number of missing values.
    parts: HashMap<u64, (u64, Vec<[u8; 4]>)>,
}

impl<M: Measure> MeasuringSink<M> {
    /// A sink for the jobs of a plan, each of which decodes F32 values of `M::TENSORS` tensors.
    pub(super) fn new(measure: M, plan: &Plan, level: Level) -> Self {
        let job = |job: &crate::pipeline::Job| {
            let offset = job.outputs.first().map_or(0, |placed| placed.offset);
            (offset, job.bytes() / (VALUE_BYTES * M::TENSORS))
        };
        let jobs: Vec<_> = plan.jobs.iter().map(job).collect();
        let finished = jobs.iter().map(|_| M::Sums::default()).collect();
        Self { measure, level, jobs, state: Mutex::new(State { unfinished: HashMap::new(), finished }) }
    }

    /// The results, in the order of the plan.
    pub(super) fn finish(self) -> (M, Vec<M::Sums>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (self.measure, state.finished)
    }

    fn lock(&self) -> MutexGuard<'_, State<M::Sums>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of values in a block.
    fn block_len(&self, block: u64, values: u64) -> u64 {
        BLOCK_VALUES.min(values - block * BLOCK_VALUES)
    }
}

impl<M: Measure> TileSink for MeasuringSink<M> {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let outside = || AnamnesisError::parse("a tile is outside of every measured tensor");
        // Empty tensors share the offset of the next one and come before it.
        let job = self.jobs.partition_point(|(start, _)| *start <= offset).checked_sub(1).ok_or_else(outside)?;
        let (start, values) = self.jobs[job];
        let first = (offset - start) / (VALUE_BYTES * M::TENSORS);
        let count = bytes.len() as u64 / (VALUE_BYTES * M::TENSORS);
        let end = first.checked_add(count).filter(|&end| end <= values && count > 0).ok_or_else(outside)?;
        let tensors: Vec<&[[u8; 4]]> = bytes.as_chunks::<4>().0.chunks_exact(count as usize).collect();
        let slice = |from: u64, to: u64| -> Vec<&[[u8; 4]]> {
            tensors.iter().map(|tensor| &tensor[(from - first) as usize..(to - first) as usize]).collect()
        };
        let (mut whole, mut partial) = (Vec::new(), Vec::new());
        let mut at = first;
        while at < end {
            let block = at / BLOCK_VALUES;
            let block_end = block * BLOCK_VALUES + self.block_len(block, values);
            let to = block_end.min(end);
            if at == block * BLOCK_VALUES && to == block_end {
                whole.push((block, self.measure.block(job, &slice(at, to), self.level)?));
            } else {
                partial.push((block, at, to));
            }
            at = to;
        }
        let mut state = self.lock();
        let unfinished = state.unfinished.entry(job).or_insert_with(|| Unfinished {
            left: values,
            merged: BlockTree::new(),
            parts: HashMap::new(),
        });
        for (block, from, to) in partial {
            let block_len = self.block_len(block, values);
            let length = block_len as usize;
            let (missing, part) = unfinished
                .parts
                .entry(block)
                .or_insert_with(|| (block_len, vec![[0; 4]; length * M::TENSORS as usize]));
            let place = (from - block * BLOCK_VALUES) as usize;
            for (part, values) in part.chunks_exact_mut(length).zip(slice(from, to)) {
                part[place..place + values.len()].copy_from_slice(values);
            }
            *missing = missing.saturating_sub(to - from);
            if *missing == 0 {
                let tensors: Vec<&[[u8; 4]]> = part.chunks_exact(length).collect();
                whole.push((block, self.measure.block(job, &tensors, self.level)?));
                unfinished.parts.remove(&block);
            }
        }
        for (block, sums) in whole {
            unfinished.merged.add(block, sums, |first, second| self.measure.merge(first, second));
        }
        unfinished.left = unfinished.left.saturating_sub(count);
        if unfinished.left == 0
            && let Some(done) = state.unfinished.remove(&job)
        {
            state.finished[job] = done.merged.total(|first, second| self.measure.merge(first, second));
        }
        Ok(())
    }
}

impl<S: Default> BlockTree<S> {
    pub(super) const fn new() -> Self {
        Self { nodes: BTreeMap::new() }
    }

    /// Adds the result of a block, and merges all pairs that are complete.
    pub(super) fn add(&mut self, block: u64, sums: S, merge: impl Fn(S, &S) -> S) {
        let (mut level, mut index, mut sums) = (0, block, sums);
        while let Some(partner) = self.nodes.remove(&(level, index ^ 1)) {
            sums = match index.is_multiple_of(2) {
                true => merge(sums, &partner),
                false => merge(partner, &sums),
            };
            (level, index) = (level + 1, index / 2);
        }
        self.nodes.insert((level, index), sums);
    }

    /// Merges results without a partner, from the last to the first.
    pub(super) fn total(self, merge: impl Fn(S, &S) -> S) -> S {
        // The levels of what is left grow from the last block to the first.
        let mut left = self.nodes.into_values();
        let Some(last) = left.next() else { return S::default() };
        left.fold(last, |right, node| merge(node, &right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes down the order in which blocks are merged.
    struct Order;

    impl Measure for Order {
        const TENSORS: u64 = 1;
        type Sums = String;

        fn block(&self, _job: usize, values: &[&[[u8; 4]]], _level: Level) -> Result<String> {
            let first = values[0].first().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            Ok(format!("{}", u64::from(first) / BLOCK_VALUES))
        }

        fn merge(&self, first: String, second: &String) -> String {
            format!("({first} {second})")
        }
    }

    fn order(values: u64, tile: u64, reversed: bool) -> String {
        let jobs = vec![(0, values)];
        let state = State { unfinished: HashMap::new(), finished: vec![String::new()] };
        let sink = MeasuringSink { measure: Order, level: Level::detect(), jobs, state: Mutex::new(state) };
        let numbers: Vec<u8> = (0..values as u32).flat_map(u32::to_le_bytes).collect();
        let mut tiles: Vec<_> = (0..).zip(numbers.chunks((tile * 4) as usize)).collect();
        if reversed {
            tiles.reverse();
        }
        for (index, bytes) in tiles {
            sink.put(index * tile * 4, bytes).unwrap();
        }
        sink.finish().1.remove(0)
    }

    #[test]
    fn blocks_are_merged_in_the_same_order_for_all_tiles() {
        let wanted = "(((0 1) (2 3)) ((4 5) 6))";
        for tile in [100, 4095, 4096, 4097, 10_000, 1 << 20] {
            for reversed in [false, true] {
                assert_eq!(order(6 * BLOCK_VALUES + 17, tile, reversed), wanted, "tiles of {tile}");
            }
        }
        assert_eq!(order(5, 3, true), "0");
        assert_eq!(order(3 * BLOCK_VALUES, 64, false), "((0 1) 2)");
    }
}
