//! Approximate distances at the x86-64 levels: a byte shuffle is 32 look-ups.

use std::arch::x86_64::*;

use super::{Points, Sums, Tables};
use crate::base::GROUP;
use crate::base::simd::{V3, V4};

/// `shuffle!(byte => source)`: the indices of a byte shuffle, the same for both lanes.
macro_rules! shuffle {
    ($byte:ident => $source:expr) => {{
        const INDICES: [u8; GROUP] = {
            let mut indices = [0; GROUP];
            let mut i = 0;
            while i < GROUP {
                let $byte = i % 16;
                indices[i] = ($source) as u8;
                i += 1;
            }
            indices
        };
        // SAFETY: the load covers exactly the indices.
        unsafe { _mm256_loadu_si256(INDICES.as_ptr().cast()) }
    }};
}

/// The tables of [`Sums::tables`]: the first and the third, the second and the fourth; or, of four elements, the first two
/// and the last two.
#[inline]
#[target_feature(enable = "avx2")]
fn tables_avx2<const D: usize>(numbers: &[f32; GROUP]) -> Tables {
    let quarter = |index: usize| {
        // SAFETY: the load covers a quarter of the numbers.
        let numbers = unsafe { _mm256_loadu_ps(numbers.as_ptr().add(8 * index)) };
        // The second operand is returned for NaN.
        _mm256_cvtps_epi32(_mm256_min_ps(numbers, _mm256_set1_ps(255.0)))
    };
    let first = _mm256_packs_epi32(quarter(0), quarter(1));
    let second = _mm256_packs_epi32(quarter(2), quarter(3));
    // Packing works within lanes: doublewords 0, 2, 4, 6, 1, 3, 5, 7.
    let bytes = _mm256_packus_epi16(first, second);
    let mut tables = [[0; 16]; 4];
    let mut put = |places: [usize; 2], pair: __m256i| {
        // SAFETY: each store covers exactly a table.
        unsafe {
            _mm_storeu_si128(tables[places[0]].as_mut_ptr().cast(), _mm256_castsi256_si128(pair));
            _mm_storeu_si128(tables[places[1]].as_mut_ptr().cast(), _mm256_extracti128_si256::<1>(pair));
        }
    };
    if D == 8 {
        let ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        let pairs = |low: __m256i, high: __m256i| {
            _mm256_adds_epu8(_mm256_shuffle_epi8(ordered, low), _mm256_shuffle_epi8(ordered, high))
        };
        put([0, 2], pairs(shuffle!(byte => byte % 4), shuffle!(byte => 4 + byte / 4)));
        put([1, 3], pairs(shuffle!(byte => 8 + byte % 4), shuffle!(byte => 12 + byte / 4)));
    } else {
        put([0, 1], _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 0, 4, 1, 5, 1, 5)));
        put([2, 3], _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(2, 6, 2, 6, 3, 7, 3, 7)));
    }
    tables
}

/// The sums of a group.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_avx2(tables: &Tables, [lower, upper]: &Points) -> __m256i {
    let nibble = _mm256_set1_epi8(15);
    // SAFETY: each load covers exactly a table.
    let table = |index: usize| unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(tables[index].as_ptr().cast())) };
    // SAFETY: each load covers exactly the bytes of a group.
    let (lower, upper) =
        unsafe { (_mm256_loadu_si256(lower.as_ptr().cast()), _mm256_loadu_si256(upper.as_ptr().cast())) };
    let low = |bytes: __m256i| _mm256_and_si256(bytes, nibble);
    let high = |bytes: __m256i| _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble);
    let first = _mm256_shuffle_epi8(table(0), low(lower));
    let second = _mm256_shuffle_epi8(table(1), high(lower));
    let third = _mm256_shuffle_epi8(table(2), low(upper));
    let fourth = _mm256_shuffle_epi8(table(3), high(upper));
    _mm256_adds_epu8(_mm256_adds_epu8(first, second), _mm256_adds_epu8(third, fourth))
}

#[inline]
#[target_feature(enable = "avx2")]
fn least_avx2(tables: &Tables, groups: &[Points]) -> u8 {
    let mut least = _mm256_set1_epi8(-1);
    for group in groups {
        least = _mm256_min_epu8(least, sums_avx2(tables, group));
    }
    let half = _mm_min_epu8(_mm256_castsi256_si128(least), _mm256_extracti128_si256::<1>(least));
    // The upper byte of each word becomes zero, so that each word is the smaller of two sums.
    let words = _mm_min_epu8(half, _mm_srli_epi16::<8>(half));
    _mm_cvtsi128_si32(_mm_minpos_epu16(words)) as u8
}

#[inline]
#[target_feature(enable = "avx2")]
fn at_most_avx2(tables: &Tables, group: &Points, limit: u8) -> u32 {
    let sums = sums_avx2(tables, group);
    let limit = _mm256_set1_epi8(limit.cast_signed());
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(sums, limit), sums)).cast_unsigned()
}

