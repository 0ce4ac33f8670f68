//! Packed codes at the x86-64 levels.

use std::arch::x86_64::*;

use super::{Codes, SMALL_TABLE};
use crate::base::GROUP;
use crate::base::packing::{HALF_BYTES, Places};
use crate::base::simd::{V3, V4};

impl Codes for V3 {
    const SHUFFLES: bool = true;

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
    fn codes(self, places: &Places, packed: &[u8; GROUP]) -> [u8; GROUP] {
        let mut codes = [0; GROUP];
        // SAFETY: the token proves AVX2; the store covers exactly the codes.
        unsafe {
            // In quarters of eight codes: 0, 2, 1, 3.
            let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(code_bytes(places, packed));
            _mm256_storeu_si256(codes.as_mut_ptr().cast(), ordered);
        }
        codes
    }

    #[inline(always)]
    fn numbers(self, places: &Places, packed: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (half, to) in numbers.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            // SAFETY: the token proves AVX2; the stores cover the two halves of the sixteen numbers.
            unsafe {
                let words = half_numbers(places, packed, half);
                let eight = [_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words)];
                for (to, eight) in to.as_chunks_mut::<8>().0.iter_mut().zip(eight) {
                    _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(eight)));
                }
            }
        }
        numbers
    }

    #[inline(always)]
    fn numbers_apart(self, places: &Places, packed: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (half, to) in numbers.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            // SAFETY: the token proves AVX2; the stores cover the two halves of the sixteen numbers.
            unsafe {
                let words = half_numbers(places, packed, half);
                let even = _mm256_madd_epi16(words, _mm256_set1_epi32(1));
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtepi32_ps(even));
                _mm256_storeu_ps(to.as_mut_ptr().add(8), _mm256_cvtepi32_ps(_mm256_srai_epi32::<16>(words)));
            }
        }
        numbers
    }

    #[inline(always)]
    fn join_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        for (to, from) in words.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX2; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe {
                let even = _mm256_loadu_si256(from.as_ptr().cast());
                let odd = _mm256_loadu_si256(from.as_ptr().add(8).cast());
                let upper = _mm256_blend_epi16::<0xAA>(_mm256_srli_epi32::<16>(even), odd);
                let lower = _mm256_blend_epi16::<0xAA>(even, _mm256_slli_epi32::<16>(odd));
                // A half is above a half where the word that takes it is odd.
                let rest = _mm256_or_si256(lower, _mm256_and_si256(upper, _mm256_set1_epi16(1)));
                let signed = _mm256_xor_si256(rest, _mm256_set1_epi16(i16::MIN));
                let is_up = _mm256_cmpgt_epi16(signed, _mm256_setzero_si256());
                _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_sub_epi16(upper, is_up));
            }
        }
        words
    }

    #[inline(always)]
    fn words(self, places: &Places, table: &[u16; SMALL_TABLE], packed: &[u8; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX2; the load covers exactly the table, the stores the two halves of the words.
        unsafe {
            let table = _mm256_loadu_si256(table.as_ptr().cast());
            let low_bytes = _mm256_and_si256(table, _mm256_set1_epi16(0xFF));
            let planes = _mm256_packus_epi16(low_bytes, _mm256_srli_epi16::<8>(table));
            let low_plane = _mm256_permute4x64_epi64::<0b10_00_10_00>(planes);
            let high_plane = _mm256_permute4x64_epi64::<0b11_01_11_01>(planes);
            let codes = code_bytes(places, packed);
            let low = _mm256_shuffle_epi8(low_plane, codes);
            let high = _mm256_shuffle_epi8(high_plane, codes);
            _mm256_storeu_si256(words.as_mut_ptr().cast(), _mm256_unpacklo_epi8(low, high));
            _mm256_storeu_si256(words.as_mut_ptr().add(16).cast(), _mm256_unpackhi_epi8(low, high));
        }
        words
    }

    #[inline(always)]
    fn values(self, places: &Places, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX2; loads cover the halves of the table and quarters of the constants, stores the
        // quarters of the values.
        unsafe {
            let lower = _mm256_loadu_ps(table.as_ptr().cast());
            let upper = _mm256_loadu_ps(table.as_ptr().add(8).cast());
            for i in (0..GROUP).step_by(8) {
                let bytes = _mm256_loadu_si256(places.wide_bytes.as_ptr().add(i).cast());
                let shifts = _mm256_loadu_si256(places.wide_shifts.as_ptr().add(i).cast());
                let codes = _mm256_srlv_epi32(_mm256_shuffle_epi8(packed_half(places, packed, i / 16), bytes), shifts);
                // The blend looks at the sign: bit 3 of the code, or of what is behind it, where both halves are the same.
                let is_upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
                let low = _mm256_permutevar8x32_ps(lower, codes);
                let found = _mm256_blendv_ps(low, _mm256_permutevar8x32_ps(upper, codes), is_upper);
                _mm256_storeu_ps(values.as_mut_ptr().add(i).cast(), found);
            }
        }
        values
    }

    #[inline(always)]
    fn words_by_half(self, places: &Places, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
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
            let codes = _mm256_permute4x64_epi64::<0b11_01_10_00>(code_bytes(places, packed));
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
    fn values_by_half(self, places: &Places, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX2; loads cover quarters of the tables and of the constants, stores the quarters of
        // the values.
        unsafe {
            for i in (0..GROUP).step_by(8) {
                let table = tables.as_ptr().add(i / SMALL_TABLE * SMALL_TABLE);
                let (lower, upper) = (_mm256_loadu_ps(table.cast()), _mm256_loadu_ps(table.add(8).cast()));
                let bytes = _mm256_loadu_si256(places.wide_bytes.as_ptr().add(i).cast());
                let shifts = _mm256_loadu_si256(places.wide_shifts.as_ptr().add(i).cast());
                let codes = _mm256_srlv_epi32(_mm256_shuffle_epi8(packed_half(places, packed, i / 16), bytes), shifts);
                // The blend looks at the sign: bit 3 of the code.
                let is_upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
                let low = _mm256_permutevar8x32_ps(lower, codes);
                let found = _mm256_blendv_ps(low, _mm256_permutevar8x32_ps(upper, codes), is_upper);
                _mm256_storeu_ps(values.as_mut_ptr().add(i).cast(), found);
            }
        }
        values
    }
}

/// The sixteen packed bytes that hold the lower or upper half of a group's codes.
#[inline]
#[target_feature(enable = "avx2")]
fn sixteen(places: &Places, packed: &[u8; GROUP], half: usize) -> __m128i {
    let start = if half == 0 { 0 } else { places.upper.min(HALF_BYTES) };
    // SAFETY: the load covers sixteen of the 32 bytes, from the sixteenth on at most.
    unsafe { _mm_loadu_si128(packed.as_ptr().add(start).cast()) }
}

/// [`sixteen`] in both lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn packed_half(places: &Places, packed: &[u8; GROUP], half: usize) -> __m256i {
    _mm256_broadcastsi128_si256(sixteen(places, packed, half))
}

