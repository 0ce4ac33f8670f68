//! Reductions of a group: its largest element, and which elements equal a value.
//!
//! By hand because the compiler takes a group apart where its elements meet.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::base::GROUP;

/// A CPU level's operations on whole groups.
pub trait Groups: Copy {
    /// The largest of a group.
    fn largest(self, values: &[i32; GROUP]) -> i32;

    /// The largest of each half of a group.
    fn largest_of_halves(self, values: &[i32; GROUP]) -> [i32; 2];

    /// A bit for each of a group that is this one.
    fn equal(self, values: &[i32; GROUP], one: i32) -> u32;

    /// A bit for each pair whose first is not below its second; none for NaN.
    fn not_below(self, a: &[f32; GROUP], b: &[f32; GROUP]) -> u32;
}
