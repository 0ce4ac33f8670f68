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

/// Bins that [`count_near_bins`] counts.
pub const NEAR_BINS: usize = 32;

/// Adding this to an `f32` of magnitude below 2^22 rounds it to an integer.
const TO_INTEGER_F32: f32 = 12_582_912.0;
/// The low bits of an integer added to 2^23 are those of the integer.
const TO_BITS_F32: f32 = 8_388_608.0;
/// Values that can be counted in `u16`.
const CHUNK: usize = 1 << 14;

kernel! {
    /// [`count_bins`] for the usual case, in `f32`: all values are finite, `scale` is a power of two of at least one, so
    /// that products are exact, magnitudes of products are below 2^22, and there are at most [`NEAR_BINS`] bins. Returns
    /// how many values were counted.
    pub fn count_near_bins(values: &[[u8; 4]], scale: f32, first: f32, counts: &mut [u32; NEAR_BINS]) = near_body
}

#[inline(always)]
fn near_body<S: Simd>(_simd: S, values: &[[u8; 4]], scale: f32, first: f32, counts: &mut [u32; NEAR_BINS]) -> usize {
    const HALF: usize = BATCH / 2;
    for chunk in values.chunks(CHUNK) {
        // Pairs of bins are counted together, which halves the additions; two tables keep them independent.
        let mut tables = [[0u16; NEAR_BINS * NEAR_BINS]; 2];
        let (whole, rest) = chunk.as_chunks::<BATCH>();
        for batch in whole {
            let mut pairs = [0u16; HALF];
            for i in 0..HALF {
                pairs[i] = near_bin(batch[i], scale, first) | near_bin(batch[i + HALF], scale, first) << 5;
            }
            for pair in pairs.as_chunks::<2>().0 {
                tables[0][usize::from(pair[0] & 1023)] += 1;
                tables[1][usize::from(pair[1] & 1023)] += 1;
            }
        }
        for (high, (rows, others)) in
            tables[0].as_chunks::<NEAR_BINS>().0.iter().zip(tables[1].as_chunks::<NEAR_BINS>().0).enumerate()
        {
            let mut sum = 0;
            for low in 0..NEAR_BINS {
                let count = u32::from(rows[low]) + u32::from(others[low]);
                counts[low] += count;
                sum += count;
            }
            counts[high] += sum;
        }
        for value in rest {
            counts[usize::from(near_bin(*value, scale, first) & 31)] += 1;
        }
    }
    values.len()
}

#[inline(always)]
fn near_bin(value: [u8; 4], scale: f32, first: f32) -> u16 {
    let scaled = f32::from_le_bytes(value) * scale;
    let nearest = (scaled + TO_INTEGER_F32) - TO_INTEGER_F32;
    let floor = if nearest > scaled { nearest - 1.0 } else { nearest };
    (((floor - first) + TO_BITS_F32).to_bits() & 31) as u16
}
