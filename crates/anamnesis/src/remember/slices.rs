//! What the slice functions share: checked sizes and the output buffer.

use anamnesis_kernels as kernels;

use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};
use crate::io::{Lines, is_used, zeroed};
use crate::scheme::decoder::filled;
use crate::scheme::packed::{PackedBytes, PackedMatrix, check_group_index, decode_rows};
use crate::scheme::{Context, ScaleType, TileDecoder};

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
const UNCACHED_BYTES: usize = 32 << 20;

/// Bytes decoded before they are copied past the caches: half of what a second-level cache has at least.
const PIECE_BYTES: usize = 128 << 10;

/// Space for `elements` values, and whether it is best filled past the caches.
pub(super) fn output<E: OutputElement>(elements: usize) -> Result<(Vec<u8>, bool)> {
    let bytes = elements
        .checked_mul(E::BYTES)
        .ok_or_else(|| AnamnesisError::limit("available_memory", format!("{elements} output values")))?;
    let mut out = zeroed(bytes);
    let is_past_caches = bytes >= UNCACHED_BYTES && is_used(&mut out);
    Ok((out, is_past_caches))
}

/// Decodes a whole weight.
pub(super) fn decode<E: OutputElement>(decoder: &dyn TileDecoder, elements: usize, parts: &[&[u8]]) -> Result<Vec<u8>> {
    let (mut out, is_past_caches) = output::<E>(elements)?;
    let mut context = Context::default();
    if is_past_caches {
        decode_in_pieces::<E>(decoder, parts, &mut out, &mut context)?;
    } else if elements > 0 {
        filled(decoder.decode(0..elements as u64, parts, E::TARGET, &mut out, &mut context)?, out.len())?;
    }
    Ok(out)
}

/// Decodes a weight piece by piece into memory that stays in the caches, and copies from there past them.
fn decode_in_pieces<E: OutputElement>(
    decoder: &dyn TileDecoder,
    parts: &[&[u8]],
    out: &mut [u8],
    context: &mut Context,
) -> Result<()> {
    let granule = usize::try_from(decoder.granule()).unwrap_or(usize::MAX).max(1);
    let step = (PIECE_BYTES / E::BYTES / granule).max(1).saturating_mul(granule);
    let (mut lines, length) = (Lines::new(), step.saturating_mul(E::BYTES).min(out.len()));
    let piece = lines.of(length);
    let mut windows = Vec::new();
    for (index, out) in out.chunks_mut(piece.len().max(1)).enumerate() {
        let start = (index * step) as u64;
        let range = start..start + (out.len() / E::BYTES) as u64;
        windows.clear();
        decoder.windows(range.clone(), &mut windows);
        let inputs = windows.iter().map(|window| window.of(parts)).collect::<Option<Vec<_>>>();
        let piece = &mut piece[..out.len()];
        match inputs {
            Some(inputs) => filled(decoder.decode(range, &inputs, E::TARGET, piece, context)?, piece.len())?,
            None => return Err(AnamnesisError::parse("a tile reaches outside its tensor")),
        }
        filled(kernels::copy_past_caches(piece, out), out.len())?;
    }
    Ok(())
}

/// The scale types of the packed integer schemes.
pub(super) fn float_scale(scheme: &str, dtype: Dtype) -> Result<ScaleType> {
    ScaleType::of_float(dtype)
        .ok_or_else(|| AnamnesisError::unsupported(scheme, format!("scales are F32, BF16 or F16, not {dtype}")))
}

/// Decodes a packed matrix to `[in, out]`; every slice must be as long as the geometry needs.
pub(super) fn decode_packed<E: OutputElement>(matrix: &PackedMatrix, stored: PackedBytes<'_>) -> Result<Vec<u8>> {
    let (inputs, outputs, groups) = (matrix.inputs as usize, matrix.outputs as usize, matrix.groups as usize);
    // Whole words along the packed dimension: the caller has checked that.
    let packed = |rows: usize| product(&[rows, outputs, matrix.words.bits() as usize]).map(|bits| bits / 8);
    check_len("qweight", stored.codes, packed(inputs))?;
    check_len("scales", stored.scales, product(&[groups, outputs, matrix.scale.bytes() as usize]))?;
    check_len("qzeros", stored.zeros, packed(groups))?;
    if let Some(index) = stored.group_index {
        check_len("g_idx", index, product(&[inputs, 4]))?;
        check_group_index(index, matrix.groups, 1, false)?;
    }
    let (mut out, _) = output::<E>(product(&[inputs, outputs]).unwrap_or(usize::MAX))?;
    decode_rows(Context::default().level(), matrix, stored, E::TARGET, &mut out)?;
    Ok(out)
}
