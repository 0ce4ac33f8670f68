//! What the slice functions share: checked sizes and the output buffer.

use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};
use crate::io::{is_used, zeroed};
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

/// From here on an output fits no cache.
const STREAMED_BYTES: usize = 32 << 20;

/// Space for `elements` values, and whether it is best filled past the caches.
pub(super) fn output<E: OutputElement>(elements: usize) -> Result<(Vec<u8>, bool)> {
    let bytes = elements
        .checked_mul(E::BYTES)
        .ok_or_else(|| AnamnesisError::limit("available_memory", format!("{elements} output values")))?;
    let mut out = zeroed(bytes);
    let streamed = bytes >= STREAMED_BYTES && is_used(&mut out);
    Ok((out, streamed))
}

/// Decodes a whole weight as one tile.
pub(super) fn decode<E: OutputElement>(decoder: &dyn TileDecoder, elements: usize, parts: &[&[u8]]) -> Result<Vec<u8>> {
    let (mut out, streamed) = output::<E>(elements)?;
    if elements > 0 {
        let mut scratch = Scratch::for_output(streamed);
        decoder.decode(0..elements as u64, parts, E::TARGET, &mut out, &mut scratch)?;
    }
    Ok(out)
}

/// The scale types of the packed integer schemes.
pub(super) fn float_scale(scheme: &str, dtype: Dtype) -> Result<ScaleType> {
    ScaleType::of_float(dtype)
        .ok_or_else(|| AnamnesisError::unsupported(scheme, format!("scales are F32, BF16 or F16, not {dtype}")))
}
