//! Reductions of a group: its largest element, and which elements equal a value.
//!
//! Hand-written because the compiler scalarises reductions within a group.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::base::GROUP;

/// A CPU level's operations on whole groups.
pub trait Groups: Copy {
    /// The largest element.
    fn largest(self, values: &[i32; GROUP]) -> i32;

    /// The largest element of each half.
    fn largest_of_halves(self, values: &[i32; GROUP]) -> [i32; 2];

    /// A bit for each element equal to `one`.
    fn equal(self, values: &[i32; GROUP], one: i32) -> u32;

    /// A bit for each pair with `a >= b`; 0 for NaN.
    fn not_below(self, a: &[f32; GROUP], b: &[f32; GROUP]) -> u32;
}