/// The codes of the lower or upper half of a group as words.
#[inline]
#[target_feature(enable = "avx2")]
fn half_words(places: &Places, packed: &[u8; GROUP], half: usize) -> __m256i {
    // SAFETY: the loads cover the lower or upper halves of the constants.
    unsafe {
        let bytes = _mm256_loadu_si256(places.bytes.as_ptr().add(16 * half).cast());
        let factors = _mm256_loadu_si256(places.factors.as_ptr().add(16 * half).cast());
        let tops = _mm256_mullo_epi16(_mm256_shuffle_epi8(packed_half(places, packed, half), bytes), factors);
        _mm256_srl_epi16(tops, _mm_cvtsi32_si128(16 - places.bits as i32))
    }
}

/// [`half_words`] as whole numbers with their sign.
#[inline]
#[target_feature(enable = "avx2")]
fn half_numbers(places: &Places, packed: &[u8; GROUP], half: usize) -> __m256i {
    if places.bits < 8 {
        return half_words(places, packed, half);
    }
    let bytes = sixteen(places, packed, half);
    if places.is_signed { _mm256_cvtepi8_epi16(bytes) } else { _mm256_cvtepu8_epi16(bytes) }
}

/// A group's codes as bytes, in quarters of eight: 0, 2, 1, 3.
#[inline]
#[target_feature(enable = "avx2")]
fn code_bytes(places: &Places, packed: &[u8; GROUP]) -> __m256i {
    _mm256_packus_epi16(half_words(places, packed, 0), half_words(places, packed, 1))
}

