//! The x86-64 levels: AVX2 with F16C, and AVX-512.

use std::arch::x86_64::*;

use super::{Simd, TABLE};
use crate::base::GROUP;

/// AVX2, F16C, FMA, BMI1, BMI2, LZCNT, MOVBE and POPCNT.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct V3(());

/// [`V3`] and AVX-512 F, BW, CD, DQ and VL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct V4(());

impl V3 {
    /// The proof, if this CPU has the instructions.
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("movbe")
            && is_x86_feature_detected!("popcnt"))
        .then_some(Self(()))
    }
}

impl V4 {
    /// The proof, if this CPU has the instructions.
    pub fn detect() -> Option<Self> {
        (V3::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl"))
        .then_some(Self(()))
    }
}

impl Simd for V3 {
    const HALF: bool = true;
    const TABLES: bool = false;

    #[inline(always)]
    fn widen_f16(self, halves: &[u16; GROUP]) -> [f32; GROUP] {
        let mut values = [0.0; GROUP];
        for (to, from) in values.as_chunks_mut::<8>().0.iter_mut().zip(halves.as_chunks::<8>().0) {
            // SAFETY: the token proves AVX and F16C; loads and stores are unaligned and cover exactly the eight elements.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()))) }
        }
        values
    }

    #[inline(always)]
    fn widen_e4m3(self, codes: &[u8; GROUP]) -> [f32; GROUP] {
        let mut values = [0.0; GROUP];
        // SAFETY: the token proves AVX2 and F16C; loads and stores are unaligned and cover exactly the codes and the four
        // quarters of the values.
        unsafe {
            let (first, second) = e4m3_halves_avx2(_mm256_loadu_si256(codes.as_ptr().cast()));
            let quarters = [
                _mm256_castsi256_si128(first),
                _mm256_castsi256_si128(second),
                _mm256_extracti128_si256::<1>(first),
                _mm256_extracti128_si256::<1>(second),
            ];
            for (to, halves) in values.as_chunks_mut::<8>().0.iter_mut().zip(quarters) {
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(256.0)));
            }
        }
        values
    }

    #[inline(always)]
    fn narrow_f16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        let mut halves = [0; GROUP];
        for (to, from) in halves.as_chunks_mut::<8>().0.iter_mut().zip(values.as_chunks::<8>().0) {
            // SAFETY: the token proves AVX and F16C; loads and stores are unaligned and cover exactly the eight elements.
            unsafe {
                let eight = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
                _mm_storeu_si128(to.as_mut_ptr().cast(), eight);
            }
        }
        halves
    }

    #[inline(always)]
    fn round_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        for (to, from) in words.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX2; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe {
                let low = round_bf16_or_nan_avx2(_mm256_loadu_ps(from.as_ptr()));
                let high = round_bf16_or_nan_avx2(_mm256_loadu_ps(from.as_ptr().add(8)));
                // Packing works within 128-bit lanes: 0–3, 8–11, 4–7, 12–15.
                let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), packed);
            }
        }
        words
    }

    #[inline(always)]
    fn narrow_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        for (to, from) in words.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX2; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe {
                let low = round_bf16_avx2(_mm256_loadu_si256(from.as_ptr().cast()));
                let high = round_bf16_avx2(_mm256_loadu_si256(from.as_ptr().add(8).cast()));
                // Packing works within 128-bit lanes: 0–3, 8–11, 4–7, 12–15.
                let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), packed);
            }
        }
        words
    }

    #[inline(always)]
    fn truncate(self, values: &[f32; GROUP]) -> [i32; GROUP] {
        let mut whole = [0; GROUP];
        for (to, from) in whole.as_chunks_mut::<8>().0.iter_mut().zip(values.as_chunks::<8>().0) {
            // SAFETY: the token proves AVX; loads and stores are unaligned and cover exactly the eight elements.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_cvttps_epi32(_mm256_loadu_ps(from.as_ptr()))) }
        }
        whole
    }

    #[inline(always)]
    fn larger(self, a: &[i32; GROUP], b: &[i32; GROUP]) -> [i32; GROUP] {
        let mut larger = [0; GROUP];
        for i in (0..GROUP).step_by(8) {
            // SAFETY: the token proves AVX2; loads and stores are unaligned and cover eight elements from a multiple of eight.
            unsafe {
                let (a, b) =
                    (_mm256_loadu_si256(a.as_ptr().add(i).cast()), _mm256_loadu_si256(b.as_ptr().add(i).cast()));
                _mm256_storeu_si256(larger.as_mut_ptr().add(i).cast(), _mm256_max_epi32(a, b));
            }
        }
        larger
    }

    #[inline(always)]
    fn look_up(self, table: &[u16; TABLE], codes: &[u8; GROUP]) -> [u16; GROUP] {
        super::Portable.look_up(table, codes)
    }
}

