//! BF16 slices to BitsAndBytes codes, the inverse of [`remember::bnb`](crate::compat::remember::bnb).
//!
//! A value is divided by its block's scale and encoded as the nearest entry of the codebook; ties go to the first
//! entry. A quotient that equals an entry bit for bit always gets that entry, so that decoded values are encoded to the
//! same codes. If both halves of the codebook have the same entry, negative quotients get the one of the upper half.
//!
//! bitsandbytes itself multiplies by the inverse of the scale and compares with midpoints, so that some values halfway
//! between two entries are encoded differently. Conversions of whole files follow bitsandbytes.

use anamnesis_kernels::chosen::Values;
use anamnesis_kernels::{self as kernels, Codebook, Scaling, Steps, chosen};

use crate::error::{AnamnesisError, Result};
use crate::io::zeroed;
use crate::scheme::Context;
use crate::scheme::bnb::{FP4_MAP, NF4_MAP};
use crate::scheme::coder::filled;

/// The default block size of NF4 files.
pub const NF4_BLOCK_SIZE: usize = 64;

/// The values of the NF4 codes.
pub const NF4_CODEBOOK: [f32; 16] = NF4_MAP;

/// The values of the FP4 codes. Code 8 is −0.0 here; the files of bitsandbytes have +0.0.
pub const FP4_CODEBOOK: [f32; 16] = {
    let mut map = FP4_MAP;
    map[8] = -0.0;
    map
};

/// Encodes values with known scales (`absmax`, F32 per block). Two codes per byte, the high nibble first.
///
/// # Errors
/// `Parse` if lengths and sizes disagree.
pub fn encode_bnb4(
    bf16: &[u8],
    absmax: &[u8],
    quant_map: &[u8],
    total_elements: usize,
    block_size: usize,
) -> Result<Vec<u8>> {
    let blocks = check_blocks(bf16, total_elements, block_size)?;
    let scales = floats("absmax", absmax, blocks)?;
    pack(bf16, &scales, quant_map, block_size)
}

/// Encodes values with computed scales, the largest magnitude of each block. Returns the codes and the scales (F32).
///
/// ```
/// use anamnesis::{NF4_CODEBOOK, encode_bnb4_compute_absmax};
/// let map: Vec<u8> = NF4_CODEBOOK.iter().flat_map(|value| value.to_le_bytes()).collect();
/// let ones = [0x80, 0x3f].repeat(64);
/// let (codes, absmax) = encode_bnb4_compute_absmax(&ones, &map, 64, 64)?;
/// assert_eq!((codes, absmax), (vec![0xff; 32], 1.0f32.to_le_bytes().to_vec()));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Parse` if lengths and sizes disagree.
pub fn encode_bnb4_compute_absmax(
    bf16: &[u8],
    quant_map: &[u8],
    total_elements: usize,
    block_size: usize,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let blocks = check_blocks(bf16, total_elements, block_size)?;
    let (level, book, values) = (Context::default().level(), codebook(quant_map)?, bf16.as_chunks().0);
    let (mut codes, mut scales) = (zeroed(values.len() / 2), empty_scales(blocks)?);
    let strip = whole_blocks(block_size);
    let strips = values.chunks(strip).zip(codes.chunks_mut(strip / 2)).zip(scales.chunks_mut(strip / block_size));
    for ((values, codes), scales) in strips {
        let values = Values::Bf16(values);
        filled(chosen::block_largest_number(level, values, block_size, scales), scales.len())?;
        let written = chosen::nearest_codes(level, values, &book, scales, block_size, Scaling::Divide, codes);
        filled(written, codes.len())?;
    }
    Ok((codes, to_bytes(&scales)))
}

