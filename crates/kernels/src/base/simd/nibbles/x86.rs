//! The search with the limits of each step in a register.

use std::arch::x86_64::*;

use super::{LimitTree, NEAR, NEGATIVE_ZERO, Nibbles};
use crate::base::GROUP;
use crate::base::simd::{V3, V4};

impl Nibbles for V3 {
    #[inline(always)]
    fn nibbles(self, tree: &LimitTree, numbers: &[f32; GROUP]) -> ([u8; GROUP / 2], bool) {
        let mut packed = [0; GROUP / 2];
        // SAFETY: the token proves AVX2; loads and stores are unaligned and cover exactly the quarters of the numbers, the
        // codes and the packed bytes.
        unsafe {
            let mut indices = [_mm256_setzero_si256(); 4];
            let mut is_far = _mm256_setzero_ps();
            for (index, eight) in indices.iter_mut().zip(numbers.as_chunks::<8>().0) {
                let eight = _mm256_loadu_ps(eight.as_ptr());
                let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), eight);
                let beyond = _mm256_cmp_ps::<_CMP_NLE_UQ>(magnitude, _mm256_set1_ps(NEAR));
                is_far = _mm256_or_ps(is_far, beyond);
                *index = search_avx2(tree, _mm256_castps_si256(eight));
            }
            // Packing works within 128-bit lanes: fours of elements 0, 2, 4, 6, 1, 3, 5, 7.
            let words = [_mm256_packs_epi32(indices[0], indices[1]), _mm256_packs_epi32(indices[2], indices[3])];
            let mixed = _mm256_packus_epi16(words[0], words[1]);
            let bytes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
            // An index with its highest bit set shuffles to zero; those are −0.0.
            let codes = _mm256_broadcastsi128_si256(_mm_loadu_si128(tree.codes.as_ptr().cast()));
            let is_negative_zero = _mm256_cmpgt_epi8(_mm256_setzero_si256(), bytes);
            let its_code = _mm256_and_si256(is_negative_zero, _mm256_set1_epi8(tree.negative_zero as i8));
            let codes = _mm256_or_si256(_mm256_shuffle_epi8(codes, bytes), its_code);
            // The first of each pair times 16, plus the second.
            let pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x0110));
            let halves = _mm256_permute4x64_epi64::<0b10_00_10_00>(_mm256_packus_epi16(pairs, pairs));
            _mm_storeu_si128(packed.as_mut_ptr().cast(), _mm256_castsi256_si128(halves));
            (packed, _mm256_movemask_ps(is_far) == 0)
        }
    }
}

/// The indices of eight numbers, 128 more for −0.0.
#[inline]
#[target_feature(enable = "avx2")]
fn search_avx2(tree: &LimitTree, bits: __m256i) -> __m256i {
    let sign = _mm256_and_si256(_mm256_srai_epi32::<31>(bits), _mm256_set1_epi32(i32::MAX));
    let keys = _mm256_xor_si256(bits, sign);
    // A comparison gives −1 where it holds.
    let root = _mm256_set1_epi32(tree.limits[7]);
    let mut index = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_cmpgt_epi32(keys, root));
    for step in &tree.by_step {
        // SAFETY: the load covers exactly the limits of the step.
        let limits = unsafe { _mm256_loadu_si256(step.as_ptr().cast()) };
        let above = _mm256_cmpgt_epi32(keys, _mm256_permutevar8x32_epi32(limits, index));
        index = _mm256_sub_epi32(_mm256_add_epi32(index, index), above);
    }
    let is_negative_zero = _mm256_cmpeq_epi32(keys, _mm256_set1_epi32(NEGATIVE_ZERO));
    _mm256_or_si256(index, _mm256_and_si256(is_negative_zero, _mm256_set1_epi32(0x80)))
}

impl Nibbles for V4 {
    #[inline(always)]
    fn nibbles(self, tree: &LimitTree, numbers: &[f32; GROUP]) -> ([u8; GROUP / 2], bool) {
        let mut packed = [0; GROUP / 2];
        // SAFETY: the token proves AVX-512 F and BW; loads and stores are unaligned and cover exactly the halves of the
        // numbers and of the packed bytes.
        unsafe {
            let mut is_far = 0;
            for (out, sixteen) in packed.as_chunks_mut::<8>().0.iter_mut().zip(numbers.as_chunks::<16>().0) {
                let sixteen = _mm512_loadu_ps(sixteen.as_ptr());
                is_far |= _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(_mm512_abs_ps(sixteen), _mm512_set1_ps(NEAR));
                let codes = search_avx512(tree, _mm512_castps_si512(sixteen));
                // Each quadword holds a pair, the first in the lower half.
                let pairs = _mm512_or_si512(_mm512_slli_epi64::<4>(codes), _mm512_srli_epi64::<32>(codes));
                _mm_storel_epi64(out.as_mut_ptr().cast(), _mm512_cvtepi64_epi8(pairs));
            }
            (packed, is_far == 0)
        }
    }
}

/// The codes of sixteen numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn search_avx512(tree: &LimitTree, bits: __m512i) -> __m512i {
    let sign = _mm512_and_si512(_mm512_srai_epi32::<31>(bits), _mm512_set1_epi32(i32::MAX));
    let keys = _mm512_xor_si512(bits, sign);
    // SAFETY: the loads cover exactly the tables.
    let table = |table: &[i32; 16]| unsafe { _mm512_loadu_si512(table.as_ptr().cast()) };
    let is_above =
        |index: __m512i, step: &[i32; 16]| _mm512_cmpgt_epi32_mask(keys, _mm512_permutexvar_epi32(index, table(step)));
    let root = _mm512_cmpgt_epi32_mask(keys, _mm512_set1_epi32(tree.limits[7]));
    let index = _mm512_maskz_mov_epi32(root, _mm512_set1_epi32(8));
    let index = _mm512_mask_add_epi32(index, is_above(index, &tree.by_index[0]), index, _mm512_set1_epi32(4));
    let index = _mm512_mask_add_epi32(index, is_above(index, &tree.by_index[1]), index, _mm512_set1_epi32(2));
    let above = is_above(index, &tree.by_index[2]);
    let below = _mm512_permutexvar_epi32(index, table(&tree.ends[0]));
    let found = _mm512_mask_permutexvar_epi32(below, above, index, table(&tree.ends[1]));
    let is_negative_zero = _mm512_cmpeq_epi32_mask(keys, _mm512_set1_epi32(NEGATIVE_ZERO));
    _mm512_mask_mov_epi32(found, is_negative_zero, _mm512_set1_epi32(i32::from(tree.negative_zero)))
}