impl Simd for V4 {
    const HALF: bool = true;
    const TABLES: bool = true;

    #[inline(always)]
    fn widen_f16(self, halves: &[u16; GROUP]) -> [f32; GROUP] {
        let mut values = [0.0; GROUP];
        for (to, from) in values.as_chunks_mut::<16>().0.iter_mut().zip(halves.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast()))) }
        }
        values
    }

    #[inline(always)]
    fn widen_e4m3(self, codes: &[u8; GROUP]) -> [f32; GROUP] {
        // The steps of `e4m3_halves_avx2`, which the compiler vectorises well here.
        let halves = map!(code in codes => {
            let nan = if code & 0x7F == 0x7F { 0x7E00 } else { 0 };
            ((i16::from_le_bytes([0, code]) >> 1) as u16 & 0xBFFF) | nan
        });
        map!(value in self.widen_f16(&halves) => value * 256.0)
    }

    #[inline(always)]
    fn narrow_f16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        let mut halves = [0; GROUP];
        for (to, from) in halves.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe {
                let sixteen = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(from.as_ptr()));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), sixteen);
            }
        }
        halves
    }

    #[inline(always)]
    fn round_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; loads and stores are unaligned and cover exactly the two halves of
        // the values and the words.
        unsafe {
            let low = round_bf16_or_nan_avx512(_mm512_loadu_ps(values.as_ptr()));
            let high = round_bf16_or_nan_avx512(_mm512_loadu_ps(values.as_ptr().add(16)));
            let upper_halves = _mm512_loadu_si512(UPPER_HALVES.as_ptr().cast());
            let picked = _mm512_permutex2var_epi16(low, upper_halves, high);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), picked);
        }
        words
    }

    #[inline(always)]
    fn narrow_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; loads and stores are unaligned and cover exactly the two halves of
        // the values and the words.
        unsafe {
            let low = round_bf16_avx512(_mm512_loadu_si512(values.as_ptr().cast()));
            let high = round_bf16_avx512(_mm512_loadu_si512(values.as_ptr().add(16).cast()));
            let upper_halves = _mm512_loadu_si512(UPPER_HALVES.as_ptr().cast());
            let picked = _mm512_permutex2var_epi16(low, upper_halves, high);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), picked);
        }
        words
    }

    #[inline(always)]
    fn truncate(self, values: &[f32; GROUP]) -> [i32; GROUP] {
        let mut whole = [0; GROUP];
        for (to, from) in whole.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_cvttps_epi32(_mm512_loadu_ps(from.as_ptr()))) }
        }
        whole
    }

    #[inline(always)]
    fn larger(self, a: &[i32; GROUP], b: &[i32; GROUP]) -> [i32; GROUP] {
        let mut larger = [0; GROUP];
        for i in (0..GROUP).step_by(16) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover sixteen elements from a multiple of sixteen.
            unsafe {
                let (a, b) =
                    (_mm512_loadu_si512(a.as_ptr().add(i).cast()), _mm512_loadu_si512(b.as_ptr().add(i).cast()));
                _mm512_storeu_si512(larger.as_mut_ptr().add(i).cast(), _mm512_max_epi32(a, b));
            }
        }
        larger
    }

    #[inline(always)]
    fn look_up(self, table: &[u16; TABLE], codes: &[u8; GROUP]) -> [u16; GROUP] {
        let mut words = [0u16; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; loads and stores are unaligned and cover exactly the four quarters of
        // the table, the codes and the words.
        unsafe {
            let quarter = |index: usize| _mm512_loadu_si512(table.as_ptr().add(index * GROUP).cast());
            let codes = _mm512_cvtepu8_epi16(_mm256_loadu_si256(codes.as_ptr().cast()));
            let low = _mm512_permutex2var_epi16(quarter(0), codes, quarter(1));
            let high = _mm512_permutex2var_epi16(quarter(2), codes, quarter(3));
            let upper = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x40));
            let magnitudes = _mm512_mask_blend_epi16(upper, low, high);
            let signs = _mm512_and_si512(_mm512_slli_epi16::<8>(codes), _mm512_set1_epi16(i16::MIN));
            _mm512_storeu_si512(words.as_mut_ptr().cast(), _mm512_xor_si512(magnitudes, signs));
        }
        words
    }
}

