//! Encoding rows to eight-bit codes.

use anamnesis_kernels::chosen::{self, Rounded, Values};
use anamnesis_kernels::{Level, Steps};

use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::filled;

/// How many values are rounded to F16 at a time.
const STRIP: usize = 4096;

/// Encodes rows of `cols` values: a code per value, and a scale per row. Returns how many codes were written.
///
/// Values are rounded to F16 first, as bitsandbytes does with weights of every type.
///
/// # Errors
/// `Parse` if a value is not finite in F16, with its index.
pub(crate) fn encode_int8_rows(
    level: Level,
    values: &[f32],
    cols: usize,
    codes: &mut [u8],
    scb: &mut [f32],
) -> Result<usize> {
    if cols == 0 {
        scb.fill(0.0);
        return Ok(0);
    }
    let mut written = 0;
    let rows = values.chunks_exact(cols).zip(codes.chunks_exact_mut(cols)).zip(scb);
    for (index, ((row, codes), scale)) in rows.enumerate() {
        let mut halves = [[0; 2]; STRIP];
        *scale = 0.0;
        for strip in row.chunks(STRIP) {
            let halves = &mut halves[..strip.len()];
            filled(chosen::round_slice(level, Rounded::F16, strip, halves.as_flattened_mut()), 2 * strip.len())?;
            let mut largest = [0.0];
            filled(chosen::block_largest(level, Values::F16(halves), STRIP, &mut largest), 1)?;
            if !largest[0].is_finite() {
                return Err(unscalable(row, index * cols));
            }
            *scale = scale.max(largest[0]);
        }
        for (strip, codes) in row.chunks(STRIP).zip(codes.chunks_mut(STRIP)) {
            let halves = &mut halves[..strip.len()];
            if row.len() > STRIP {
                filled(chosen::round_slice(level, Rounded::F16, strip, halves.as_flattened_mut()), 2 * strip.len())?;
            }
            written += chosen::row_codes(level, Values::F16(halves), &[*scale], STRIP, Steps::Multiply, codes);
        }
    }
    Ok(written)
}

/// Halfway between the largest F16 and the next power of two: values from here on round to infinity.
pub(super) const F16_OVERFLOW: f32 = 65520.0;

fn unscalable(row: &[f32], first: usize) -> AnamnesisError {
    let is_too_large = |value: &f32| value.is_nan() || value.abs() >= F16_OVERFLOW;
    let place = row.iter().position(is_too_large).unwrap_or(0);
    let value = row.get(place).copied().unwrap_or(f32::NAN);
    AnamnesisError::parse(format!(
        "value {} is {value}; INT8 weights pass through F16, which ends at 65504",
        first + place
    ))
}
