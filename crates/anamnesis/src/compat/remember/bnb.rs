//! BitsAndBytes weights as slices.

use super::slices::{check_len, decode, product};
use super::{Bf16Out, OutputElement};
use crate::error::{AnamnesisError, Result};
use crate::scheme::bnb::{Bnb4Decoder, BnbInt8Decoder, Nested};

/// Decodes an NF4 or FP4 weight: `map[code] * absmax`, the high nibble first.
///
/// `absmax` is F32 per block of `block_size` values, `quant_map` 16 F32. A code of the upper half whose value is +0.0
/// decodes to −0.0.
///
/// # Errors
/// `Parse` if lengths and sizes disagree or `block_size` is odd, zero, or does not divide `total_elements`.
pub fn dequantize_bnb4<E: OutputElement>(
    weight: &[u8],
    absmax: &[u8],
    quant_map: &[u8],
    total_elements: usize,
    block_size: usize,
) -> Result<Vec<u8>> {
    let decoder = four_bit(total_elements, block_size, None)?;
    decode_four_bit::<E>(decoder, &[weight, absmax, quant_map])
}

/// [`dequantize_bnb4`] to BF16.
///
/// # Errors
/// As [`dequantize_bnb4`].
pub fn dequantize_bnb4_to_bf16(
    weight: &[u8],
    absmax: &[u8],
    quant_map: &[u8],
    total_elements: usize,
    block_size: usize,
) -> Result<Vec<u8>> {
    dequantize_bnb4::<Bf16Out>(weight, absmax, quant_map, total_elements, block_size)
}

/// Decodes an NF4 or FP4 weight whose scales are quantised too.
///
/// The scale of block `i` is `nested_quant_map[absmax[i]] * nested_absmax[i / nested_block_size] + nested_offset`, each
/// operation rounded.
///
/// # Errors
/// As [`dequantize_bnb4`].
#[allow(clippy::too_many_arguments, reason = "the signature of earlier versions")]
pub fn dequantize_bnb4_double_quant<E: OutputElement>(
    weight: &[u8],
    absmax: &[u8],
    quant_map: &[u8],
    nested_absmax: &[u8],
    nested_quant_map: &[u8],
    nested_offset: f32,
    total_elements: usize,
    block_size: usize,
    nested_block_size: usize,
) -> Result<Vec<u8>> {
    if nested_block_size == 0 {
        return Err(AnamnesisError::parse("a nested block size of 0"));
    }
    let nested = Nested { block: nested_block_size as u64, offset: nested_offset };
    let decoder = four_bit(total_elements, block_size, Some(nested))?;
    decode_four_bit::<E>(decoder, &[weight, absmax, quant_map, nested_absmax, nested_quant_map])
}

/// [`dequantize_bnb4_double_quant`] to BF16.
///
/// # Errors
/// As [`dequantize_bnb4`].
#[allow(clippy::too_many_arguments, reason = "the signature of earlier versions")]
pub fn dequantize_bnb4_double_quant_to_bf16(
    weight: &[u8],
    absmax: &[u8],
    quant_map: &[u8],
    nested_absmax: &[u8],
    nested_quant_map: &[u8],
    nested_offset: f32,
    total_elements: usize,
    block_size: usize,
    nested_block_size: usize,
) -> Result<Vec<u8>> {
    dequantize_bnb4_double_quant::<Bf16Out>(
        weight,
        absmax,
        quant_map,
        nested_absmax,
        nested_quant_map,
        nested_offset,
        total_elements,
        block_size,
        nested_block_size,
    )
}

fn four_bit(total_elements: usize, block_size: usize, nested: Option<Nested>) -> Result<Bnb4Decoder> {
    if block_size == 0 || !block_size.is_multiple_of(2) || !total_elements.is_multiple_of(block_size) {
        return Err(AnamnesisError::parse(format!(
            "blocks of {block_size} do not divide {total_elements} values into even blocks"
        )));
    }
    Ok(Bnb4Decoder { elements: total_elements as u64, block: block_size as u64, nested, dtype: None })
}

fn decode_four_bit<E: OutputElement>(decoder: Bnb4Decoder, parts: &[&[u8]]) -> Result<Vec<u8>> {
    let sizes: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
    decoder.check(&sizes)?;
    decode::<E>(&decoder, decoder.elements as usize, parts)
}

/// Decodes an INT8 weight: `(code * scb) * (1/127)`, with `scb` F32 per output.
///
/// # Errors
/// `Parse` if lengths and shape disagree.
pub fn dequantize_bnb_int8<E: OutputElement>(
    weight: &[u8],
    scb: &[u8],
    out_features: usize,
    in_features: usize,
) -> Result<Vec<u8>> {
    check_len("weight", weight, product(&[out_features, in_features]))?;
    check_len("scb", scb, product(&[out_features, 4]))?;
    decode::<E>(&BnbInt8Decoder { cols: in_features as u64 }, weight.len(), &[weight, scb])
}

/// [`dequantize_bnb_int8`] to BF16.
///
/// # Errors
/// As [`dequantize_bnb_int8`].
pub fn dequantize_bnb_int8_to_bf16(
    weight: &[u8],
    scb: &[u8],
    out_features: usize,
    in_features: usize,
) -> Result<Vec<u8>> {
    dequantize_bnb_int8::<Bf16Out>(weight, scb, out_features, in_features)
}