/// Encodes values with quantised scales (double quantisation), which are dequantised as in decoding.
///
/// # Errors
/// `Parse` if lengths and sizes disagree.
#[allow(clippy::too_many_arguments, reason = "the signature of earlier versions")]
pub fn encode_bnb4_double_quant(
    bf16: &[u8],
    absmax: &[u8],
    quant_map: &[u8],
    nested_absmax: &[u8],
    nested_quant_map: &[u8],
    nested_offset: f32,
    total_elements: usize,
    block_size: usize,
    nested_block_size: usize,
) -> Result<Vec<u8>> {
    let blocks = check_blocks(bf16, total_elements, block_size)?;
    if nested_block_size == 0 || absmax.len() != blocks {
        let why = format!(
            "{blocks} blocks need as many scale codes, not {}, in nested blocks of {nested_block_size}",
            absmax.len()
        );
        return Err(AnamnesisError::parse(why));
    }
    let nested = floats("nested_absmax", nested_absmax, blocks.div_ceil(nested_block_size))?;
    let map = floats("nested_quant_map", nested_quant_map, 256)?;
    let map = map.first_chunk().ok_or_else(|| AnamnesisError::parse("nested_quant_map does not have 256 entries"))?;
    let mut scales = empty_scales(blocks)?;
    let written = kernels::nested_scales(
        Context::default().level(),
        absmax,
        map,
        &nested,
        nested_block_size,
        nested_offset,
        &mut scales,
    );
    filled(written, blocks)?;
    pack(bf16, &scales, quant_map, block_size)
}

/// Encodes rows with known scales (`scb`, F32 per row): `round(value / (scb / 127))`, halves away from zero.
///
/// # Errors
/// `Parse` if lengths and shape disagree.
pub fn encode_bnb_int8(bf16: &[u8], scb: &[u8], out_features: usize, in_features: usize) -> Result<Vec<u8>> {
    check_matrix(bf16, out_features, in_features)?;
    rows(bf16, &floats("scb", scb, out_features)?, in_features)
}

/// Encodes rows with computed scales, the largest magnitude of each row. Returns the codes and the scales (F32).
///
/// # Errors
/// `Parse` if lengths and shape disagree.
pub fn encode_bnb_int8_compute_scb(bf16: &[u8], out_features: usize, in_features: usize) -> Result<(Vec<u8>, Vec<u8>)> {
    check_matrix(bf16, out_features, in_features)?;
    let (level, values) = (Context::default().level(), bf16.as_chunks().0);
    let (mut codes, mut scales) = (zeroed(values.len()), empty_scales(out_features)?);
    if in_features > 0 {
        let strip = whole_blocks(in_features);
        let strips = values.chunks(strip).zip(codes.chunks_mut(strip)).zip(scales.chunks_mut(strip / in_features));
        for ((values, codes), scales) in strips {
            let values = Values::Bf16(values);
            filled(chosen::block_largest_number(level, values, in_features, scales), scales.len())?;
            let written = chosen::row_codes(level, values, scales, in_features, Steps::Divide, codes);
            filled(written, codes.len())?;
        }
    }
    Ok((codes, to_bytes(&scales)))
}

fn check_blocks(bf16: &[u8], total_elements: usize, block_size: usize) -> Result<usize> {
    let divides = block_size > 0 && block_size.is_multiple_of(2) && total_elements.is_multiple_of(block_size);
    if !divides || total_elements.checked_mul(2) != Some(bf16.len()) {
        return Err(AnamnesisError::parse(format!(
            "{} bytes of BF16 are not {total_elements} values in even blocks of {block_size}",
            bf16.len()
        )));
    }
    Ok(total_elements / block_size)
}

fn check_matrix(bf16: &[u8], out_features: usize, in_features: usize) -> Result<()> {
    let bytes = out_features.checked_mul(in_features).and_then(|elements| elements.checked_mul(2));
    if bytes != Some(bf16.len()) {
        let why = format!("{} bytes of BF16 are not {out_features}x{in_features} values", bf16.len());
        return Err(AnamnesisError::parse(why));
    }
    Ok(())
}

