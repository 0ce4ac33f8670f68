//! Transposition of decoded elements: rows of a matrix become columns of a larger output.

use std::ops::Range;

use crate::base::level::Level;
use crate::base::output::Output;
use crate::base::simd::{Simd, TILE};

/// Transposes a matrix of decoded elements, `rows` by `cols`, into the columns from `at` on of `out`, whose rows have `stride`
/// elements.
///
/// Nothing is written unless `elements` holds the whole matrix and `out` all of its columns.
///
/// ```
/// use anamnesis_kernels::{Bf16, Level, transpose_columns};
///
/// let mut out = [0; 12];
/// transpose_columns::<Bf16>(Level::detect(), &[1, 0, 2, 0, 3, 0, 4, 0], 2, 2, &mut out, 3, 1);
/// assert_eq!(out, [0, 0, 1, 0, 3, 0, 0, 0, 2, 0, 4, 0]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn transpose_columns<O: Output>(
    level: Level,
    elements: &[u8],
    rows: usize,
    cols: usize,
    out: &mut [u8],
    stride: usize,
    at: usize,
) -> usize {
    let fits = || {
        let end = at.checked_add(rows).filter(|&end| end <= stride)?;
        let size = rows.checked_mul(cols)?.checked_mul(O::BYTES)?;
        let needed = cols.checked_sub(1)?.checked_mul(stride)?.checked_add(end)?.checked_mul(O::BYTES)?;
        (elements.len() >= size && out.len() >= needed).then_some(())
    };
    if fits().is_none() {
        return 0;
    }
    // Whole tiles are transposed in registers, the edges element by element.
    let step = step::<O>();
    let (whole_rows, whole_cols) = (rows - rows % step, cols - cols % TILE);
    let whole = kernel::<O>(level, elements, whole_rows, cols, out, stride, at);
    one_by_one::<O>(elements, cols, whole_rows..rows, 0..cols, out, stride, at);
    one_by_one::<O>(elements, cols, 0..whole_rows, whole_cols..cols, out, stride, at);
    whole + (rows * cols - whole_rows * whole_cols) * O::BYTES
}

/// Input rows of a tile: for 16-bit elements two rows are packed into one row of words.
const fn step<O: Output>() -> usize {
    if O::BYTES == 2 { 2 * TILE } else { TILE }
}

fn one_by_one<O: Output>(
    elements: &[u8],
    cols: usize,
    rows: Range<usize>,
    of_cols: Range<usize>,
    out: &mut [u8],
    stride: usize,
    at: usize,
) {
    for row in rows {
        for col in of_cols.clone() {
            let (from, to) = ((row * cols + col) * O::BYTES, (col * stride + at + row) * O::BYTES);
            out[to..to + O::BYTES].copy_from_slice(&elements[from..from + O::BYTES]);
        }
    }
}

kernel! {
    fn kernel<O: Output>(elements: &[u8], rows: usize, cols: usize, out: &mut [u8], stride: usize, at: usize) = body
}

#[inline(always)]
fn body<S: Simd, O: Output>(
    simd: S,
    elements: &[u8],
    rows: usize,
    cols: usize,
    out: &mut [u8],
    stride: usize,
    at: usize,
) -> usize {
    // Two rows of 16-bit elements form one row of words, so that their elements are adjacent after the transposition.
    let step = step::<O>();
    for row in (0..rows).step_by(step) {
        for col in (0..cols - cols % TILE).step_by(TILE) {
            let mut tile = [[0; TILE]; TILE];
            for (i, words) in tile.iter_mut().enumerate() {
                *words = if O::BYTES == 2 {
                    let [low, high] = [0, 1].map(|half| halves(elements, (row + 2 * i + half) * cols + col));
                    std::array::from_fn(|lane| u32::from(low[lane]) | u32::from(high[lane]) << 16)
                } else {
                    words_at(elements, (row + i) * cols + col)
                };
            }
            for (i, words) in simd.transpose(&tile).iter().enumerate() {
                let start = ((col + i) * stride + at + row) * O::BYTES;
                let Some(out) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut::<{ 4 * TILE }>) else {
                    return 0;
                };
                for (out, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                    *out = word.to_le_bytes();
                }
            }
        }
    }
    rows * (cols - cols % TILE) * O::BYTES
}

/// The sixteen 16-bit elements from `start` on.
#[inline(always)]
fn halves(elements: &[u8], start: usize) -> [u16; TILE] {
    let elements = elements.as_chunks::<2>().0.get(start..).and_then(<[_]>::first_chunk::<TILE>);
    elements.map_or([0; TILE], |elements| elements.map(u16::from_le_bytes))
}

/// The sixteen 32-bit elements from `start` on.
#[inline(always)]
fn words_at(elements: &[u8], start: usize) -> [u32; TILE] {
    let elements = elements.as_chunks::<4>().0.get(start..).and_then(<[_]>::first_chunk::<TILE>);
    elements.map_or([0; TILE], |elements| elements.map(u32::from_le_bytes))
}
