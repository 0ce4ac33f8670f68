//! The smallest and the largest value of each block.

use crate::base::GROUP;
use crate::base::level::Level;
use crate::base::simd::Simd;

/// Finds the smallest and the largest of each block of `values`, which must not be NaN. The last block may be short; a
/// `block` of zero counts as one.
///
/// ```
/// use anamnesis_kernels::{Level, block_range};
///
/// let (mut lows, mut highs) = ([0.0; 2], [0.0; 2]);
/// block_range(Level::detect(), &[1.0, -3.0, 0.5], 2, &mut lows, &mut highs);
/// assert_eq!((lows, highs), ([-3.0, 0.5], [1.0, 0.5]));
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn block_range(level: Level, values: &[f32], block: usize, lows: &mut [f32], highs: &mut [f32]) -> usize {
    range_of_blocks(level, values, block.max(1), lows, highs)
}

kernel! {
    fn range_of_blocks(values: &[f32], block: usize, lows: &mut [f32], highs: &mut [f32]) = body
}

#[inline(always)]
fn body<S: Simd>(_simd: S, values: &[f32], block: usize, lows: &mut [f32], highs: &mut [f32]) -> usize {
    let written = values.len().div_ceil(block).min(lows.len()).min(highs.len());
    for ((values, low), high) in values.chunks(block).zip(lows).zip(highs) {
        let (mut lowest, mut highest) = ([f32::INFINITY; GROUP], [f32::NEG_INFINITY; GROUP]);
        let (groups, rest) = values.as_chunks::<GROUP>();
        for group in groups {
            for i in 0..GROUP {
                lowest[i] = if group[i] < lowest[i] { group[i] } else { lowest[i] };
                highest[i] = if group[i] > highest[i] { group[i] } else { highest[i] };
            }
        }
        for (i, &value) in rest.iter().enumerate() {
            lowest[i] = if value < lowest[i] { value } else { lowest[i] };
            highest[i] = if value > highest[i] { value } else { highest[i] };
        }
        let mut width = GROUP / 2;
        while width > 0 {
            for i in 0..width {
                lowest[i] = if lowest[i + width] < lowest[i] { lowest[i + width] } else { lowest[i] };
                highest[i] = if highest[i + width] > highest[i] { highest[i + width] } else { highest[i] };
            }
            width /= 2;
        }
        (*low, *high) = (lowest[0], highest[0]);
    }
    written
}
