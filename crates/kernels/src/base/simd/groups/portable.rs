//! The portable reductions of a group.

use super::Groups;
use crate::base::GROUP;
use crate::base::simd::Portable;

/// A bit for each element.
#[inline(always)]
fn bits(is_set: impl Fn(usize) -> bool) -> u32 {
    let mut bits = 0;
    for place in 0..GROUP {
        bits |= u32::from(is_set(place)) << place;
    }
    bits
}

impl Groups for Portable {
    #[inline(always)]
    fn largest(self, values: &[i32; GROUP]) -> i32 {
        values.iter().fold(i32::MIN, |largest, value| largest.max(*value))
    }

    #[inline(always)]
    fn largest_of_halves(self, values: &[i32; GROUP]) -> [i32; 2] {
        let (first, second) = values.split_at(GROUP / 2);
        let largest = |half: &[i32]| half.iter().fold(i32::MIN, |largest, value| largest.max(*value));
        [largest(first), largest(second)]
    }

    #[inline(always)]
    fn equal(self, values: &[i32; GROUP], one: i32) -> u32 {
        bits(|place| values[place] == one)
    }

    #[inline(always)]
    fn not_below(self, a: &[f32; GROUP], b: &[f32; GROUP]) -> u32 {
        bits(|place| a[place] >= b[place])
    }
}