fn floats(what: &str, bytes: &[u8], count: usize) -> Result<Vec<f32>> {
    if count.checked_mul(4) != Some(bytes.len()) {
        return Err(AnamnesisError::parse(format!("{what} takes {} bytes, {count} F32 are needed", bytes.len())));
    }
    Ok(bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect())
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// An empty vector with room for `count` scales. The number is not bounded by that of the values, since
/// rows may be empty.
fn empty_scales(count: usize) -> Result<Vec<f32>> {
    let mut scales = Vec::new();
    let refuse = |_| AnamnesisError::limit("available_memory", format!("{count} scales do not fit in memory"));
    scales.try_reserve_exact(count).map_err(refuse)?;
    scales.resize(count, 0.0);
    Ok(scales)
}

/// Number of values processed at a time: they are read twice and should stay in the cache.
const STRIP: usize = 1 << 13;

/// The largest multiple of the block size within a strip, but at least one block.
fn whole_blocks(block_size: usize) -> usize {
    (STRIP / block_size).max(1) * block_size
}

fn codebook(quant_map: &[u8]) -> Result<Codebook> {
    let map = floats("quant_map", quant_map, 16)?;
    let map = map.try_into().map_err(|_| AnamnesisError::parse("quant_map does not have 16 entries"))?;
    Ok(Codebook::nearest(map))
}

fn pack(bf16: &[u8], scales: &[f32], quant_map: &[u8], block_size: usize) -> Result<Vec<u8>> {
    let (level, book, values) = (Context::default().level(), codebook(quant_map)?, bf16.as_chunks().0);
    let mut codes = zeroed(values.len() / 2);
    let values = Values::Bf16(values);
    let written = chosen::nearest_codes(level, values, &book, scales, block_size, Scaling::Divide, &mut codes);
    filled(written, codes.len())?;
    Ok(codes)
}

fn rows(bf16: &[u8], scales: &[f32], in_features: usize) -> Result<Vec<u8>> {
    let values = bf16.as_chunks().0;
    let mut codes = zeroed(values.len());
    let (level, values) = (Context::default().level(), Values::Bf16(values));
    filled(chosen::row_codes(level, values, scales, in_features, Steps::Divide, &mut codes), codes.len())?;
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::remember::{dequantize_bnb_int8_to_bf16, dequantize_bnb4_to_bf16};

    fn every_byte(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index * 151 % 256) as u8).collect()
    }

    #[test]
    fn decoded_values_are_encoded_to_the_same_codes() {
        for map in [NF4_CODEBOOK, FP4_CODEBOOK] {
            let map = to_bytes(&map);
            // The scale is a power of two, so that the product with a rounded entry is exact in BF16.
            let (codes, scales) = (every_byte(512), to_bytes(&[0.5; 16]));
            let values = dequantize_bnb4_to_bf16(&codes, &scales, &map, 1024, 64).unwrap();
            let again = encode_bnb4(&values, &scales, &map, 1024, 64).unwrap();
            assert_eq!(dequantize_bnb4_to_bf16(&again, &scales, &map, 1024, 64).unwrap(), values);
            assert_eq!(again, codes);
        }
    }

    #[test]
    fn int8_comes_back_to_the_same_codes() {
        let codes: Vec<u8> = (0..=255).map(|code: u8| if code == 0x80 { 0x81 } else { code }).collect();
        let scales = to_bytes(&[127.0]);
        let values = dequantize_bnb_int8_to_bf16(&codes, &scales, 1, 256).unwrap();
        assert_eq!(encode_bnb_int8(&values, &scales, 1, 256).unwrap(), codes);
        let (again, found) = encode_bnb_int8_compute_scb(&values, 1, 256).unwrap();
        assert_eq!((again, found), (codes, scales));
    }

    #[test]
    fn the_scale_is_the_largest_magnitude_and_nan_counts_for_nothing() {
        let mut values = [0x00, 0x00].repeat(64);
        values[10..14].copy_from_slice(&[0xc0, 0x7f, 0x00, 0xc0]); // NaN, -2
        let (codes, scale) = encode_bnb4_compute_absmax(&values, &to_bytes(&NF4_CODEBOOK), 64, 64).unwrap();
        assert_eq!(scale, 2f32.to_le_bytes());
        assert_eq!(codes[3] >> 4, 0, "the largest is the first entry");
        assert_eq!(codes[0], 0x77, "zero is entry seven");
    }

    #[test]
    fn lengths_that_disagree_are_refused() {
        let map = to_bytes(&NF4_CODEBOOK);
        assert!(encode_bnb4_compute_absmax(&[0; 128], &map, 64, 63).is_err());
        assert!(encode_bnb4_compute_absmax(&[0; 128], &map, 64, 0).is_err());
        assert!(encode_bnb4_compute_absmax(&[0; 126], &map, 64, 64).is_err());
        assert!(encode_bnb4_compute_absmax(&[0; 128], &map[4..], 64, 64).is_err());
        assert!(encode_bnb4(&[0; 128], &[0; 8], &map, 64, 64).is_err());
        assert!(encode_bnb_int8(&[0; 8], &[0; 4], 1, 5).is_err());
        assert!(encode_bnb_int8(&[0; 8], &[0; 4], usize::MAX, 4).is_err());
    }
}
