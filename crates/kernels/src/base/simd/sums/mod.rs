//! Sums of looked-up bytes: roughly how far each of many points of a grid is.
//!
//! A point is two bytes, whose four nibbles are looked up in a table each.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::base::GROUP;

/// Tables for the four nibbles, the lowest first.
pub type Tables = [[u8; 16]; 4];

/// A group of points: their lower bytes, their upper bytes.
pub type Points = [[u8; GROUP]; 2];

/// Points whose distances are compared at once.
pub const FEW: usize = 16;

/// A CPU level's sums.
pub trait Sums: Copy {
    /// The tables for points of `D` elements, four or eight: an element is a nibble, or two are.
    ///
    /// `numbers` says what each level of each element counts, element by element; none is below zero. Numbers are rounded to
    /// whole ones, ties to even, and are 255 at most, as what two of them make together is; NaN is 255.
    fn tables<const D: usize>(self, numbers: &[f32; GROUP]) -> Tables;

    /// The least sum of all points, which is 255 at most.
    fn least(self, tables: &Tables, groups: &[Points]) -> u8;

    /// A bit for each point of a group whose sum is not above a limit.
    fn at_most(self, tables: &Tables, group: &Points, limit: u8) -> u32;

    /// The place of the nearest of the first [`FEW`] points of a group, the first of several. The distance of a point is the
    /// sum of what its levels add, in the order of elements; NaN is farther than any.
    fn nearest_of_few<const D: usize>(self, terms: &[f32; GROUP], group: &Points) -> usize;
}
