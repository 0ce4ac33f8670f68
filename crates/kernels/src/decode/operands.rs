//! Zero points and scales with canonical NaNs.
//!
//! NaN is rare and scales are few, so each call scans them once. Without NaN the kernel runs on the original slices,
//! otherwise on copies of a few blocks at a time in which every NaN is canonical.

use crate::base::float::canonical_nan;
use crate::base::level::Level;
use crate::base::simd::Simd;

/// Blocks whose zero points and scales are copied at once. Their codes are whole groups for any block length.
const PIECE: usize = 64;

kernel! {
    fn nans(numbers: &[f32]) = count_nans
}

kernel! {
    /// Makes every NaN the one that arithmetic yields, so that results do not depend on the order of operands.
    ///
    /// Returns the count of numbers.
    ///
    /// ```
    /// use anamnesis_kernels::{Level, canonical_nans};
    ///
    /// let mut scales = [0.5, f32::from_bits(0x7F80_0001)];
    /// assert_eq!(canonical_nans(Level::detect(), &mut scales), 2);
    /// assert!(scales[0] == 0.5 && scales[1].to_bits() & 0x7FFF_FFFF == 0x7FC0_0000);
    /// ```
    pub fn canonical_nans(numbers: &mut [f32]) = canonicalise
}

#[inline(always)]
fn canonicalise<S: Simd>(_simd: S, numbers: &mut [f32]) -> usize {
    for number in numbers.iter_mut() {
        *number = canonical_nan(*number);
    }
    numbers.len()
}

/// The number of NaNs.
#[inline(always)]
pub(crate) fn count_nans<S: Simd>(_simd: S, numbers: &[f32]) -> usize {
    numbers.iter().map(|number| u32::from(number.is_nan())).sum::<u32>() as usize
}

/// Calls `run` with the codes, zero points, scales and output of all blocks, or of [`PIECE`] blocks at a time, such that
/// every NaN zero point or scale is [canonical](canonical_nan). Returns the sum of the counts that `run` returns.
///
/// Codes have `bits` bits, elements of the output `bytes` bytes.
pub(crate) fn canonical_operands(
    level: Level,
    (codes, bits): (&[u8], usize),
    (zeros, scales, block): (&[f32], &[f32], usize),
    (out, bytes): (&mut [u8], usize),
    mut run: impl FnMut(&[u8], &[f32], &[f32], &mut [u8]) -> usize,
) -> usize {
    let elements = codes.len().div_ceil(bits).saturating_mul(8).min(out.len() / bytes);
    let stored = if zeros.is_empty() { scales.len() } else { scales.len().min(zeros.len()) };
    let blocks = elements.div_ceil(block).min(stored);
    let (zeros, scales) = (&zeros[..blocks.min(zeros.len())], &scales[..blocks]);
    if nans(level, zeros) + nans(level, scales) == 0 {
        return run(codes, zeros, scales, out);
    }
    let elements = block.saturating_mul(PIECE);
    let pieces = codes.chunks((elements / 8).saturating_mul(bits)).zip(out.chunks_mut(elements.saturating_mul(bytes)));
    let mut written = 0;
    for (index, ((codes, out), scales)) in pieces.zip(scales.chunks(PIECE)).enumerate() {
        let zeros = zeros.chunks(PIECE).nth(index).unwrap_or_default();
        let copied = |numbers: &[f32]| -> [f32; PIECE] {
            std::array::from_fn(|i| numbers.get(i).copied().map_or(0.0, canonical_nan))
        };
        written += run(codes, &copied(zeros)[..zeros.len()], &copied(scales)[..scales.len()], out);
    }
    written
}
