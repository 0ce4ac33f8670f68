//! Rotating groups of columns back by a regular Hadamard matrix (ConvRot).
//!
//! The matrix is the Kronecker power of `[[1,1,1,-1],[1,1,-1,1],[1,-1,1,1],[-1,1,1,1]]` divided by the root of its size,
//! a power of two. It is symmetric and its own inverse.

use std::ops::Range;
use std::sync::OnceLock;

use anamnesis_kernels::products;

use super::context::Context;
use super::filled::{filled, mishandled};
use super::refined::Refine;
use crate::error::Result;

/// Multiplies each group of columns by the matrix, with the sums in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rotated {
    /// Columns of a group.
    group: usize,
}

/// Sizes of groups: 4, 16, 64, 256 and 1024.
const SIZES: usize = 5;

/// The matrices, by the number of digits to base four; each is made when it is first needed.
static MATRICES: [OnceLock<Vec<f32>>; SIZES] = [const { OnceLock::new() }; SIZES];

impl Rotated {
    /// The rotation of groups of this size; `None` if it is not a power of four up to 1024.
    pub(crate) fn of(group: u64) -> Option<Self> {
        let is_power = group.is_power_of_two() && group.trailing_zeros().is_multiple_of(2);
        let fits = (1..=SIZES as u32).contains(&(group.trailing_zeros() / 2));
        (is_power && fits).then_some(Self { group: group as usize })
    }

    /// Columns of a group.
    pub(crate) const fn group(self) -> u64 {
        self.group as u64
    }

    fn matrix(self) -> Option<&'static [f32]> {
        let digits = self.group.trailing_zeros() as usize / 2;
        let matrix = MATRICES.get(digits.checked_sub(1)?)?;
        Some(matrix.get_or_init(|| (0..self.group * self.group).map(|place| self.entry(place)).collect()))
    }

    fn entry(self, place: usize) -> f32 {
        let scale = 1.0 / (self.group as f32).sqrt();
        let (mut row, mut col, mut is_negative) = (place / self.group, place % self.group, false);
        while row > 0 || col > 0 {
            is_negative ^= row % 4 + col % 4 == 3;
            (row, col) = (row / 4, col / 4);
        }
        if is_negative { -scale } else { scale }
    }
}

impl Refine for Rotated {
    fn refine(&self, _: &Range<u64>, _: &[&[u8]], values: &mut [f32], context: &mut Context) -> Result<()> {
        let matrix = self.matrix().ok_or_else(|| mishandled("a group of another size"))?;
        let mut result = context.lend_floats(values.len());
        let written = products(context.level(), values, self.group, matrix, self.group, &mut result);
        filled(written, values.len())?;
        values.copy_from_slice(&result);
        context.take_back_floats(result);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_symmetric_and_its_own_inverse() {
        for group in [4, 16, 64, 256] {
            let rotated = Rotated::of(group).unwrap();
            let mut values: Vec<f32> = (0..2 * group).map(|value| value as f32).collect();
            let matrix = rotated.matrix().unwrap();
            let at = |row: u64, col: u64| matrix[(row * group + col) as usize];
            assert!((0..group).all(|row| (0..group).all(|col| at(row, col) == at(col, row))));
            assert_eq!(at(0, 3), -1.0 / (group as f32).sqrt());
            for _ in 0..2 {
                rotated.refine(&(0..2), &[], &mut values, &mut Context::default()).unwrap();
            }
            assert!(values.iter().enumerate().all(|(value, found)| *found == value as f32), "{group}");
        }
        assert!([0, 1, 2, 8, 32, 4096].into_iter().all(|group| Rotated::of(group).is_none()));
    }
}
