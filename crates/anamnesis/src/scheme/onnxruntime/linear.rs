//! The decoder of linearly quantised tensors in their own order: `(code - zero) * scale`.

use std::ops::Range;

use anamnesis_kernels::canonical_nans;
use anamnesis_kernels::chosen::round_slice;

use super::number::Number;
use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{Context, TileDecoder, Window, filled, mishandled, rounded};

/// A linearly quantised tensor. Its parts are, in this order: codes, scales, zero points if there are any, and the scale
/// of the scales with its zero point if there are any.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Linear {
    pub(super) codes: Number,
    /// The dimensions before the axis of the scales, along it, and behind it, as products.
    pub(super) outer: u64,
    pub(super) axis: u64,
    pub(super) inner: u64,
    pub(super) spread: Spread,
    pub(super) scales: Number,
    pub(super) zeros: Zeros,
    /// The scale of the scales.
    pub(super) nested: Option<Nested>,
    pub(super) description: String,
}

/// Which codes share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Spread {
    /// All.
    Tensor,
    /// Those at the same index of the axis.
    Axis,
    /// So many along the axis.
    Blocks(u64),
}

/// The zero points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Zeros {
    None,
    /// The same for all codes.
    Constant(u8),
    /// One per scale, in the type of the codes.
    Stored,
}

/// One value that all scales are multiplied by, after a zero point is subtracted if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Nested {
    pub(super) scale: Number,
    pub(super) has_zero: bool,
}

/// Elements at whose multiples tiles are cut: a whole number of bytes for codes of any type.
const GRANULE: u64 = 64;

/// The scales of a run of elements.
enum Run {
    /// The same for all.
    One(u64),
    /// One each, from this one on.
    Each(u64),
}

impl Linear {
    /// The scales, counted over all, from the first to the last that these elements need.
    fn scale_range(&self, elements: &Range<u64>) -> Range<u64> {
        let (inner, axis) = (self.inner.max(1), self.axis.max(1));
        let last = elements.end.saturating_sub(1).max(elements.start);
        let rows = (elements.start / inner, last / inner);
        match self.spread {
            Spread::Tensor => 0..1,
            Spread::Axis if rows.0 / axis == rows.1 / axis => rows.0 % axis..rows.1 % axis + 1,
            Spread::Axis => 0..axis,
            Spread::Blocks(_) => self.block_row(rows.0) * inner..(self.block_row(rows.1) + 1) * inner,
        }
    }

    /// The row of block scales of a row along the axis.
    fn block_row(&self, row: u64) -> u64 {
        let Spread::Blocks(block) = self.spread else { return 0 };
        let (axis, block) = (self.axis.max(1), block.max(1));
        row / axis * axis.div_ceil(block) + row % axis / block
    }

    /// The scales of the elements from `at` on, and the end of the run that they describe.
    fn run(&self, at: u64, end: u64) -> (Run, u64) {
        let (inner, axis) = (self.inner.max(1), self.axis.max(1));
        let (row, col) = (at / inner, at % inner);
        let row_end = (at - col + inner).min(end);
        match self.spread {
            Spread::Tensor => (Run::One(0), end),
            Spread::Axis if inner == 1 => (Run::Each(row % axis), ((row / axis + 1) * axis).min(end)),
            Spread::Axis => (Run::One(row % axis), row_end),
            Spread::Blocks(block) if inner == 1 => {
                let place = row % axis;
                let left = (block.max(1) - place % block.max(1)).min(axis - place);
                (Run::One(self.block_row(row)), (at + left).min(end))
            }
            Spread::Blocks(_) => (Run::Each(self.block_row(row) * inner + col), row_end),
        }
    }

    fn has_stored_zeros(&self) -> bool {
        self.zeros == Zeros::Stored
    }
}

impl TileDecoder for Linear {
    fn granule(&self) -> u64 {
        GRANULE
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let scales = self.scale_range(&elements);
        windows.push(Window::between(0, self.codes.bytes(elements.start)..self.codes.bytes(elements.end)));
        windows.push(Window::between(1, self.scales.bytes(scales.start)..self.scales.bytes(scales.end)));
        if self.has_stored_zeros() {
            windows.push(Window::between(2, self.codes.bytes(scales.start)..self.codes.bytes(scales.end)));
        }
        if let Some(nested) = self.nested {
            let part = 2 + usize::from(self.has_stored_zeros());
            windows.push(Window::run(part, 0, nested.scale.bytes(1)));
            if nested.has_zero {
                windows.push(Window::run(part + 1, 0, self.scales.bytes(1)));
            }
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
        let mut inputs = inputs.iter();
        let mut next = || inputs.next().copied().ok_or_else(|| mishandled("too few windows"));
        let (codes, stored_scales) = (next()?, next()?);
        let stored_zeros = if self.has_stored_zeros() { Some(next()?) } else { None };
        let range = self.scale_range(&elements);
        let (count, scale_count) = ((elements.end - elements.start) as usize, (range.end - range.start) as usize);
        let mut buffer = context.lend_floats(count + 2 * scale_count);
        let (values, companions) = buffer.split_at_mut(count);
        let (scales, zeros) = companions.split_at_mut(scale_count);
        self.scales.widen(stored_scales, scales)?;
        if let Some(nested) = self.nested {
            let (mut factor, mut zero) = ([0.0], [0.0]);
            nested.scale.widen(next()?, &mut factor)?;
            if nested.has_zero {
                self.scales.widen(next()?, &mut zero)?;
            }
            scales.iter_mut().for_each(|scale| *scale = (*scale - zero[0]) * factor[0]);
        }
        filled(canonical_nans(level, scales), scale_count)?;
        match (self.zeros, stored_zeros) {
            (Zeros::Stored, Some(stored)) => self.codes.widen(stored, zeros)?,
            (Zeros::Constant(zero), _) => zeros.fill(zero.into()),
            _ => zeros.fill(0.0),
        }
        self.codes.widen(codes, values)?;
        // The difference of wide integers is not exact in F32.
        let wide = stored_zeros.filter(|_| self.codes == Number::I32);
        let mut at = elements.start;
        while at < elements.end {
            let (run, end) = self.run(at, elements.end);
            let place = (at - elements.start) as usize..(end - elements.start) as usize;
            let (first, step) = match run {
                Run::One(scale) => ((scale - range.start) as usize, 0),
                Run::Each(scale) => ((scale - range.start) as usize, 1),
            };
            for (index, value) in values[place.clone()].iter_mut().enumerate() {
                let scale = first + index * step;
                *value = match wide {
                    Some(stored) => integer_difference(codes, place.start + index, stored, scale) * scales[scale],
                    None => (*value - zeros[scale]) * scales[scale],
                };
            }
            at = end;
        }
        let written = round_slice(level, rounded(target), values, out);
        context.take_back_floats(buffer);
        Ok(written)
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

/// The difference of two 32-bit integers, rounded once.
fn integer_difference(codes: &[u8], code: usize, zeros: &[u8], zero: usize) -> f32 {
    let integer =
        |bytes: &[u8], at: usize| bytes.as_chunks().0.get(at).map_or(0, |bytes| i64::from(i32::from_le_bytes(*bytes)));
    (integer(codes, code) - integer(zeros, zero)) as f32
}
