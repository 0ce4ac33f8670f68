//! Tables of symmetric maps: the values of the upper eight codes are the negatives of the lower eight.
//!
//! With a finite scale, negating the value negates the rounded product. So eight products per block are computed and
//! rounded, those of two blocks together, and the other eight are derived by flipping signs:
//!
//! ```text
//!   products   block 0: codes 0–7   block 1: codes 0–7
//!   words      block 0: codes 0–7, 8–15             block 1: codes 0–7, 8–15
//! ```

use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::{EachTwice, SMALL_TABLE, Simd};

/// Codes in each half of the map.
const EIGHT: usize = SMALL_TABLE / 2;

/// A symmetric map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mirror {
    /// The values of the lower eight codes, twice.
    numbers: [f32; SMALL_TABLE],
    /// The sign bits to flip in the words of two blocks.
    signs: [u16; GROUP],
}

impl Mirror {
    /// The symmetric form of a map; `None` if the map is not symmetric or not finite.
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

    /// The values of the lower eight codes times the scales of two blocks.
    #[inline(always)]
    pub(crate) fn products(&self, [first, second]: [f32; 2]) -> [f32; SMALL_TABLE] {
        let mut products = [first; SMALL_TABLE];
        products[EIGHT..].fill(second);
        for (product, number) in products.iter_mut().zip(&self.numbers) {
            *product *= number;
        }
        products
    }

    /// The rounded words of all codes of two blocks, from [products](Self::products) with finite factors.
    #[inline(always)]
    pub(crate) fn tables<S: Simd, O: Output>(&self, simd: S, products: &[f32; SMALL_TABLE]) -> [O::Word; GROUP] {
        O::flip(&O::round_sixteen::<S, EachTwice>(simd, products), &self.signs)
    }
}

/// Whether all scales are finite.
#[inline(always)]
pub(crate) fn are_finite(scales: &[f32]) -> bool {
    let largest = scales.iter().fold(0, |largest: u32, scale| largest.max(scale.to_bits() & 0x7FFF_FFFF));
    largest < f32::INFINITY.to_bits()
}
