//! Tensors of F64, which the pipeline would round to F32: they are measured as they are stored, one after the other, with
//! sums in the same order.

use anamnesis_kernels::measure::{LANES, sum_of_lanes};

use super::blocks::{BLOCK_VALUES, BlockTree, Measure};
use super::differences::{Differences, MeasureDifferences};
use super::histogram::{FloatKind, Histogram};
use super::moments::{MeasureMoments, Moments};
use super::tails::Tails;
use crate::cancel::CancelToken;
use crate::catalog::StoredTensor;
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::pipeline::Distance;

/// A stored tensor of F64 with its checkpoint.
#[derive(Clone, Copy)]
pub(super) struct WideTensor<'a> {
    pub checkpoint: &'a Checkpoint,
    pub tensor: &'a StoredTensor,
}

impl WideTensor<'_> {
    /// The moments of all values.
    pub(super) fn moments(self, cancel: &CancelToken) -> Result<Moments> {
        let merge = |first, second: &Moments| MeasureMoments.merge(first, second);
        let mut tree = BlockTree::new();
        self.for_each_block(cancel, |block, values| tree.add(block, moments(values), merge))?;
        Ok(tree.total(merge))
    }

    /// The number of values that are further than `limit` from `mean`.
    pub(super) fn outliers(self, (mean, limit): (f64, f64), cancel: &CancelToken) -> Result<u64> {
        let is_outlier = |value: &&f64| value.is_finite() && (**value - mean).abs() > limit;
        let mut outliers = 0;
        self.for_each_block(cancel, |_, values| outliers += values.iter().filter(is_outlier).count() as u64)?;
        Ok(outliers)
    }

    /// The differences from another tensor of the same shape.
    pub(super) fn differences(self, other: WideTensor<'_>, cancel: &CancelToken) -> Result<Differences> {
        let merge = |first, second: &Differences| MeasureDifferences.merge(first, second);
        let mut tree = BlockTree::new();
        let mut others = Vec::new();
        for block in 0..self.blocks() {
            cancel.check()?;
            let values = self.read(block)?;
            others.clone_from(&other.read(block)?);
            tree.add(block, differences(&values, &others), merge);
        }
        Ok(tree.total(merge))
    }

    fn blocks(self) -> u64 {
        self.tensor.elements().div_ceil(BLOCK_VALUES)
    }

    fn for_each_block(self, cancel: &CancelToken, mut take: impl FnMut(u64, &[f64])) -> Result<()> {
        for block in 0..self.blocks() {
            cancel.check()?;
            take(block, &self.read(block)?);
        }
        Ok(())
    }

    /// The values of a block.
    fn read(self, block: u64) -> Result<Vec<f64>> {
        let start = block * BLOCK_VALUES;
        let count = BLOCK_VALUES.min(self.tensor.elements() - start);
        let mut bytes = vec![0; count as usize * 8];
        let extent = self.tensor.extent;
        self.checkpoint.sources[extent.file as usize].read_at(extent.offset + start * 8, &mut bytes)?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }
}

/// The sum of terms in lanes.
fn lane_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut lanes = [0.0; LANES];
    for (index, term) in terms.enumerate() {
        lanes[index % LANES] += term;
    }
    sum_of_lanes(lanes)
}

fn moments(values: &[f64]) -> Moments {
    let finite = || values.iter().copied().map(|value| if value.is_finite() { value } else { 0.0 });
    let count = |is: fn(&&f64) -> bool| values.iter().filter(is).count() as u64;
    let mut moments = Moments {
        finite: count(|value| value.is_finite()),
        zeros: count(|value| **value == 0.0),
        nan: count(|value| value.is_nan()),
        infinite: count(|value| value.is_infinite()),
        sum: lane_sum(finite()),
        ..Moments::default()
    };
    if moments.finite == 0 {
        return moments;
    }
    let numbers = || values.iter().copied().filter(|value| value.is_finite());
    let (min, max) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max));
    moments.range = Some((min + 0.0, max + 0.0));
    moments.tails = Tails::none((min, max));
    let mean = moments.mean();
    let square = |value: &f64| if value.is_finite() { (value - mean) * (value - mean) } else { 0.0 };
    moments.squares = lane_sum(values.iter().map(square));
    moments.histogram = Histogram::covering(min, max, FloatKind::F64);
    numbers().for_each(|value| moments.histogram.count(value));
    moments
}

fn differences(first: &[f64], second: &[f64]) -> Differences {
    let pairs = || first.iter().copied().zip(second.iter().copied());
    let is_finite = |(x, y): (f64, f64)| x.is_finite() && y.is_finite();
    let is_unequal = |(x, y): (f64, f64)| x.to_bits() != y.to_bits();
    let is_nan = |(x, y): (f64, f64)| x.is_nan() && y.is_nan();
    let count = |is: &dyn Fn((f64, f64)) -> bool| pairs().filter(|pair| is(*pair)).count() as u64;
    let sum =
        |term: fn(f64, f64) -> f64| lane_sum(pairs().map(|(x, y)| if is_finite((x, y)) { term(x, y) } else { 0.0 }));
    let finite = pairs().filter(|pair| is_finite(*pair));
    Differences {
        unequal: count(&is_unequal),
        incomparable: count(&|pair| is_unequal(pair) && !is_finite(pair) && !is_nan(pair)),
        largest: finite.fold(0.0, |largest: f64, (x, y)| largest.max((x - y).abs())),
        distance: Distance {
            values: count(&is_finite),
            absolute: sum(|x, y| (x - y).abs()),
            squared: sum(|x, y| (x - y) * (x - y)),
            before: sum(|x, _| x * x),
            after: sum(|_, y| y * y),
            product: sum(|x, y| x * y),
            ..Distance::default()
        },
    }
}
