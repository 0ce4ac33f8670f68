//! Size checks and output vectors, shared by the functions that decode slices.

use std::ops::Range;

use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};
use crate::io::with_capacity;
use crate::scheme::coder::filled;
use crate::scheme::packed::{PackedBytes, PackedMatrix, RowDecoder, check_group_index};
use crate::scheme::{Context, ScaleType, TileDecoder};

use super::OutputElement;

/// Refuses a slice whose length differs from `expected`, which is `None` if its computation overflows.
pub(super) fn check_len(what: &str, slice: &[u8], expected: Option<usize>) -> Result<()> {
    match expected {
        Some(expected) if expected == slice.len() => Ok(()),
        Some(expected) => {
            Err(AnamnesisError::parse(format!("{what} takes {} bytes, {expected} are needed", slice.len())))
        }
        None => Err(AnamnesisError::parse(format!("the size of {what} overflows"))),
    }
}

/// The product of factors; `None` if it overflows.
pub(super) fn product(factors: &[usize]) -> Option<usize> {
    factors.iter().try_fold(1usize, |product, &factor| product.checked_mul(factor))
}

/// Output bytes decoded at a time: a quarter of a small L2 cache, enough to hide the cost of a call.
const PIECE_BYTES: usize = 64 << 10;

/// A new vector of `elements` values, `step` values at a time. A piece is cleared just before it is decoded, while it
/// is in the cache, so that main memory is written once. `decode` gets a range of values and the bytes to fill, and
/// returns how many bytes it wrote.
pub(super) fn filled_once<E: OutputElement>(
    elements: usize,
    step: usize,
    mut decode: impl FnMut(Range<usize>, &mut [u8]) -> Result<usize>,
) -> Result<Vec<u8>> {
    let too_many = || AnamnesisError::limit("available_memory", format!("{elements} output values"));
    let mut out = with_capacity(elements.checked_mul(E::BYTES).ok_or_else(too_many)?);
    for start in (0..elements).step_by(step.max(1)) {
        let end = start.saturating_add(step.max(1)).min(elements);
        out.resize(end * E::BYTES, 0);
        let piece = &mut out[start * E::BYTES..];
        filled(decode(start..end, piece)?, piece.len())?;
    }
    Ok(out)
}

/// Number of values per piece, a multiple of the granule.
pub(super) fn piece<E: OutputElement>(granule: usize) -> usize {
    (PIECE_BYTES / E::BYTES / granule.max(1)).max(1).saturating_mul(granule)
}

/// Decodes a whole weight.
pub(super) fn decode<E: OutputElement>(decoder: &dyn TileDecoder, elements: usize, parts: &[&[u8]]) -> Result<Vec<u8>> {
    let granule = usize::try_from(decoder.granule()).unwrap_or(usize::MAX);
    let (mut context, mut windows) = (Context::default(), Vec::new());
    filled_once::<E>(elements, piece::<E>(granule), |range, out| {
        let range = range.start as u64..range.end as u64;
        windows.clear();
        decoder.windows(range.clone(), &mut windows);
        let inputs = windows.iter().map(|window| window.of(parts)).collect::<Option<Vec<_>>>();
        let inputs = inputs.ok_or_else(|| AnamnesisError::parse("a tile reaches outside its tensor"))?;
        decoder.decode(range, &inputs, E::TARGET, out, &mut context)
    })
}

/// The scale type of the packed integer schemes.
pub(super) fn float_scale(scheme: &str, dtype: Dtype) -> Result<ScaleType> {
    ScaleType::of_float(dtype)
        .ok_or_else(|| AnamnesisError::unsupported(scheme, format!("scales are F32, BF16 or F16, not {dtype}")))
}

/// Decodes a packed matrix to `[in, out]`; the length of every slice is checked against the shape.
pub(super) fn decode_packed<E: OutputElement>(matrix: &PackedMatrix, stored: PackedBytes<'_>) -> Result<Vec<u8>> {
    let (inputs, outputs, groups) = (matrix.inputs as usize, matrix.outputs as usize, matrix.groups as usize);
    // The caller has checked that the packed dimension is a whole number of words.
    let packed = |rows: usize| product(&[rows, outputs, matrix.words.bits() as usize]).map(|bits| bits / 8);
    check_len("qweight", stored.codes, packed(inputs))?;
    check_len("scales", stored.scales, product(&[groups, outputs, matrix.scale.bytes() as usize]))?;
    check_len("qzeros", stored.zeros, packed(groups))?;
    if let Some(index) = stored.group_index {
        check_len("g_idx", index, product(&[inputs, 4]))?;
        check_group_index(index, matrix.groups, 1, false)?;
    }
    let mut rows = RowDecoder::new(Context::default().level(), matrix, stored, E::TARGET);
    let granule = outputs.saturating_mul(matrix.inputs_per_word());
    filled_once::<E>(product(&[inputs, outputs]).unwrap_or(usize::MAX), piece::<E>(granule), |range, out| {
        rows.decode(range.start / outputs..range.end / outputs, out)
    })
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
        // Around one piece of BF16 and of F32, and several pieces with a shorter last one.
        for blocks in [0, 1, 1023, 1024, 2047, 2048, 2049, 40_001] {
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