impl Codes for V4 {
    const SHUFFLES: bool = true;

    #[inline(always)]
    fn unsigned(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (to, from) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(bytes.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe {
                let sixteen = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast()));
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtepi32_ps(sixteen));
            }
        }
        numbers
    }

    #[inline(always)]
    fn signed(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (to, from) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(bytes.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe {
                let sixteen = _mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast()));
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtepi32_ps(sixteen));
            }
        }
        numbers
    }

    #[inline(always)]
    fn codes(self, places: &Places, packed: &[u8; GROUP]) -> [u8; GROUP] {
        let mut codes = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the store covers exactly the codes.
        unsafe {
            let bytes = _mm512_cvtepi16_epi8(_mm512_and_si512(code_words(places, packed), code_mask(places)));
            _mm256_storeu_si256(codes.as_mut_ptr().cast(), bytes);
        }
        codes
    }

    #[inline(always)]
    fn numbers(self, places: &Places, packed: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the stores cover the halves of the numbers.
        unsafe {
            let words = number_words(places, packed);
            let halves = [_mm512_castsi512_si256(words), _mm512_extracti64x4_epi64::<1>(words)];
            for (to, half) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(halves) {
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(half)));
            }
        }
        numbers
    }

    #[inline(always)]
    fn numbers_apart(self, places: &Places, packed: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the stores cover the halves of the numbers.
        unsafe {
            let words = number_words(places, packed);
            let even = _mm512_madd_epi16(words, _mm512_set1_epi32(1));
            _mm512_storeu_ps(numbers.as_mut_ptr(), _mm512_cvtepi32_ps(even));
            _mm512_storeu_ps(numbers.as_mut_ptr().add(16), _mm512_cvtepi32_ps(_mm512_srai_epi32::<16>(words)));
        }
        numbers
    }

    #[inline(always)]
    fn join_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; loads and stores are unaligned and cover exactly the two halves of
        // the values and the words.
        unsafe {
            let even = _mm512_loadu_si512(values.as_ptr().cast());
            let odd = _mm512_loadu_si512(values.as_ptr().add(16).cast());
            let upper = _mm512_mask_blend_epi16(ODD, _mm512_srli_epi32::<16>(even), odd);
            let lower = _mm512_mask_blend_epi16(ODD, even, _mm512_slli_epi32::<16>(odd));
            // A half is above a half where the word that takes it is odd: lower | upper & 1.
            let rest = _mm512_ternarylogic_epi64::<0xF8>(lower, upper, _mm512_set1_epi16(1));
            let is_up = _mm512_cmpgt_epu16_mask(rest, _mm512_set1_epi16(i16::MIN));
            let rounded = _mm512_mask_sub_epi16(upper, is_up, upper, _mm512_set1_epi16(-1));
            _mm512_storeu_si512(words.as_mut_ptr().cast(), rounded);
        }
        words
    }

    #[inline(always)]
    fn words(self, places: &Places, table: &[u16; SMALL_TABLE], packed: &[u8; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the load covers exactly the table, the store the words.
        unsafe {
            // The permutation looks at five bits of each index: the table comes twice.
            let table = _mm512_broadcast_i64x4(_mm256_loadu_si256(table.as_ptr().cast()));
            let found = _mm512_permutexvar_epi16(code_words(places, packed), table);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), found);
        }
        words
    }

    #[inline(always)]
    fn values(self, places: &Places, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; loads cover the table and halves of the constants, stores the halves of the values.
        unsafe {
            let table = _mm512_loadu_si512(table.as_ptr().cast());
            for i in [0, 16] {
                let packed = _mm512_broadcast_i32x4(sixteen(places, packed, i / 16));
                let bytes = _mm512_loadu_si512(places.wide_bytes.as_ptr().add(i).cast());
                let shifts = _mm512_loadu_si512(places.wide_shifts.as_ptr().add(i).cast());
                let codes = _mm512_srlv_epi32(_mm512_shuffle_epi8(packed, bytes), shifts);
                _mm512_storeu_si512(values.as_mut_ptr().add(i).cast(), _mm512_permutexvar_epi32(codes, table));
            }
        }
        values
    }

    #[inline(always)]
    fn words_by_half(self, places: &Places, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the load covers exactly the tables, the store the words.
        unsafe {
            // The permutation looks at five bits of each index: of the upper half the fifth is set.
            let four_bits = _mm512_and_si512(code_words(places, packed), _mm512_set1_epi16(0xF));
            let upper = _mm512_inserti64x4::<1>(_mm512_setzero_si512(), _mm256_set1_epi16(0x10));
            let tables = _mm512_loadu_si512(tables.as_ptr().cast());
            let found = _mm512_permutexvar_epi16(_mm512_or_si512(four_bits, upper), tables);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), found);
        }
        words
    }

    #[inline(always)]
    fn values_by_half(self, places: &Places, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; loads cover halves of the tables and of the constants, stores the halves of the values.
        unsafe {
            for i in [0, 16] {
                let packed = _mm512_broadcast_i32x4(sixteen(places, packed, i / 16));
                let table = _mm512_loadu_si512(tables.as_ptr().add(i).cast());
                let bytes = _mm512_loadu_si512(places.wide_bytes.as_ptr().add(i).cast());
                let shifts = _mm512_loadu_si512(places.wide_shifts.as_ptr().add(i).cast());
                let codes = _mm512_srlv_epi32(_mm512_shuffle_epi8(packed, bytes), shifts);
                _mm512_storeu_si512(values.as_mut_ptr().add(i).cast(), _mm512_permutexvar_epi32(codes, table));
            }
        }
        values
    }
}