/// Word indices of the upper halves of 32 doublewords.
const UPPER_HALVES: [u16; GROUP] = {
    let mut indices = [0; GROUP];
    let mut i = 0;
    while i < GROUP {
        indices[i] = 2 * i as u16 + 1;
        i += 1;
    }
    indices
};

/// Converts 32 E4M3 codes to F16 values divided by 256, in the order 0–7 and 16–23, 8–15 and 24–31.
///
/// Exponent and mantissa, shifted to those of an F16, are the value divided by 2^8, because the biases are 7 and 15:
///
/// | byte of the half | 7 | 6 | 5–2 | 1–0 |
/// |---|---|---|---|---|
/// | upper | sign | 0 | exponent | mantissa, upper two bits |
/// | lower | mantissa, last bit | 0 | 0 | 0 |
#[inline]
#[target_feature(enable = "avx2")]
fn e4m3_halves_avx2(codes: __m256i) -> (__m256i, __m256i) {
    let sign = _mm256_set1_epi8(i8::MIN);
    let magnitude = _mm256_and_si256(_mm256_srli_epi16::<1>(codes), _mm256_set1_epi8(0x3F));
    let nan = _mm256_cmpeq_epi8(_mm256_or_si256(codes, sign), _mm256_set1_epi8(-1));
    // A NaN keeps its code, all ones but for the sign.
    let upper = _mm256_or_si256(_mm256_and_si256(codes, _mm256_or_si256(sign, nan)), magnitude);
    let lower = _mm256_and_si256(_mm256_slli_epi16::<7>(codes), sign);
    (_mm256_unpacklo_epi8(lower, upper), _mm256_unpackhi_epi8(lower, upper))
}

/// Rounds eight `f32` to BF16, each in the lower half of its doubleword.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn round_bf16_avx2(bits: __m256i) -> __m256i {
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
    _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, bias))
}

/// Rounds sixteen `f32` to BF16, each in the upper half of its doubleword; the lower halves are undefined.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn round_bf16_avx512(bits: __m512i) -> __m512i {
    let is_odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x0001_0000));
    let below_half = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
    _mm512_mask_add_epi32(below_half, is_odd, bits, _mm512_set1_epi32(0x8000))
}

/// [`round_bf16_avx2`] for all values; NaN is made quiet.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn round_bf16_or_nan_avx2(values: __m256) -> __m256i {
    let bits = _mm256_castps_si256(values);
    let quiet = _mm256_srli_epi32::<16>(_mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000)));
    let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
    _mm256_blendv_epi8(round_bf16_avx2(bits), quiet, is_nan)
}

/// [`round_bf16_avx512`] for all values; NaN is made quiet.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn round_bf16_or_nan_avx512(values: __m512) -> __m512i {
    let bits = _mm512_castps_si512(values);
    let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
    _mm512_mask_or_epi32(round_bf16_avx512(bits), is_nan, bits, _mm512_set1_epi32(0x0040_0000))
}
