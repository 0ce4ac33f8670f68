//! Counting the values of a block by bins of equal width.

use crate::base::simd::Simd;

/// The index under which values that are not finite are counted.
pub const NOT_FINITE: usize = 255;

/// Values that get their bins before they are counted.
const BATCH: usize = 64;

/// Adding this to a number of magnitude below 2^51 rounds it to an integer.
const TO_INTEGER: f64 = 6_755_399_441_055_744.0;
/// The low bits of an integer added to 2^52 are those of the integer.
const TO_BITS: f64 = 4_503_599_627_370_496.0;

kernel! {
    /// Counts values by `floor(value * scale) - first`, which must be at least 0 and below [`NOT_FINITE`] for all finite
    /// values, with a magnitude of `value * scale` below 2^50. Values that are not finite are counted under
    /// [`NOT_FINITE`]. Returns how many values were counted.
    pub fn count_bins(values: &[[u8; 4]], scale: f64, first: f64, counts: &mut [u32; 256]) = body
}

#[inline(always)]
fn body<S: Simd>(_simd: S, values: &[[u8; 4]], scale: f64, first: f64, counts: &mut [u32; 256]) -> usize {
    // Neighbours often share a bin: separate tables keep their additions independent.
    let mut tables = [[0u32; 256]; 4];
    let mut bins = [0u8; BATCH];
    let (whole, rest) = values.as_chunks::<BATCH>();
    for batch in whole {
        for i in 0..BATCH {
            bins[i] = bin(batch[i], scale, first);
        }
        for (index, bin) in bins.iter().enumerate() {
            tables[index % 4][usize::from(*bin)] += 1;
        }
    }
    for value in rest {
        tables[0][usize::from(bin(*value, scale, first))] += 1;
    }
    for (index, count) in counts.iter_mut().enumerate() {
        *count += tables[0][index] + tables[1][index] + tables[2][index] + tables[3][index];
    }
    values.len()
}

#[inline(always)]
fn bin(value: [u8; 4], scale: f64, first: f64) -> u8 {
    let value = f32::from_le_bytes(value);
    let scaled = f64::from(value) * scale;
    let nearest = (scaled + TO_INTEGER) - TO_INTEGER;
    let floor = if nearest > scaled { nearest - 1.0 } else { nearest };
    let bits = ((floor - first) + TO_BITS).to_bits();
    if value.is_finite() { bits as u8 } else { NOT_FINITE as u8 }
}
