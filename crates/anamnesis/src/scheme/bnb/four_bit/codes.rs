//! Encoding values to four-bit codes and block scales.

use std::sync::OnceLock;

use anamnesis_kernels::chosen::{self, Values};
use anamnesis_kernels::{Codebook, Level, SMALLEST_SCALE, Scaling};

use super::tables::QuantType;
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::filled;

impl QuantType {
    /// The midpoints between the sorted entries; a midpoint itself gets the lower entry.
    fn codebook(self) -> &'static Codebook {
        static BOOKS: [OnceLock<Codebook>; 2] = [OnceLock::new(), OnceLock::new()];
        BOOKS[self as usize].get_or_init(|| {
            let map = self.map();
            let mut order: [u8; 16] = std::array::from_fn(|code| code as u8);
            order.sort_by(|&a, &b| map[usize::from(a)].total_cmp(&map[usize::from(b)]));
            let sorted = order.map(|code| map[usize::from(code)]);
            Codebook::with(std::array::from_fn(|i| (sorted[i] + sorted[i + 1]) / 2.0), order)
        })
    }
}

/// Finds the scale of each block of `values`. Only the last block of a tensor may be short.
///
/// # Errors
/// `Parse` if a value is not finite, with its index.
pub(crate) fn absmax_of_blocks(level: Level, values: &[f32], block_size: usize, absmax: &mut [f32]) -> Result<()> {
    filled(chosen::block_largest(level, Values::F32(values), block_size, absmax), absmax.len())?;
    refuse_unscalable(values, absmax)?;
    let whole = values.len() / block_size.max(1);
    if let Some(last) = absmax.get_mut(whole).filter(|_| !values.len().is_multiple_of(block_size)) {
        *last = last.max(SMALLEST_SCALE);
    }
    Ok(())
}

/// Encodes `values`: two codes per byte, the high nibble first, and a scale per block. Only the last block of a tensor
/// may be short; a last byte with one value has the code of zero in its low nibble. Returns how many bytes of codes
/// were written.
///
/// # Errors
/// `Parse` if a value is not finite, with its index.
pub(crate) fn encode_4bit_blocks(
    level: Level,
    values: &[f32],
    block_size: usize,
    quant_type: QuantType,
    codes: &mut [u8],
    absmax: &mut [f32],
) -> Result<usize> {
    absmax_of_blocks(level, values, block_size, absmax)?;
    let book = quant_type.codebook();
    let whole = values.len() / block_size;
    let (blocks, last) = values.split_at(whole * block_size);
    let (block_codes, last_codes) = codes.split_at_mut(blocks.len() / 2);
    let (scales, last_scale) = absmax.split_at(whole.min(absmax.len()));
    let (scaling, of_last) = (Scaling::Multiply, Scaling::Divide);
    let written = chosen::nearest_codes(level, Values::F32(blocks), book, scales, block_size, scaling, block_codes);
    let last = chosen::nearest_codes(level, Values::F32(last), book, last_scale, block_size, of_last, last_codes);
    Ok(written + last)
}

/// Refuses values that leave a scale infinite or NaN.
pub(super) fn refuse_unscalable(values: &[f32], scales: &[f32]) -> Result<()> {
    if scales.iter().all(|scale| scale.is_finite()) {
        return Ok(());
    }
    let place = values.iter().position(|value| !value.is_finite());
    let (index, value) = place.map_or((0, f32::INFINITY), |index| (index, values[index]));
    Err(AnamnesisError::parse(format!("value {index} is {value}, which no scale can hold")))
}
