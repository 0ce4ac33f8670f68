//! Finished elements turned: rows of a matrix become columns of a larger output.

use crate::base::level::Level;
use crate::base::output::Output;
use crate::base::simd::{Simd, TILE};

/// Transposes a matrix of finished elements, `rows` by `cols`, into the columns from `at` on of `out`, whose rows have `stride`
/// elements.
///
/// Nothing is written unless `elements` holds the whole matrix and `out` all of its columns.
///
/// ```
/// use anamnesis_kernels::{Bf16, Level, turn_columns};
///
/// let mut out = [0; 12];
/// turn_columns::<Bf16>(Level::detect(), &[1, 0, 2, 0, 3, 0, 4, 0], 2, 2, &mut out, 3, 1);
/// assert_eq!(out, [0, 0, 1, 0, 3, 0, 0, 0, 2, 0, 4, 0]);
/// ```
pub fn turn_columns<O: Output>(
    level: Level,
    elements: &[u8],
    rows: usize,
    cols: usize,
    out: &mut [u8],
    stride: usize,
    at: usize,
) {
    let fits = || {
        let end = at.checked_add(rows).filter(|&end| end <= stride)?;
        let size = rows.checked_mul(cols)?.checked_mul(O::BYTES)?;
        let turned = cols.checked_sub(1)?.checked_mul(stride)?.checked_add(end)?.checked_mul(O::BYTES)?;
        (elements.len() >= size && out.len() >= turned).then_some(())
    };
    if fits().is_some() {
        kernel::<O>(level, elements, rows, cols, out, stride, at);
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
) {
    // Two rows of half words are one row of words: their elements stand beside each other once they are turned.
    let step = if O::BYTES == 2 { 2 * TILE } else { TILE };
    for row in (0..rows).step_by(step) {
        let height = step.min(rows - row);
        for col in (0..cols).step_by(TILE) {
            let mut tile = [[0; TILE]; TILE];
            for (i, words) in tile.iter_mut().enumerate() {
                *words = if O::BYTES == 2 {
                    let [low, high] = [0, 1].map(|half| halves(elements, (row + 2 * i + half) * cols + col));
                    std::array::from_fn(|lane| u32::from(low[lane]) | u32::from(high[lane]) << 16)
                } else {
                    words_at(elements, (row + i) * cols + col)
                };
            }
            for (i, words) in simd.transpose(&tile).iter().enumerate().take(cols - col) {
                let start = ((col + i) * stride + at + row) * O::BYTES;
                write(words, height * O::BYTES, out.get_mut(start..).unwrap_or_default());
            }
        }
    }
}

/// Sixteen half words from this element on; what is not there is zero.
#[inline(always)]
fn halves(elements: &[u8], start: usize) -> [u16; TILE] {
    let elements = elements.as_chunks::<2>().0.get(start..).unwrap_or_default();
    let mut halves = [0; TILE];
    match elements.first_chunk::<TILE>() {
        Some(whole) => halves.iter_mut().zip(whole).for_each(|(to, from)| *to = u16::from_le_bytes(*from)),
        None => halves.iter_mut().zip(elements).for_each(|(to, from)| *to = u16::from_le_bytes(*from)),
    }
    halves
}

/// Sixteen words from this element on; what is not there is zero.
#[inline(always)]
fn words_at(elements: &[u8], start: usize) -> [u32; TILE] {
    let elements = elements.as_chunks::<4>().0.get(start..).unwrap_or_default();
    let mut words = [0; TILE];
    match elements.first_chunk::<TILE>() {
        Some(whole) => words.iter_mut().zip(whole).for_each(|(to, from)| *to = u32::from_le_bytes(*from)),
        None => words.iter_mut().zip(elements).for_each(|(to, from)| *to = u32::from_le_bytes(*from)),
    }
    words
}

/// Writes the first `count` bytes of sixteen words.
#[inline(always)]
fn write(words: &[u32; TILE], count: usize, out: &mut [u8]) {
    let mut bytes = [0; 4 * TILE];
    for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    match out.first_chunk_mut::<{ 4 * TILE }>() {
        Some(out) if count == 4 * TILE => *out = bytes,
        _ => out.iter_mut().zip(&bytes[..count.min(4 * TILE)]).for_each(|(out, byte)| *out = *byte),
    }
}
