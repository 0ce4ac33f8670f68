//! What the slice functions share: checked sizes and the output buffer.

use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};
use crate::io::zeroed;
use crate::scheme::{ScaleType, Scratch, TileDecoder};

use super::OutputElement;

/// Refuses a slice that is not as long as the geometry needs; `expected` is `None` where that overflows.
pub(super) fn check_len(what: &str, slice: &[u8], expected: Option<usize>) -> Result<()> {
    match expected {
        Some(expected) if expected == slice.len() => Ok(()),
        Some(expected) => {
            Err(AnamnesisError::parse(format!("{what} takes {} bytes, {expected} are needed", slice.len())))
        }
        None => Err(AnamnesisError::parse(format!("the size of {what} overflows"))),
    }
}

/// The product of factors, `None` where it overflows.
pub(super) fn product(factors: &[usize]) -> Option<usize> {
    factors.iter().try_fold(1usize, |product, &factor| product.checked_mul(factor))
}

/// Space for `elements` values.
pub(super) fn output<E: OutputElement>(elements: usize) -> Result<Vec<u8>> {
    let bytes = elements
        .checked_mul(E::BYTES)
        .ok_or_else(|| AnamnesisError::limit("available_memory", format!("{elements} output values")))?;
    Ok(zeroed(bytes))
}

/// Decodes a whole weight as one tile.
pub(super) fn decode<E: OutputElement>(decoder: &dyn TileDecoder, elements: usize, parts: &[&[u8]]) -> Result<Vec<u8>> {
    let mut out = output::<E>(elements)?;
    if elements > 0 {
        decoder.decode(0..elements as u64, parts, E::TARGET, &mut out, &mut Scratch::default())?;
    }
    Ok(out)
}

/// The scale types of the packed integer schemes.
pub(super) fn float_scale(scheme: &str, dtype: Dtype) -> Result<ScaleType> {
    ScaleType::of_float(dtype)
        .ok_or_else(|| AnamnesisError::unsupported(scheme, format!("scales are F32, BF16 or F16, not {dtype}")))
}
