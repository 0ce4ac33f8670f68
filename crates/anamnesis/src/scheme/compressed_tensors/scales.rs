//! The arrangement of scales and zero points over a weight, independent of its codes.

use super::METHOD;
use super::spec::{Spec, Strategy};
use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{Arrangement, Grid, ScaleType};

/// A stack of matrices, whose number of columns may not be known yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Rows {
    /// The dimensions of the stack; empty for a matrix.
    pub stack: Vec<usize>,
    /// The rows of one matrix.
    pub rows: u64,
}

impl Rows {
    /// The rows of a tensor of codes, and its stored units (words or bytes) per row.
    pub(super) fn of(codes: &StoredTensor) -> Result<(Self, u64)> {
        match &codes.shape[..] {
            [stack @ .., rows, units] if stack.len() <= 1 && codes.elements() > 0 => {
                Ok((Self { stack: stack.to_vec(), rows: *rows as u64 }, *units as u64))
            }
            shape => {
                Err(AnamnesisError::parse(format!("it has shape {shape:?}; a matrix or a stack of them is needed")))
            }
        }
    }

    /// The number of matrices in the stack.
    pub(super) fn matrices(&self) -> u64 {
        self.stack.iter().map(|&dim| dim as u64).product()
    }

    /// The shape of a stack of matrices of `rows` by `cols`.
    pub(super) fn shape(&self, rows: u64, cols: u64) -> Vec<usize> {
        self.stack.iter().copied().chain([rows as usize, cols as usize]).collect()
    }

    /// The number of columns, if the scales determine it. Scales that do not fit the rows are refused.
    pub(super) fn check_scale(&self, scale: &StoredTensor, strategy: Strategy) -> Result<Option<u64>> {
        let fits = |rows: u64, cols: u64| scale.shape == self.shape(rows, cols);
        let last = scale.shape.last().map_or(0, |&last| last as u64);
        let (ok, cols, needed) = match strategy {
            Strategy::Tensor => (scale.shape.len() <= 2 && scale.elements() == 1, None, "one value".to_owned()),
            Strategy::Channel => (fits(self.rows, 1), None, format!("{:?}", self.shape(self.rows, 1))),
            Strategy::Group(size) => {
                let cols = last.checked_mul(size).filter(|&cols| cols > 0);
                (fits(self.rows, last) && cols.is_some(), cols, format!("{} rows of groups", self.rows))
            }
            Strategy::Block(rows, _) => {
                let rows = self.rows.div_ceil(rows);
                (self.stack.is_empty() && fits(rows, last), None, format!("{rows} rows of blocks of a matrix"))
            }
        };
        match ok {
            true => Ok(cols),
            false => Err(AnamnesisError::parse(format!(
                "{} has shape {:?}, but needs {needed}",
                quoted(&scale.name),
                scale.shape
            ))),
        }
    }

    /// The grid of scales of shape `scale_shape` over `cols` columns.
    pub(super) fn grid(&self, cols: u64, strategy: Strategy, scale_shape: &[usize]) -> Result<Grid> {
        let all_rows = self.matrices().saturating_mul(self.rows);
        let found = scale_shape.last().map_or(1, |&last| last as u64);
        let (grid, needed) = match strategy {
            Strategy::Tensor => (Grid::new(all_rows, cols, all_rows, cols, Arrangement::Tensor), found),
            Strategy::Channel => (Grid::new(self.rows, cols, 1, cols, Arrangement::Row), 1),
            Strategy::Group(size) => {
                if !cols.is_multiple_of(size) {
                    return Err(AnamnesisError::parse(format!("{cols} columns do not divide into groups of {size}")));
                }
                (Grid::new(self.rows, cols, 1, size, Arrangement::Block(1, size)), cols / size)
            }
            Strategy::Block(rows, width) => {
                (Grid::new(self.rows, cols, rows, width, Arrangement::Block(rows, width)), cols.div_ceil(width))
            }
        };
        match needed == found {
            true => Ok(grid),
            false => {
                Err(AnamnesisError::parse(format!("{cols} columns need {needed} scales in a row, there are {found}")))
            }
        }
    }
}

/// The type of scales that must be F32, BF16 or F16.
pub(super) fn float_scale(scale: &StoredTensor) -> Result<ScaleType> {
    ScaleType::of_float(scale.dtype).ok_or_else(|| {
        let (name, dtype) = (quoted(&scale.name), scale.dtype);
        AnamnesisError::unsupported(METHOD, format!("{name} is {dtype}; F32, BF16 and F16 are read"))
    })
}

/// Refuses zero points unless they are I8 in the shape of the scales.
pub(super) fn check_bytes(zero_point: &StoredTensor, scale: &StoredTensor) -> Result<()> {
    if zero_point.dtype == Dtype::I8 && zero_point.shape == scale.shape {
        return Ok(());
    }
    let (name, dtype, shape) = (quoted(&zero_point.name), zero_point.dtype, &zero_point.shape);
    Err(AnamnesisError::parse(format!("{name} is {dtype} {shape:?}; I8 {:?} is needed", scale.shape)))
}

/// Refuses a weight whose zero points are missing.
pub(super) fn check_symmetry(spec: &Spec, zero_point: Option<&StoredTensor>, name: &str) -> Result<()> {
    if spec.symmetric || zero_point.is_some() {
        return Ok(());
    }
    let (place, name) = (&spec.place, quoted(name));
    Err(AnamnesisError::parse(format!("{place} says it is not symmetric, but there is no {name}")))
}

/// A description of the values that share a scale.
pub(super) fn describe(strategy: Strategy) -> String {
    match strategy {
        Strategy::Tensor => "one scale per tensor".to_owned(),
        Strategy::Channel => "one scale per row".to_owned(),
        Strategy::Group(size) => format!("groups of {size}"),
        Strategy::Block(rows, cols) => format!("{rows}x{cols} blocks"),
    }
}

/// The rows and columns under one scale.
pub(super) fn block_shape(strategy: Strategy, cols: Option<u64>) -> Option<(u64, u64)> {
    match strategy {
        Strategy::Channel => Some((1, cols?)),
        Strategy::Block(rows, cols) => Some((rows, cols)),
        Strategy::Tensor | Strategy::Group(_) => None,
    }
}

/// The number of adjacent columns that share a scale.
pub(super) fn group_size(strategy: Strategy) -> Option<u64> {
    match strategy {
        Strategy::Group(size) => Some(size),
        Strategy::Tensor | Strategy::Channel | Strategy::Block(..) => None,
    }
}
