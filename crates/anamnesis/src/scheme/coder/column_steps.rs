//! Steps on rows of values: terms and factors by column or by group of columns.

use std::ops::Range;

use anamnesis_kernels::half_times;

use super::context::Context;
use super::decoder::Window;
use super::filled::{filled, mishandled};
use super::refined::Refine;
use super::restored::Restore;
use super::scale::ScaleType;
use super::transposed_part::TransposedPart;
use crate::error::Result;

/// Adds a term per row and group of columns, stored as `[groups, rows]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PlusGroups {
    pub(crate) stored: TransposedPart,
    pub(crate) kind: ScaleType,
    pub(crate) groups: u64,
    /// Columns of a group.
    pub(crate) group: u64,
}

impl PlusGroups {
    fn bytes(&self, rows: &Range<u64>) -> Range<u64> {
        let row = self.groups * self.kind.bytes();
        rows.start * row..rows.end * row
    }
}

impl Refine for PlusGroups {
    fn windows(&self, rows: &Range<u64>, windows: &mut Vec<Window>) {
        self.stored.windows(&self.bytes(rows), windows);
    }

    fn refine(&self, rows: &Range<u64>, inputs: &[&[u8]], values: &mut [f32], context: &mut Context) -> Result<()> {
        let range = self.bytes(rows);
        let mut plain = context.lend((range.end - range.start) as usize);
        self.stored.restore(&range, inputs, &mut plain, context)?;
        let mut terms = context.lend_floats(((rows.end - rows.start) * self.groups) as usize);
        self.kind.widen(context.level(), &plain, &mut terms)?;
        for (values, term) in values.chunks_exact_mut(self.group as usize).zip(&terms) {
            values.iter_mut().for_each(|value| *value += term);
        }
        context.take_back(plain);
        context.take_back_floats(terms);
        Ok(())
    }
}

/// Multiplies every column by a factor, or adds a term to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ByColumn {
    pub(crate) part: usize,
    pub(crate) kind: ScaleType,
    pub(crate) cols: u64,
    /// Rows that share their factors or terms; those of the next rows follow. `None` if all rows do.
    pub(crate) rows: Option<u64>,
    pub(crate) op: ColumnOp,
}

/// The operation of a [`ByColumn`] step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ColumnOp {
    Times,
    /// In half precision: the values are halves, and so is the result.
    HalfTimes,
    Plus,
}

impl ByColumn {
    /// The rows of operands that these rows of values need.
    fn sets(&self, rows: &Range<u64>) -> Range<u64> {
        match self.rows {
            None => 0..1,
            Some(each) => rows.start / each.max(1)..rows.end.div_ceil(each.max(1)),
        }
    }
}

impl Refine for ByColumn {
    fn windows(&self, rows: &Range<u64>, windows: &mut Vec<Window>) {
        let (sets, bytes) = (self.sets(rows), self.cols * self.kind.bytes());
        windows.push(Window::between(self.part, sets.start * bytes..sets.end * bytes));
    }

    fn refine(&self, rows: &Range<u64>, inputs: &[&[u8]], values: &mut [f32], context: &mut Context) -> Result<()> {
        let [stored] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let (level, sets, cols) = (context.level(), self.sets(rows), self.cols as usize);
        let mut operands = context.lend_floats((sets.end - sets.start) as usize * cols);
        self.kind.widen(level, stored, &mut operands)?;
        for (values, row) in values.chunks_exact_mut(cols.max(1)).zip(rows.clone()) {
            let set = self.rows.map_or(0, |each| row / each.max(1) - sets.start) as usize;
            let operands = &operands[set * cols..(set + 1) * cols];
            match self.op {
                ColumnOp::Times => values.iter_mut().zip(operands).for_each(|(value, factor)| *value *= factor),
                ColumnOp::HalfTimes => filled(half_times(level, operands, values), cols)?,
                ColumnOp::Plus => values.iter_mut().zip(operands).for_each(|(value, term)| *value += term),
            }
        }
        context.take_back_floats(operands);
        Ok(())
    }
}

/// Multiplies all values by a stored number and divides them by a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TimesOver {
    /// The part with the factor, an F32.
    pub(crate) part: usize,
    pub(crate) divisor: u16,
}

impl Refine for TimesOver {
    fn windows(&self, _: &Range<u64>, windows: &mut Vec<Window>) {
        windows.push(Window::run(self.part, 0, 4));
    }

    fn refine(&self, _: &Range<u64>, inputs: &[&[u8]], values: &mut [f32], context: &mut Context) -> Result<()> {
        let [stored] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let (mut factor, divisor) = ([0.0], f32::from(self.divisor));
        ScaleType::F32.widen(context.level(), stored, &mut factor)?;
        values.iter_mut().for_each(|value| *value = *value * factor[0] / divisor);
        Ok(())
    }
}
