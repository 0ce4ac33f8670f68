//! The geometry of a ModelOpt weight: codes and scales along the rows of each matrix, or down its columns.

use crate::catalog::StoredTensor;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{Arrangement, Grid};
use crate::scheme::grouped::Layout;

/// The geometry of a weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// The decoded shape.
    pub output: Vec<usize>,
    pub grid: Grid,
    pub layout: Layout,
    /// The number of matrices in the stack.
    pub matrices: u64,
}

impl Shape {
    /// The geometry of two codes per byte and `group` codes per scale.
    pub(super) fn of(codes: &StoredTensor, scale: &StoredTensor, group: u64) -> Result<Self> {
        let fail = || {
            AnamnesisError::parse(format!(
                "bytes of shape {:?} and {} of shape {:?} are not two codes a byte and {group} a scale",
                codes.shape,
                quoted(&scale.name),
                scale.shape
            ))
        };
        let [stack @ .., rows, columns] = &codes.shape[..] else { return Err(fail()) };
        let [above @ .., scale_rows, scale_columns] = &scale.shape[..] else { return Err(fail()) };
        let [rows, columns, scale_rows, scale_columns] =
            [*rows, *columns, *scale_rows, *scale_columns].map(|size| size as u64);
        if above != stack || rows == 0 || columns == 0 {
            return Err(fail());
        }
        let doubled = |bytes: u64, scales: u64| {
            let codes = bytes.checked_mul(2)?;
            (scales.checked_mul(group)? == codes).then_some(codes)
        };
        let matrices = stack.iter().try_fold(1u64, |count, &size| count.checked_mul(size as u64)).ok_or_else(fail)?;
        let (rows, columns, grid, layout) = match (doubled(columns, scale_columns), doubled(rows, scale_rows)) {
            (Some(columns), _) if scale_rows == rows => {
                let grid = Grid::new(rows, columns, 1, group, Arrangement::Block(1, group));
                (rows, columns, grid, Layout::bytes(4, columns))
            }
            // Only stacked experts are stored transposed.
            (_, Some(rows)) if scale_columns == columns && !stack.is_empty() => {
                let grid = Grid::new(rows, columns, group, 1, Arrangement::Block(group, 1));
                (rows, columns, grid, Layout::RowPairs)
            }
            _ => return Err(fail()),
        };
        let output = [stack, &[rows as usize, columns as usize]].concat();
        Ok(Self { output, grid, layout, matrices })
    }

    /// The geometry of codes of two rows per byte and `group` codes of a row per scale.
    pub(super) fn of_row_pairs(codes: &StoredTensor, scale: &StoredTensor, group: u64) -> Result<Self> {
        let fail = || {
            AnamnesisError::parse(format!(
                "bytes of shape {:?} and {} of shape {:?} are not two rows a byte and {group} codes a scale",
                codes.shape,
                quoted(&scale.name),
                scale.shape
            ))
        };
        let [stack @ .., pairs, columns] = &codes.shape[..] else { return Err(fail()) };
        let [above @ .., rows, groups] = &scale.shape[..] else { return Err(fail()) };
        let [pairs, columns, rows, groups] = [*pairs, *columns, *rows, *groups].map(|size| size as u64);
        let is_whole = pairs.checked_mul(2) == Some(rows) && groups.checked_mul(group) == Some(columns);
        if above != stack || rows == 0 || columns == 0 || !is_whole {
            return Err(fail());
        }
        let matrices = stack.iter().try_fold(1u64, |count, &size| count.checked_mul(size as u64)).ok_or_else(fail)?;
        let grid = Grid::new(rows, columns, 1, group, Arrangement::Block(1, group));
        let output = [stack, &[rows as usize, columns as usize]].concat();
        Ok(Self { output, grid, layout: Layout::RowPairs, matrices })
    }
}
