//! Matrix products whose sums have a fixed order, for weights that are stored rotated.
//!
//! Each sum starts at zero and runs over ascending indices, with one fused multiply-add per term: the order in which
//! BLAS libraries compute these products, measured on CPU and GPU.

use crate::base::float::Fused;
use crate::base::float::canonical_nan;
use crate::base::level::Level;
use crate::base::simd::Simd;

/// Rows that share the loads of the right-hand side.
const ROWS: usize = 4;
/// Columns of a block; the sums of a block fit into registers.
const COLS: usize = 32;

/// Multiplies `left`, rows of `inner` values, by `right`, `inner` rows of `cols` values, into `out`.
///
/// Nothing is written unless `right` holds the whole matrix. Rows past the shorter of `left` and `out` are not written.
///
/// ```
/// use anamnesis_kernels::{Level, products};
///
/// let mut out = [0.0; 2];
/// assert_eq!(products(Level::detect(), &[1.0, 2.0], 2, &[3.0, 4.0, 5.0, 6.0], 2, &mut out), 2);
/// assert_eq!(out, [13.0, 16.0]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn products(level: Level, left: &[f32], inner: usize, right: &[f32], cols: usize, out: &mut [f32]) -> usize {
    match inner.checked_mul(cols) {
        Some(size) if inner > 0 && cols > 0 && right.len() >= size => kernel(level, left, inner, right, cols, out),
        _ => 0,
    }
}

kernel! {
    fn kernel(left: &[f32], inner: usize, right: &[f32], cols: usize, out: &mut [f32]) = body
}

#[inline(always)]
fn body<S: Simd>(simd: S, left: &[f32], inner: usize, right: &[f32], cols: usize, out: &mut [f32]) -> usize {
    let rows = (left.len() / inner).min(out.len() / cols);
    let whole = rows - rows % ROWS;
    let (left, out) = (&left[..rows * inner], &mut out[..rows * cols]);
    let (left_whole, left_rest) = left.split_at(whole * inner);
    let (out_whole, out_rest) = out.split_at_mut(whole * cols);
    for (left, out) in left_whole.chunks_exact(ROWS * inner).zip(out_whole.chunks_exact_mut(ROWS * cols)) {
        panel::<S, ROWS>(simd, left, inner, right, cols, out);
    }
    for (left, out) in left_rest.chunks_exact(inner).zip(out_rest.chunks_exact_mut(cols)) {
        panel::<S, 1>(simd, left, inner, right, cols, out);
    }
    rows * cols
}

/// The products of `N` rows.
#[inline(always)]
fn panel<S: Simd, const N: usize>(_simd: S, left: &[f32], inner: usize, right: &[f32], cols: usize, out: &mut [f32]) {
    let whole = cols - cols % COLS;
    for col in (0..whole).step_by(COLS) {
        let mut sums = [[0.0f32; COLS]; N];
        for (k, right) in right.chunks_exact(cols).take(inner).enumerate() {
            let Some(right) = right[col..].first_chunk::<COLS>() else { return };
            for (row, sums) in sums.iter_mut().enumerate() {
                let factor = left[row * inner + k];
                for lane in 0..COLS {
                    sums[lane] = fused::<S>(factor, right[lane], sums[lane]);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let out = &mut out[row * cols + col..row * cols + col + COLS];
            for lane in 0..COLS {
                out[lane] = canonical_nan(sums[lane]);
            }
        }
    }
    for col in whole..cols {
        for row in 0..N {
            let terms = left[row * inner..][..inner].iter().zip(right[col..].iter().step_by(cols));
            out[row * cols + col] = canonical_nan(terms.fold(0.0, |sum, (a, b)| fused::<S>(*a, *b, sum)));
        }
    }
}

/// `a · b + c`, rounded once. Levels with conversions of half precision have FMA too.
#[inline(always)]
fn fused<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
    if S::HALF { a.mul_add(b, c) } else { a.fused(b, c) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_adds_in_ascending_order_with_one_rounding_per_term() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 65536.0 - 100.0
        };
        for (rows, inner, cols) in [(1, 1, 1), (3, 5, 7), (4, 128, 128), (9, 16, 70), (5, 3, 32), (2, 33, 65)] {
            let left: Vec<f32> = (0..rows * inner).map(|_| next()).collect();
            let right: Vec<f32> = (0..inner * cols).map(|_| next()).collect();
            for level in Level::available() {
                let mut out = vec![0.0; rows * cols];
                assert_eq!(products(level, &left, inner, &right, cols, &mut out), out.len());
                for (at, found) in out.iter().enumerate() {
                    let terms = (0..inner).map(|k| (left[at / cols * inner + k], right[k * cols + at % cols]));
                    let expected = terms.fold(0.0f32, |sum, (a, b)| a.fused(b, sum));
                    assert_eq!(found.to_bits(), expected.to_bits(), "{rows} {inner} {cols} at {at}");
                }
            }
        }
        assert_eq!(products(Level::detect(), &[1.0], 1, &[], 1, &mut [0.0]), 0, "a matrix that is not whole");
    }
}
