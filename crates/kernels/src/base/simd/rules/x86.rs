//! Rules at the x86-64 levels.

use std::arch::x86_64::*;

use super::Rules;
use crate::base::GROUP;
use crate::base::rule::{Arithmetic, Formula, Step};
use crate::base::simd::x86::{round_bf16_or_nan_avx2, round_bf16_or_nan_avx512};
use crate::base::simd::{V3, V4};

impl Rules for V3 {
    #[inline(always)]
    fn calculate(
        self,
        rule: Arithmetic,
        values: &[f32; GROUP],
        offsets: &[f32; GROUP],
        scales: &[f32; GROUP],
    ) -> [f32; GROUP] {
        let mut results = [0.0; GROUP];
        for i in (0..GROUP).step_by(8) {
            // SAFETY: the token proves AVX2 and F16C; loads and stores are unaligned and cover 8 elements from a multiple of 8.
            unsafe {
                let values = _mm256_loadu_ps(values.as_ptr().add(i));
                let offsets = _mm256_loadu_ps(offsets.as_ptr().add(i));
                let scales = _mm256_loadu_ps(scales.as_ptr().add(i));
                let result = calculate_avx2(rule, values, offsets, scales);
                _mm256_storeu_ps(results.as_mut_ptr().add(i), result);
            }
        }
        results
    }
}

/// The numbers of eight values.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn calculate_avx2(rule: Arithmetic, values: __m256, offsets: __m256, scales: __m256) -> __m256 {
    if rule.step == Step::F32 && rule.formula != Formula::Divided {
        // Without a question: nothing is subtracted before, or -0 added after, which changes no bit.
        let is_affine = _mm256_castsi256_ps(_mm256_set1_epi32(-i32::from(rule.formula == Formula::Affine)));
        let before = _mm256_and_ps(offsets, is_affine);
        let after = _mm256_blendv_ps(offsets, _mm256_set1_ps(-0.0), is_affine);
        return _mm256_add_ps(_mm256_mul_ps(_mm256_sub_ps(values, before), scales), after);
    }
    let result = match rule.formula {
        Formula::Affine => _mm256_mul_ps(round_avx2(rule.step, _mm256_sub_ps(values, offsets)), scales),
        Formula::Divided => _mm256_div_ps(round_avx2(rule.step, _mm256_sub_ps(values, offsets)), scales),
        Formula::Biased => _mm256_add_ps(round_avx2(rule.step, _mm256_mul_ps(values, scales)), offsets),
    };
    round_avx2(rule.step, result)
}

/// Rounds eight values.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn round_avx2(step: Step, values: __m256) -> __m256 {
    match step {
        Step::F32 => values,
        Step::Bf16 => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(round_bf16_or_nan_avx2(values))),
        Step::F16 => _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values)),
    }
}

impl Rules for V4 {
    #[inline(always)]
    fn calculate(
        self,
        rule: Arithmetic,
        values: &[f32; GROUP],
        offsets: &[f32; GROUP],
        scales: &[f32; GROUP],
    ) -> [f32; GROUP] {
        let mut results = [0.0; GROUP];
        for i in (0..GROUP).step_by(16) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover 16 elements from a multiple of 16.
            unsafe {
                let values = _mm512_loadu_ps(values.as_ptr().add(i));
                let offsets = _mm512_loadu_ps(offsets.as_ptr().add(i));
                let scales = _mm512_loadu_ps(scales.as_ptr().add(i));
                let result = calculate_avx512(rule, values, offsets, scales);
                _mm512_storeu_ps(results.as_mut_ptr().add(i), result);
            }
        }
        results
    }
}

/// The numbers of sixteen values.
#[inline]
#[target_feature(enable = "avx512f")]
fn calculate_avx512(rule: Arithmetic, values: __m512, offsets: __m512, scales: __m512) -> __m512 {
    if rule.step == Step::F32 && rule.formula != Formula::Divided {
        // Without a question: nothing is subtracted before, or -0 added after, which changes no bit.
        let is_affine: __mmask16 = if rule.formula == Formula::Affine { 0xFFFF } else { 0 };
        let before = _mm512_maskz_mov_ps(is_affine, offsets);
        let after = _mm512_mask_mov_ps(offsets, is_affine, _mm512_set1_ps(-0.0));
        return _mm512_add_ps(_mm512_mul_ps(_mm512_sub_ps(values, before), scales), after);
    }
    let result = match rule.formula {
        Formula::Affine => _mm512_mul_ps(round_avx512(rule.step, _mm512_sub_ps(values, offsets)), scales),
        Formula::Divided => _mm512_div_ps(round_avx512(rule.step, _mm512_sub_ps(values, offsets)), scales),
        Formula::Biased => _mm512_add_ps(round_avx512(rule.step, _mm512_mul_ps(values, scales)), offsets),
    };
    round_avx512(rule.step, result)
}

/// Rounds sixteen values.
#[inline]
#[target_feature(enable = "avx512f")]
fn round_avx512(step: Step, values: __m512) -> __m512 {
    match step {
        Step::F32 => values,
        Step::Bf16 => {
            let upper = _mm512_set1_epi32(0xFFFF_0000_u32.cast_signed());
            _mm512_castsi512_ps(_mm512_and_si512(round_bf16_or_nan_avx512(values), upper))
        }
        Step::F16 => _mm512_cvtph_ps(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values)),
    }
}