/// [`Sums::nearest_of_few`], eight at a time.
#[inline]
#[target_feature(enable = "avx2")]
fn nearest_of_few_avx2<const D: usize>(terms: &[f32; GROUP], [lower, upper]: &Points) -> usize {
    // SAFETY: the loads cover the quarters of the terms.
    let quarters: [__m256; 4] = std::array::from_fn(|index| unsafe { _mm256_loadu_ps(terms.as_ptr().add(8 * index)) });
    let distances = |start: usize| {
        // SAFETY: the loads cover the first or second eight of the bytes.
        let bytes =
            |bytes: &[u8; GROUP]| unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(bytes.as_ptr().add(start).cast())) };
        let halves = [bytes(lower), bytes(upper)];
        let mut sum = _mm256_setzero_ps();
        for (index, quarter) in quarters.into_iter().enumerate() {
            // A quarter of the terms belongs to a nibble. The permutation uses three bits of each index.
            let nibbles = _mm256_srl_epi32(halves[index / 2], _mm_cvtsi32_si128(4 * (index % 2) as i32));
            if D == 8 {
                let (three, four) = (_mm256_set1_epi32(3), _mm256_set1_epi32(4));
                let first = _mm256_and_si256(nibbles, three);
                let second = _mm256_or_si256(_mm256_srli_epi32::<2>(nibbles), four);
                sum = _mm256_add_ps(sum, _mm256_permutevar8x32_ps(quarter, first));
                sum = _mm256_add_ps(sum, _mm256_permutevar8x32_ps(quarter, second));
            } else {
                sum = _mm256_add_ps(sum, _mm256_permutevar8x32_ps(quarter, nibbles));
            }
        }
        _mm256_castps_si256(sum)
    };
    let (first, second) = (distances(0), distances(8));
    // Distances are non-negative: their bits compare like them.
    let eight = _mm256_min_epi32(first, second);
    let four = _mm_min_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
    let two = _mm_min_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm256_broadcastd_epi32(_mm_min_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)));
    let is_least = |distances: __m256i| {
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(distances, one))).cast_unsigned()
    };
    (is_least(first) | is_least(second) << 8).trailing_zeros() as usize
}

/// [`Sums::nearest_of_few`], all at once.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nearest_of_few_avx512<const D: usize>(terms: &[f32; GROUP], [lower, upper]: &Points) -> usize {
    // SAFETY: the loads cover the halves of the terms, and the first half of the bytes.
    let (halves, bytes) = unsafe {
        let bytes = |bytes: &[u8; GROUP]| _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
        ([_mm512_loadu_ps(terms.as_ptr()), _mm512_loadu_ps(terms.as_ptr().add(16))], [bytes(lower), bytes(upper)])
    };
    let mut sum = _mm512_setzero_ps();
    for (half, bytes) in halves.into_iter().zip(bytes) {
        // A half of the terms belongs to a byte. The permutation uses four bits of each index.
        let mut add = |index: __m512i| sum = _mm512_add_ps(sum, _mm512_permutexvar_ps(index, half));
        if D == 8 {
            let three = _mm512_set1_epi32(3);
            // `4 * element | levels & 3`.
            let index = |levels: __m512i, element: i32| {
                _mm512_ternarylogic_epi32::<0xF8>(_mm512_set1_epi32(4 * element), levels, three)
            };
            add(index(bytes, 0));
            add(index(_mm512_srli_epi32::<2>(bytes), 1));
            add(index(_mm512_srli_epi32::<4>(bytes), 2));
            add(index(_mm512_srli_epi32::<6>(bytes), 3));
        } else {
            add(bytes);
            add(_mm512_or_si512(_mm512_srli_epi32::<4>(bytes), _mm512_set1_epi32(8)));
        }
    }
    // Distances are non-negative: their bits compare like them.
    let distances = _mm512_castps_si512(sum);
    let least = _mm512_reduce_min_epi32(distances);
    _mm512_cmpeq_epi32_mask(distances, _mm512_set1_epi32(least)).trailing_zeros() as usize
}

/// The operations of both levels, with the instructions of each.
macro_rules! sums {
    ($($level:ident $nearest_of_few:ident)*) => {$(
        impl Sums for $level {
            #[inline(always)]
            fn tables<const D: usize>(self, numbers: &[f32; GROUP]) -> Tables {
                // SAFETY: the token proves AVX2.
                unsafe { tables_avx2::<D>(numbers) }
            }

            #[inline(always)]
            fn least(self, tables: &Tables, groups: &[Points]) -> u8 {
                // SAFETY: the token proves AVX2.
                unsafe { least_avx2(tables, groups) }
            }

            #[inline(always)]
            fn at_most(self, tables: &Tables, group: &Points, limit: u8) -> u32 {
                // SAFETY: the token proves AVX2.
                unsafe { at_most_avx2(tables, group, limit) }
            }

            #[inline(always)]
            fn nearest_of_few<const D: usize>(self, terms: &[f32; GROUP], group: &Points) -> usize {
                // SAFETY: the token proves AVX2, and AVX-512 F and BW where they are used.
                unsafe { $nearest_of_few::<D>(terms, group) }
            }
        }
    )*};
}

sums!(V3 nearest_of_few_avx2 V4 nearest_of_few_avx512);
