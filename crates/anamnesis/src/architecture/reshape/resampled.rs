//! A square grid of rows, interpolated to another size between its corners.

use std::ops::Range;

use anamnesis_kernels::chosen::round_slice;
use anamnesis_kernels::float::Fused;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::rounded;
use crate::scheme::{Context, Inner, TileDecoder, Window};

use super::values::values;

/// `to` by `to` rows of `row` elements, from a grid of `from` by `from`.
#[derive(Hash)]
pub(super) struct Resampled {
    pub(super) inner: Inner,
    pub(super) row: u64,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The two lines that a line lies between, and their weights.
struct Between {
    lines: [u64; 2],
    weights: [f32; 2],
}

impl Resampled {
    pub(super) fn elements(&self) -> u64 {
        self.to.saturating_mul(self.line())
    }

    /// The elements of a line of the result.
    fn line(&self) -> u64 {
        self.to.saturating_mul(self.row).max(1)
    }

    /// The place of a line in the given grid, computed in F32 as torch does.
    fn between(&self, line: u64) -> Between {
        let last = self.from.saturating_sub(1);
        let step = if self.to > 1 { last as f32 / (self.to - 1) as f32 } else { 0.0 };
        let place = step * line as f32;
        let first = (place as u64).min(last);
        let weight = (place - first as f32).clamp(0.0, 1.0);
        Between { lines: [first, (first + 1).min(last)], weights: [1.0 - weight, weight] }
    }

    /// The elements of the grid that a line of the result lies between.
    fn source(&self, line: u64) -> Range<u64> {
        let [first, second] = self.between(line).lines;
        let each = self.from.saturating_mul(self.row);
        first.saturating_mul(each)..(second + 1).saturating_mul(each)
    }

    /// A line of the result from the lines of the grid, `values`, that it lies between.
    fn interpolate(&self, line: u64, values: &[f32], out: &mut Vec<f32>) {
        let (row, from) = (self.row as usize, self.from as usize);
        let [upper, lower] = self.between(line).weights;
        let second = values.len().saturating_sub(from * row);
        for column in 0..self.to {
            let Between { lines: [left, right], weights: [to_left, to_right] } = self.between(column);
            let part = |start: usize, place: u64| {
                values.get(start + place as usize * row..).and_then(|rest| rest.get(..row)).unwrap_or(&[])
            };
            let top = part(0, left).iter().zip(part(0, right));
            let bottom = part(second, left).iter().zip(part(second, right));
            let weights = [upper * to_left, upper * to_right, lower * to_left, lower * to_right];
            // The order in which torch's vectors add the products.
            out.extend(top.zip(bottom).map(|((a, b), (c, d))| {
                let sum = d.fused(weights[3], weights[2] * c);
                a.fused(weights[0], b.fused(weights[1], sum))
            }));
        }
    }
}

impl TileDecoder for Resampled {
    fn granule(&self) -> u64 {
        self.line()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        for line in elements.start / self.line()..elements.end / self.line() {
            self.inner.windows(&self.source(line), windows);
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
        let level = context.level();
        let (mut inputs, mut made) = (inputs, Vec::new());
        for line in elements.start / self.line()..elements.end / self.line() {
            let read = self.source(line);
            let (values, rest) = values(&self.inner, &read, inputs, context)?;
            self.interpolate(line, &values, &mut made);
            context.take_back_floats(values);
            inputs = rest;
        }
        Ok(round_slice(level, rounded(target), &made, out))
    }

    fn describe(&self) -> String {
        self.inner.decoder.describe()
    }
}
