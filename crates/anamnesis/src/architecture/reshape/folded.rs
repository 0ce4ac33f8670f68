//! Groups of rows that become one row: batch norms folded into a scale and a shift, and sums.

use std::ops::Range;

use anamnesis_kernels::chosen::round_slice;
use anamnesis_kernels::float::f16;

use crate::architecture::tree::Fold;
use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::rounded;
use crate::scheme::{Context, Inner, TileDecoder, Window};

use super::values::values;

/// One row for every `count` rows of another decoder.
#[derive(Hash)]
pub(super) struct Folded {
    pub(super) inner: Inner,
    pub(super) row: u64,
    pub(super) count: u64,
    pub(super) fold: Fold,
    /// Whether results are rounded to F16 after every operation, as torch does with F16 tensors.
    pub(super) is_half: bool,
}

/// The epsilon of batch norms.
const EPSILON: f32 = 1e-5;

impl Folded {
    /// The number of elements of the result.
    pub(super) fn elements(&self) -> u64 {
        self.inner.elements / self.count.max(1)
    }

    fn rounded(&self, value: f32) -> f32 {
        if self.is_half { f16::decode(f16::encode(value)) } else { value }
    }

    /// The factor of a batch norm.
    fn scale(&self, weight: f32, variance: f32) -> f32 {
        let deviation = self.rounded(self.rounded(variance + EPSILON).sqrt());
        self.rounded(weight / deviation)
    }

    /// One value of the result from those of the rows.
    fn value(&self, rows: impl Fn(usize) -> f32) -> f32 {
        match self.fold {
            Fold::NormScale => self.scale(rows(0), rows(1)),
            Fold::NormShift => {
                let scale = self.scale(rows(0), rows(3));
                self.rounded(rows(1) - self.rounded(rows(2) * scale))
            }
            Fold::Product => (0..self.count as usize).map(rows).product(),
            Fold::Sum => self.rounded((0..self.count as usize).map(rows).fold(0.0, |sum, value| sum + value)),
        }
    }
}

impl TileDecoder for Folded {
    fn granule(&self) -> u64 {
        self.row.max(1)
    }

    fn tile_bytes(&self) -> u64 {
        self.inner.decoder.tile_bytes()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        self.inner.windows(&(elements.start * self.count..elements.end * self.count), windows);
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let (row, count) = (self.row.max(1) as usize, self.count as usize);
        let read = elements.start * self.count..elements.end * self.count;
        let (values, _) = values(&self.inner, &read, inputs, context)?;
        let groups = values.chunks_exact(row * count);
        let fold = |group: &[f32]| -> Vec<f32> {
            (0..row).map(|place| self.value(|of| group.get(of * row + place).copied().unwrap_or(f32::NAN))).collect()
        };
        let folded: Vec<f32> = groups.flat_map(fold).collect();
        let written = round_slice(level, rounded(target), &folded, out);
        context.take_back_floats(values);
        Ok(written)
    }

    fn describe(&self) -> String {
        self.inner.decoder.describe()
    }
}
