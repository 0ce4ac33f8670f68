//! Tables of sixteen codes for half a group, where the upper eight are the negatives of the lower eight.
//!
//! A product and its rounding are the same but for the sign, if the factor is finite. So of each block eight numbers are
//! calculated and rounded instead of sixteen, those of two blocks together, and the others have their signs flipped:
//!
//! ```text
//!   numbers    block 0: codes 0–7   block 1: codes 0–7
//!   words      block 0: codes 0–7, 8–15             block 1: codes 0–7, 8–15
//! ```

use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::{EachTwice, SMALL_TABLE, Simd};

/// Codes that mirror each other.
const EIGHT: usize = SMALL_TABLE / 2;

/// A map that mirrors itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mirror {
    /// The values of the lower eight codes, twice.
    numbers: [f32; SMALL_TABLE],
    /// The signs of the words of two blocks that differ from those of the lower eight codes.
    signs: [u16; GROUP],
}

impl Mirror {
    /// The mirror of a map, if it is one.
    pub(crate) const fn of(map: &[f32; SMALL_TABLE]) -> Option<Self> {
        let (mut numbers, mut signs) = ([0.0; SMALL_TABLE], [0; GROUP]);
        let mut code = 0;
        while code < EIGHT {
            let (lower, upper) = (map[code], map[code + EIGHT]);
            // ∞ × 0 is the same NaN as −∞ × 0, and NaN equals nothing.
            if !lower.is_finite() || lower.abs() != upper.abs() {
                return None;
            }
            (numbers[code], numbers[code + EIGHT]) = (lower, lower);
            let sign = ((lower.to_bits() ^ upper.to_bits()) >> 16) as u16;
            (signs[code + EIGHT], signs[code + SMALL_TABLE + EIGHT]) = (sign, sign);
            code += 1;
        }
        Some(Self { numbers, signs })
    }

    /// The lower eight numbers of two blocks under their scales.
    #[inline(always)]
    pub(crate) fn products(&self, [first, second]: [f32; 2]) -> [f32; SMALL_TABLE] {
        let mut products = [first; SMALL_TABLE];
        products[EIGHT..].fill(second);
        for (product, number) in products.iter_mut().zip(&self.numbers) {
            *product *= number;
        }
        products
    }

    /// The finished words of all codes of two blocks, from [products](Self::products) with finite factors.
    #[inline(always)]
    pub(crate) fn tables<S: Simd, O: Output>(&self, simd: S, products: &[f32; SMALL_TABLE]) -> [O::Word; GROUP] {
        O::flip(&O::round_sixteen::<S, EachTwice>(simd, products), &self.signs)
    }
}

/// Whether no scale is infinite or NaN.
#[inline(always)]
pub(crate) fn are_finite(scales: &[f32]) -> bool {
    let largest = scales.iter().fold(0, |largest: u32, scale| largest.max(scale.to_bits() & 0x7FFF_FFFF));
    largest < f32::INFINITY.to_bits()
}
