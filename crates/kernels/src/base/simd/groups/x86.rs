//! Reductions of a group at the x86-64 levels.

use std::arch::x86_64::*;

use super::Groups;
use crate::base::GROUP;
use crate::base::simd::{V3, V4};

/// The largest of eight.
#[inline]
#[target_feature(enable = "avx2")]
fn largest_of_eight(values: __m256i) -> i32 {
    let four = _mm_max_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256::<1>(values));
    let two = _mm_max_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
}

/// `by_eight!(place => bits)`: the bits of a group, eight at a time.
macro_rules! by_eight {
    ($place:ident => $bits:expr) => {{
        let mut bits = 0;
        for $place in (0..GROUP).step_by(8) {
            // SAFETY: the token proves AVX2; loads are unaligned and cover eight elements from a multiple of eight.
            bits |= unsafe { $bits }.cast_unsigned() << $place;
        }
        bits
    }};
}

/// `by_half!(place => bits)`: the bits of a group, sixteen at a time.
macro_rules! by_half {
    ($place:ident => $bits:expr) => {{
        let mut bits = 0;
        for $place in [0, GROUP / 2] {
            // SAFETY: the token proves AVX-512 F; loads are unaligned and cover a half.
            bits |= u32::from(unsafe { $bits }) << $place;
        }
        bits
    }};
}

impl Groups for V3 {
    #[inline(always)]
    fn largest(self, values: &[i32; GROUP]) -> i32 {
        // SAFETY: the token proves AVX2; loads are unaligned and cover the quarters.
        unsafe {
            let quarter = |index: usize| _mm256_loadu_si256(values.as_ptr().add(8 * index).cast());
            let halves = [_mm256_max_epi32(quarter(0), quarter(1)), _mm256_max_epi32(quarter(2), quarter(3))];
            largest_of_eight(_mm256_max_epi32(halves[0], halves[1]))
        }
    }

    #[inline(always)]
    fn largest_of_halves(self, values: &[i32; GROUP]) -> [i32; 2] {
        // SAFETY: the token proves AVX2; loads are unaligned and cover the quarters.
        unsafe {
            let quarter = |index: usize| _mm256_loadu_si256(values.as_ptr().add(8 * index).cast());
            let halves = [_mm256_max_epi32(quarter(0), quarter(1)), _mm256_max_epi32(quarter(2), quarter(3))];
            [largest_of_eight(halves[0]), largest_of_eight(halves[1])]
        }
    }

    #[inline(always)]
    fn equal(self, values: &[i32; GROUP], one: i32) -> u32 {
        by_eight!(place => {
            let eight = _mm256_loadu_si256(values.as_ptr().add(place).cast());
            _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(eight, _mm256_set1_epi32(one))))
        })
    }

    #[inline(always)]
    fn not_below(self, a: &[f32; GROUP], b: &[f32; GROUP]) -> u32 {
        by_eight!(place => {
            let (a, b) = (_mm256_loadu_ps(a.as_ptr().add(place)), _mm256_loadu_ps(b.as_ptr().add(place)));
            _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a, b))
        })
    }
}

impl Groups for V4 {
    #[inline(always)]
    fn largest(self, values: &[i32; GROUP]) -> i32 {
        // SAFETY: the token proves AVX-512 F and AVX2; loads are unaligned and cover the halves.
        unsafe {
            let half = |index: usize| _mm512_loadu_si512(values.as_ptr().add(16 * index).cast());
            let sixteen = _mm512_max_epi32(half(0), half(1));
            let (low, high) = (_mm512_castsi512_si256(sixteen), _mm512_extracti64x4_epi64::<1>(sixteen));
            largest_of_eight(_mm256_max_epi32(low, high))
        }
    }

    #[inline(always)]
    fn largest_of_halves(self, values: &[i32; GROUP]) -> [i32; 2] {
        // SAFETY: the token proves AVX-512 F and AVX2; loads are unaligned and cover the halves.
        unsafe {
            let largest = |index: usize| {
                let half = _mm512_loadu_si512(values.as_ptr().add(16 * index).cast());
                let (low, high) = (_mm512_castsi512_si256(half), _mm512_extracti64x4_epi64::<1>(half));
                largest_of_eight(_mm256_max_epi32(low, high))
            };
            [largest(0), largest(1)]
        }
    }

    #[inline(always)]
    fn equal(self, values: &[i32; GROUP], one: i32) -> u32 {
        by_half!(place => {
            let sixteen = _mm512_loadu_si512(values.as_ptr().add(place).cast());
            _mm512_cmpeq_epi32_mask(sixteen, _mm512_set1_epi32(one))
        })
    }

    #[inline(always)]
    fn not_below(self, a: &[f32; GROUP], b: &[f32; GROUP]) -> u32 {
        by_half!(place => {
            let (a, b) = (_mm512_loadu_ps(a.as_ptr().add(place)), _mm512_loadu_ps(b.as_ptr().add(place)));
            _mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b)
        })
    }
}
