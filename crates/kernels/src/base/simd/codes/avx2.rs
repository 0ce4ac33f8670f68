//! Operations on packed codes with AVX2.

use std::arch::x86_64::*;

use super::{Arrangement, Codes, SMALL_TABLE, Windows, arrange};
use crate::base::GROUP;
use crate::base::packing::Packing;
use crate::base::simd::V3;
use crate::base::simd::x86::{round_bf16_avx2, round_bf16_or_nan_avx2};

impl Codes for V3 {
    const SHUFFLES: bool = true;
    const NUMBERS: bool = false;

    #[inline(always)]
    fn unsigned(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (to, from) in numbers.as_chunks_mut::<8>().0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            // SAFETY: the token proves AVX2; loads and stores are unaligned and cover exactly the eight elements.
            unsafe {
                let eight = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast()));
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtepi32_ps(eight));
            }
        }
        numbers
    }

    #[inline(always)]
    fn signed(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (to, from) in numbers.as_chunks_mut::<8>().0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            // SAFETY: the token proves AVX2; loads and stores are unaligned and cover exactly the eight elements.
            unsafe {
                let eight = _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.as_ptr().cast()));
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtepi32_ps(eight));
            }
        }
        numbers
    }

    #[inline(always)]
    fn fields(self, words: &[[u8; 4]; GROUP], shift: u32, mask: u32) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (to, from) in numbers.as_chunks_mut::<8>().0.iter_mut().zip(words.as_chunks::<8>().0) {
            // SAFETY: the token proves AVX2; loads and stores are unaligned and cover exactly the eight elements.
            unsafe {
                let shift = _mm_cvtsi32_si128(shift.cast_signed());
                let shifted = _mm256_srl_epi32(_mm256_loadu_si256(from.as_ptr().cast()), shift);
                let fields = _mm256_and_si256(shifted, _mm256_set1_epi32(mask.cast_signed()));
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtepi32_ps(fields));
            }
        }
        numbers
    }

    #[inline(always)]
    fn digits(self, bytes: &[u8; GROUP], factors: &[u16; GROUP]) -> [u16; GROUP] {
        let mut digits = [0; GROUP];
        for i in [0, 16] {
            // SAFETY: the token proves AVX2; loads and stores are unaligned and cover halves of the bytes, factors and digits.
            unsafe {
                let wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(bytes.as_ptr().add(i).cast()));
                let fractions = _mm256_mullo_epi16(wide, _mm256_loadu_si256(factors.as_ptr().add(i).cast()));
                let sixteen = _mm256_mulhi_epu16(fractions, _mm256_set1_epi16(3));
                _mm256_storeu_si256(digits.as_mut_ptr().add(i).cast(), sixteen);
            }
        }
        digits
    }

    #[inline(always)]
    fn codes<P: Packing>(self, packed: &[u8; GROUP]) -> [u8; GROUP] {
        let mut codes = [0; GROUP];
        // SAFETY: the token proves AVX2; the store covers exactly the codes.
        unsafe {
            // In quarters of eight codes: 0, 2, 1, 3.
            let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(code_bytes::<P>(packed));
            _mm256_storeu_si256(codes.as_mut_ptr().cast(), ordered);
        }
        codes
    }

    #[inline(always)]
    fn bf16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        let mut words = [0; SMALL_TABLE];
        // SAFETY: the token proves AVX2; the loads cover the halves of the values, the store the words.
        unsafe {
            let eight = |index: usize| {
                let eight = _mm256_loadu_ps(values.as_ptr().add(8 * index));
                if A::HAS_NAN { round_bf16_or_nan_avx2(eight) } else { round_bf16_avx2(_mm256_castps_si256(eight)) }
            };
            // Packing works within 128-bit lanes: 0–3, 8–11, 4–7, 12–15.
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(eight(0), eight(1)));
            _mm256_storeu_si256(words.as_mut_ptr().cast(), packed);
        }
        arrange::<A, _>(&words)
    }

    #[inline(always)]
    fn f16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        let mut words = [0; SMALL_TABLE];
        for (to, from) in words.as_chunks_mut::<8>().0.iter_mut().zip(values.as_chunks::<8>().0) {
            // SAFETY: the token proves AVX and F16C; loads and stores are unaligned and cover exactly the eight elements.
            unsafe {
                let eight = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
                _mm_storeu_si128(to.as_mut_ptr().cast(), eight);
            }
        }
        arrange::<A, _>(&words)
    }

    #[inline(always)]
    fn words<P: Packing>(self, table: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX2; the load covers the first half of the table, the stores the two halves of the words.
        unsafe {
            let [low, high] = looked_up(table, code_bytes::<P>(packed));
            _mm256_storeu_si256(words.as_mut_ptr().cast(), low);
            _mm256_storeu_si256(words.as_mut_ptr().add(16).cast(), high);
        }
        words
    }

    #[inline(always)]
    fn words_of_few(self, table: &[u16; GROUP], codes: &[u16; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX2; the loads cover the first half of the table and the halves of the codes, the stores those
        // of the words.
        unsafe {
            let half = |index: usize| {
                let sixteen = _mm256_loadu_si256(codes.as_ptr().add(16 * index).cast());
                _mm256_and_si256(sixteen, _mm256_set1_epi16(3))
            };
            let [low, high] = looked_up(table, _mm256_packus_epi16(half(0), half(1)));
            _mm256_storeu_si256(words.as_mut_ptr().cast(), low);
            _mm256_storeu_si256(words.as_mut_ptr().add(16).cast(), high);
        }
        words
    }

    #[inline(always)]
    fn values_of_few(self, table: &[u32; SMALL_TABLE], codes: &[u16; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX2; the loads cover the first half of the table and quarters of the codes, the stores the
        // quarters of the values.
        unsafe {
            let table = _mm256_loadu_ps(table.as_ptr().cast());
            for i in (0..GROUP).step_by(8) {
                let codes = _mm256_cvtepu16_epi32(_mm_loadu_si128(codes.as_ptr().add(i).cast()));
                _mm256_storeu_ps(values.as_mut_ptr().add(i).cast(), _mm256_permutevar8x32_ps(table, codes));
            }
        }
        values
    }

    #[inline(always)]
    fn values<P: Packing>(self, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX2; loads cover the halves of the table and quarters of the constants, stores the
        // quarters of the values.
        unsafe {
            let lower = _mm256_loadu_ps(table.as_ptr().cast());
            let upper = _mm256_loadu_ps(table.as_ptr().add(8).cast());
            for i in (0..GROUP).step_by(8) {
                let bytes = _mm256_loadu_si256(Windows::<P>::WIDE_BYTES.as_ptr().add(i).cast());
                let shifts = _mm256_loadu_si256(Windows::<P>::WIDE_SHIFTS.as_ptr().add(i).cast());
                let codes = _mm256_srlv_epi32(_mm256_shuffle_epi8(packed_half::<P>(packed, i / 16), bytes), shifts);
                let mut found = _mm256_permutevar8x32_ps(lower, codes);
                if P::BITS == 4 {
                    // The blend selects by the sign bit, which is bit 3 of the code.
                    let is_upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
                    found = _mm256_blendv_ps(found, _mm256_permutevar8x32_ps(upper, codes), is_upper);
                }
                _mm256_storeu_ps(values.as_mut_ptr().add(i).cast(), found);
            }
        }
        values
    }

    #[inline(always)]
    fn words_by_half<P: Packing>(self, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX2; the loads cover the halves of the tables, the stores those of the words.
        unsafe {
            let first = _mm256_loadu_si256(tables.as_ptr().cast());
            let second = _mm256_loadu_si256(tables.as_ptr().add(16).cast());
            let low_byte = _mm256_set1_epi16(0xFF);
            let low = _mm256_packus_epi16(_mm256_and_si256(first, low_byte), _mm256_and_si256(second, low_byte));
            let high = _mm256_packus_epi16(_mm256_srli_epi16::<8>(first), _mm256_srli_epi16::<8>(second));
            // Packing works within lanes: after this, a lane holds the bytes of one table and the codes of its half.
            let low_plane = _mm256_permute4x64_epi64::<0b11_01_10_00>(low);
            let high_plane = _mm256_permute4x64_epi64::<0b11_01_10_00>(high);
            let codes = _mm256_permute4x64_epi64::<0b11_01_10_00>(code_bytes::<P>(packed));
            let low = _mm256_shuffle_epi8(low_plane, codes);
            let high = _mm256_shuffle_epi8(high_plane, codes);
            let (outer, inner) = (_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high));
            let halves =
                [_mm256_permute2x128_si256::<0x20>(outer, inner), _mm256_permute2x128_si256::<0x31>(outer, inner)];
            _mm256_storeu_si256(words.as_mut_ptr().cast(), halves[0]);
            _mm256_storeu_si256(words.as_mut_ptr().add(16).cast(), halves[1]);
        }
        words
    }

    #[inline(always)]
    fn values_by_half<P: Packing>(self, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX2; loads cover quarters of the tables and of the constants, stores the quarters of
        // the values.
        unsafe {
            for i in (0..GROUP).step_by(8) {
                let table = tables.as_ptr().add(i / SMALL_TABLE * SMALL_TABLE);
                let (lower, upper) = (_mm256_loadu_ps(table.cast()), _mm256_loadu_ps(table.add(8).cast()));
                let bytes = _mm256_loadu_si256(Windows::<P>::WIDE_BYTES.as_ptr().add(i).cast());
                let shifts = _mm256_loadu_si256(Windows::<P>::WIDE_SHIFTS.as_ptr().add(i).cast());
                let codes = _mm256_srlv_epi32(_mm256_shuffle_epi8(packed_half::<P>(packed, i / 16), bytes), shifts);
                // The blend selects by the sign bit, which is bit 3 of the code.
                let is_upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
                let low = _mm256_permutevar8x32_ps(lower, codes);
                let found = _mm256_blendv_ps(low, _mm256_permutevar8x32_ps(upper, codes), is_upper);
                _mm256_storeu_ps(values.as_mut_ptr().add(i).cast(), found);
            }
        }
        values
    }
}

