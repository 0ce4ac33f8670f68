//! Approximate distances of grid points: sums of bytes looked up in tables.
//!
//! A point is two bytes; each of their four nibbles is looked up in its own table.

#[cfg_attr(target_arch = "aarch64", path = "neon.rs")]
mod bytes;
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

/// The sums of a CPU level.
pub trait Sums: Copy {
    /// The tables for points of `D` elements: for `D` = 4 an element is a nibble, for `D` = 8 two elements are.
    ///
    /// `numbers` has the non-negative distance of each level of each element. Distances, and sums of two of them, are
    /// rounded to integers, ties to even, and saturate at 255; NaN is 255.
    fn tables<const D: usize>(self, numbers: &[f32; GROUP]) -> Tables;

    /// The smallest sum of all points, saturated at 255.
    fn least(self, tables: &Tables, groups: &[Points]) -> u8;

    /// A bit for each point of a group whose sum is at most `limit`.
    fn at_most(self, tables: &Tables, group: &Points, limit: u8) -> u32;

    /// The index of the nearest of the first [`FEW`] points of a group, the first of several. The distance of a point
    /// is the sum of `terms` over its levels, in the order of elements; NaN is farther than any number.
    fn nearest_of_few<const D: usize>(self, terms: &[f32; GROUP], group: &Points) -> usize;
}
