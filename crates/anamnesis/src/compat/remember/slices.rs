//! What the slice functions share: checked sizes and the output buffer.

use anamnesis_kernels as kernels;

use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};
use crate::io::{Lines, is_used, zeroed};
use crate::scheme::coder::filled;
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

/// From here on it takes longer to clear used memory than to copy into it from a cache. Outputs that fit no cache come from the
/// system, which clears their pages when they are first touched: those are never cleared here.
const CLEARED_BYTES: usize = 2 << 20;

/// Bytes decoded before they are copied: half of what a second-level cache has at least.
const PIECE_BYTES: usize = 128 << 10;

fn output_bytes<E: OutputElement>(elements: usize) -> Result<usize> {
    let too_many = || AnamnesisError::limit("available_memory", format!("{elements} output values"));
    elements.checked_mul(E::BYTES).ok_or_else(too_many)
}

/// Space for `elements` values.
pub(super) fn output<E: OutputElement>(elements: usize) -> Result<Vec<u8>> {
    Ok(zeroed(output_bytes::<E>(elements)?))
}

/// Decodes a whole weight. Its memory is written once where that can be had: a large output that comes from used memory is
/// filled past the caches, and one that fits a cache is appended to piece by piece, so that it need not be cleared first.
pub(super) fn decode<E: OutputElement>(decoder: &dyn TileDecoder, elements: usize, parts: &[&[u8]]) -> Result<Vec<u8>> {
    let bytes = output_bytes::<E>(elements)?;
    let mut context = Context::default();
    if (CLEARED_BYTES..UNCACHED_BYTES).contains(&bytes) {
        let mut out = Vec::with_capacity(bytes);
        in_pieces::<E>(decoder, parts, bytes, &mut context, &mut |piece| {
            out.extend_from_slice(piece);
            Ok(())
        })?;
        filled(out.len(), bytes)?;
        return Ok(out);
    }
    let mut out = zeroed(bytes);
    if bytes >= UNCACHED_BYTES && is_used(&mut out) {
        let mut rest = &mut out[..];
        in_pieces::<E>(decoder, parts, bytes, &mut context, &mut |piece| {
            let (now, behind) = std::mem::take(&mut rest).split_at_mut(piece.len());
            rest = behind;
            filled(kernels::copy_past_caches(piece, now), piece.len())
        })?;
    } else if elements > 0 {
        filled(decoder.decode(0..elements as u64, parts, E::TARGET, &mut out, &mut context)?, bytes)?;
    }
    Ok(out)
}

/// Decodes a weight of so many output bytes from front to back, into memory that stays in the caches, and hands each piece over.
fn in_pieces<E: OutputElement>(
    decoder: &dyn TileDecoder,
    parts: &[&[u8]],
    bytes: usize,
    context: &mut Context,
    put: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let granule = usize::try_from(decoder.granule()).unwrap_or(usize::MAX).max(1);
    let step = (PIECE_BYTES / E::BYTES / granule).max(1).saturating_mul(granule);
    let (mut lines, elements) = (Lines::new(), bytes / E::BYTES);
    let piece = lines.of(step.saturating_mul(E::BYTES).min(bytes));
    let mut windows = Vec::new();
    for start in (0..elements).step_by(step) {
        let end = start.saturating_add(step).min(elements);
        let range = start as u64..end as u64;
        windows.clear();
        decoder.windows(range.clone(), &mut windows);
        let inputs = windows.iter().map(|window| window.of(parts)).collect::<Option<Vec<_>>>();
        let inputs = inputs.ok_or_else(|| AnamnesisError::parse("a tile reaches outside its tensor"))?;
        let piece = &mut piece[..(end - start) * E::BYTES];
        filled(decoder.decode(range, &inputs, E::TARGET, piece, context)?, piece.len())?;
        put(piece)?;
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
    let mut out = output::<E>(product(&[inputs, outputs]).unwrap_or(usize::MAX))?;
    decode_rows(Context::default().level(), matrix, stored, E::TARGET, &mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::BlockType;
    use crate::compat::remember::output::sealed::Sealed;
    use crate::compat::remember::{Bf16Out, F32Out};
    use crate::scheme::ggml::GgmlDecoder;

    #[test]
    fn outputs_of_every_size_are_those_of_one_tile() {
        let decoder = GgmlDecoder::new(BlockType::Q8_0);
        // Around the limit for BF16 and F32, with a last piece that is cut short.
        for blocks in [0, 1, 16_383, 16_384, 32_767, 32_768, 40_001] {
            let data: Vec<u8> = (0..34 * blocks).map(|index| (index * 7 % 251) as u8).collect();
            let elements = 32 * blocks;
            let tile = |target, each: usize| {
                let mut out = vec![0; elements * each];
                let written = decoder.decode(0..elements as u64, &[&data], target, &mut out, &mut Context::default());
                assert_eq!(written.unwrap(), out.len());
                out
            };
            assert!(decode::<Bf16Out>(&decoder, elements, &[&data]).unwrap() == tile(Bf16Out::TARGET, 2), "{blocks}");
            assert!(decode::<F32Out>(&decoder, elements, &[&data]).unwrap() == tile(F32Out::TARGET, 4), "{blocks}");
        }
    }
}