/// The packed bytes of the lower or upper half of a group's codes, or of the whole group, in both lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn packed_half<P: Packing>(packed: &[u8; GROUP], half: usize) -> __m256i {
    if P::BITS == 3 {
        let eight = packed.as_chunks::<8>().0[half];
        _mm256_set1_epi64x(i64::from_le_bytes(eight))
    } else {
        let start = if Windows::<P>::IN_HALVES { half * 16 } else { 0 };
        // SAFETY: the load covers one of the two halves of the packed bytes.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(packed.as_ptr().add(start).cast())) }
    }
}

/// The words of a group's codes, which are bytes in quarters of eight: 0, 2, 1, 3.
#[inline]
#[target_feature(enable = "avx2")]
fn looked_up(table: &[u16; GROUP], codes: __m256i) -> [__m256i; 2] {
    // SAFETY: the load covers the first half of the table.
    let table = unsafe { _mm256_loadu_si256(table.as_ptr().cast()) };
    let low_bytes = _mm256_and_si256(table, _mm256_set1_epi16(0xFF));
    let planes = _mm256_packus_epi16(low_bytes, _mm256_srli_epi16::<8>(table));
    let low = _mm256_shuffle_epi8(_mm256_permute4x64_epi64::<0b10_00_10_00>(planes), codes);
    let high = _mm256_shuffle_epi8(_mm256_permute4x64_epi64::<0b11_01_11_01>(planes), codes);
    [_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)]
}

/// A group's codes as bytes, in quarters of eight: 0, 2, 1, 3.
#[inline]
#[target_feature(enable = "avx2")]
fn code_bytes<P: Packing>(packed: &[u8; GROUP]) -> __m256i {
    // SAFETY: the loads cover the lower or upper halves of the constants.
    let half = |start: usize| unsafe {
        let bytes = _mm256_loadu_si256(Windows::<P>::BYTES.as_ptr().add(start).cast());
        let factors = _mm256_loadu_si256(Windows::<P>::FACTORS.as_ptr().add(start).cast());
        let tops = _mm256_mullo_epi16(_mm256_shuffle_epi8(packed_half::<P>(packed, start / 16), bytes), factors);
        _mm256_srl_epi16(tops, _mm_cvtsi32_si128(16 - P::BITS as i32))
    };
    _mm256_packus_epi16(half(0), half(16))
}
