//! A tensor between changes.

use crate::architecture::tree::{Fold, Formula, Step, Tree};
use crate::error::{AnamnesisError, Result};

/// A tensor between changes: how its values are computed, and its shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reshaped {
    pub tree: Tree,
    pub shape: Vec<usize>,
}

impl Reshaped {
    /// A tensor of the input, by its place.
    pub(crate) fn input(place: usize, shape: &[usize]) -> Self {
        Self { tree: Tree::Tensor(place), shape: shape.to_vec() }
    }

    pub(super) fn after(self, step: Step) -> Self {
        Self { tree: self.tree.after(step), ..self }
    }

    pub(super) fn each(self, formula: Formula) -> Self {
        self.after(Step::Each(formula))
    }

    pub(super) fn with_shape(self, shape: Vec<usize>) -> Self {
        Self { shape, ..self }
    }

    /// The values of a row, for a vector too.
    pub(super) fn whole_row(&self) -> u64 {
        self.shape.iter().skip(1).map(|&size| size as u64).product()
    }

    pub(super) fn rows(&self) -> u64 {
        self.shape.first().map_or(0, |&rows| rows as u64)
    }

    /// Rows `start..start + count`.
    pub(super) fn cut(&self, start: u64, count: u64) -> Tree {
        self.tree.clone().after(Step::Part { row: self.whole_row(), per: self.rows(), start, count })
    }

    /// The same with another number of rows.
    pub(super) fn with_rows(&self, tree: Tree, rows: u64) -> Self {
        let mut shape = self.shape.clone();
        if let Some(first) = shape.first_mut() {
            *first = rows as usize;
        }
        Self { tree, shape }
    }

    /// The values of a row; a row of a vector has one.
    pub(super) fn row(&self) -> u64 {
        if self.shape.len() < 2 { 1 } else { self.shape.last().map_or(1, |&values| values as u64) }
    }

    /// The dimensions in front of the last two, the rows and the columns.
    pub(super) fn matrices(&self) -> Result<(&[usize], usize, usize)> {
        match &self.shape[..] {
            [stack @ .., rows, cols] => Ok((stack, *rows, *cols)),
            shape => Err(misfit(shape, "matrices")),
        }
    }

    /// A stack of vectors that become one.
    pub(super) fn folded(self, count: usize, fold: Fold) -> Result<Self> {
        match self.shape[..] {
            [vectors, values] if vectors == count => {
                let step = Step::Fold { row: values as u64, count: count as u64, fold };
                Ok(self.after(step).with_shape(vec![values]))
            }
            _ => Err(misfit(&self.shape, "vectors of one length")),
        }
    }

    pub(super) fn transposed(self) -> Result<Self> {
        let (stack, rows, cols) = self.matrices()?;
        let shape = [stack, &[cols, rows]].concat();
        Ok(self.after(Step::Transpose { rows: rows as u64, cols: cols as u64 }).with_shape(shape))
    }
}

/// The tensors of a layer's experts as one (`{X}` in the name of a rule).
pub(crate) fn stacked(experts: Vec<Tree>, shape: &[usize]) -> Reshaped {
    Reshaped { shape: [&[experts.len()], shape].concat(), tree: Tree::Stacked(experts) }
}

/// The rows of several tensors of these shapes, one after another.
pub(crate) fn joined(parts: Vec<Tree>, shapes: &[&[usize]]) -> Reshaped {
    let rows = shapes.iter().filter_map(|shape| shape.first()).fold(0usize, |rows, more| rows.saturating_add(*more));
    let row = shapes.first().and_then(|shape| shape.get(1..)).unwrap_or(&[]);
    Reshaped { shape: [&[rows], row].concat(), tree: Tree::Stacked(parts) }
}

/// One expert of a stack.
pub(crate) fn unstacked(stack: Reshaped, expert: u64) -> Reshaped {
    let [experts, shape @ ..] = &stack.shape[..] else { return stack };
    let (shape, count) = (shape.to_vec(), shape.iter().product::<usize>() as u64);
    let (per, start) = (*experts as u64 * count, expert * count);
    stack.after(Step::Part { row: 1, per, start, count }).with_shape(shape)
}

pub(super) fn misfit(shape: &[usize], wanted: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("its shape is {shape:?}, {wanted} is needed"))
}