/// The words at odd places.
const ODD: __mmask32 = 0xAAAA_AAAA;

/// A group's codes as the lowest bits of words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn code_words(places: &Places, packed: &[u8; GROUP]) -> __m512i {
    // SAFETY: the loads cover exactly the constants.
    unsafe {
        let lower = _mm512_broadcast_i32x4(sixteen(places, packed, 0));
        let packed = _mm512_mask_broadcast_i32x4(lower, 0xFF00, sixteen(places, packed, 1));
        let bytes = _mm512_loadu_si512(places.bytes.as_ptr().cast());
        let shifts = _mm512_loadu_si512(places.shifts.as_ptr().cast());
        _mm512_srlv_epi16(_mm512_shuffle_epi8(packed, bytes), shifts)
    }
}

/// The bits of a code in every word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn code_mask(places: &Places) -> __m512i {
    _mm512_set1_epi16((1 << places.bits) - 1)
}

/// A group's codes as words, whole numbers with their sign.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn number_words(places: &Places, packed: &[u8; GROUP]) -> __m512i {
    if places.bits < 8 {
        return _mm512_and_si512(code_words(places, packed), code_mask(places));
    }
    // SAFETY: the load covers exactly the packed bytes.
    let bytes = unsafe { _mm256_loadu_si256(packed.as_ptr().cast()) };
    if places.is_signed { _mm512_cvtepi8_epi16(bytes) } else { _mm512_cvtepu8_epi16(bytes) }
}
