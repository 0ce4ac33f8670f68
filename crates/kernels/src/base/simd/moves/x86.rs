//! Gathers and transposes with AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::{Moves, TILE, Tile, last_index};
use crate::base::GROUP;
use crate::base::simd::{V3, V4};

impl Moves for V3 {
    #[inline(always)]
    fn gather(self, table: &[f32], indices: &[u32; GROUP]) -> [f32; GROUP] {
        let Some(last) = last_index(table) else { return [0.0; GROUP] };
        let mut values = [0.0; GROUP];
        for (to, from) in values.as_chunks_mut::<8>().0.iter_mut().zip(indices.as_chunks::<8>().0) {
            // SAFETY: the token proves AVX2; loads and stores cover exactly the eight elements, and no index is past
            // the last, which is not negative as an i32.
            unsafe {
                let last = _mm256_set1_epi32(last.cast_signed());
                let indices = _mm256_min_epu32(_mm256_loadu_si256(from.as_ptr().cast()), last);
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_i32gather_ps::<4>(table.as_ptr(), indices));
            }
        }
        values
    }

    #[inline(always)]
    fn transpose(self, tile: &Tile) -> Tile {
        let mut transposed = [[0; TILE]; TILE];
        // SAFETY: the token proves AVX2.
        unsafe {
            transpose_quarter::<0, 0>(tile, &mut transposed);
            transpose_quarter::<0, 8>(tile, &mut transposed);
            transpose_quarter::<8, 0>(tile, &mut transposed);
            transpose_quarter::<8, 8>(tile, &mut transposed);
        }
        transposed
    }
}

impl Moves for V4 {
    #[inline(always)]
    fn gather(self, table: &[f32], indices: &[u32; GROUP]) -> [f32; GROUP] {
        let Some(last) = last_index(table) else { return [0.0; GROUP] };
        let mut values = [0.0; GROUP];
        for (to, from) in values.as_chunks_mut::<16>().0.iter_mut().zip(indices.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX-512 F; loads and stores cover exactly the sixteen elements, and no index is
            // past the last, which is not negative as an i32.
            unsafe {
                let last = _mm512_set1_epi32(last.cast_signed());
                let indices = _mm512_min_epu32(_mm512_loadu_si512(from.as_ptr().cast()), last);
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_i32gather_ps::<4>(indices, table.as_ptr()));
            }
        }
        values
    }

    #[inline(always)]
    fn transpose(self, tile: &Tile) -> Tile {
        let mut transposed = [[0; TILE]; TILE];
        // SAFETY: the token proves AVX-512 F; loads and stores cover exactly one row each.
        unsafe {
            let mut rows = [_mm512_setzero_si512(); TILE];
            for (to, from) in rows.iter_mut().zip(tile) {
                *to = _mm512_loadu_si512(from.as_ptr().cast());
            }
            for (to, from) in transposed.iter_mut().zip(transpose_16(rows)) {
                _mm512_storeu_si512(to.as_mut_ptr().cast(), from);
            }
        }
        transposed
    }
}

/// Transposes the eight rows from `ROW` and columns from `COL`, each 0 or 8.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_quarter<const ROW: usize, const COL: usize>(tile: &Tile, transposed: &mut Tile) {
    let mut rows = [_mm256_setzero_si256(); 8];
    for i in 0..8 {
        // SAFETY: the load covers eight words of a row that has sixteen.
        rows[i] = unsafe { _mm256_loadu_si256(tile[ROW + i].as_ptr().add(COL).cast()) };
    }
    let columns = transpose_8(rows);
    for i in 0..8 {
        // SAFETY: the store covers eight words of a row that has sixteen.
        unsafe { _mm256_storeu_si256(transposed[COL + i].as_mut_ptr().add(ROW).cast(), columns[i]) };
    }
}

/// Transposes eight rows of eight words.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_8(rows: [__m256i; 8]) -> [__m256i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    // Pairs of rows, word by word, then pairs of pairs: columns 0 to 3 with 4 to 7 in the upper half.
    let quarter = |a, b, c, d| {
        let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(ab_low, cd_low),
            _mm256_unpackhi_epi64(ab_low, cd_low),
            _mm256_unpacklo_epi64(ab_high, cd_high),
            _mm256_unpackhi_epi64(ab_high, cd_high),
        ]
    };
    let upper = quarter(a, b, c, d);
    let lower = quarter(e, f, g, h);
    let mut columns = [_mm256_setzero_si256(); 8];
    for i in 0..4 {
        columns[i] = _mm256_permute2x128_si256::<0x20>(upper[i], lower[i]);
        columns[i + 4] = _mm256_permute2x128_si256::<0x31>(upper[i], lower[i]);
    }
    columns
}

/// Transposes sixteen rows of sixteen words.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_16(rows: [__m512i; TILE]) -> [__m512i; TILE] {
    // Quarters of four words each, transposed by themselves: quarter q of block b holds rows 4 b to 4 b + 3 of
    // column 4 q + i.
    let mut blocks = [[_mm512_setzero_si512(); 4]; 4];
    for (block, rows) in blocks.iter_mut().zip(rows.as_chunks::<4>().0) {
        let [a, b, c, d] = *rows;
        let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        *block = [
            _mm512_unpacklo_epi64(ab_low, cd_low),
            _mm512_unpackhi_epi64(ab_low, cd_low),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ];
    }
    // Then the quarters among themselves.
    let mut columns = [_mm512_setzero_si512(); TILE];
    for i in 0..4 {
        let [a, b, c, d] = [blocks[0][i], blocks[1][i], blocks[2][i], blocks[3][i]];
        let (ab_even, ab_odd) =
            (_mm512_shuffle_i32x4::<0b10_00_10_00>(a, b), _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b));
        let (cd_even, cd_odd) =
            (_mm512_shuffle_i32x4::<0b10_00_10_00>(c, d), _mm512_shuffle_i32x4::<0b11_01_11_01>(c, d));
        columns[i] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_even, cd_even);
        columns[i + 4] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_odd, cd_odd);
        columns[i + 8] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_even, cd_even);
        columns[i + 12] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_odd, cd_odd);
    }
    columns
}
