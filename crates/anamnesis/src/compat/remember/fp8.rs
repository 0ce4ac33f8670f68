//! FP8 weights as slices: E4M3 codes multiplied by scales.
//!
//! Results are little endian and row-major. Lengths that disagree with the shape are `Parse` errors.

use super::slices::decode;
use super::{Bf16Out, OutputElement};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::ScaleType;
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::{Arrangement, Grid};

/// Rows and columns of one block of [`dequantize_fp8`].
const BLOCK: usize = 128;

/// Decodes a weight with one scale per 128×128 block.
///
/// The scales are a row-major grid of `ceil(rows / 128)` rows; it may have more columns than the weight needs.
///
/// ```
/// use anamnesis::{dequantize_fp8, Dtype, F32Out};
/// let scale = 0.5f32.to_le_bytes();
/// let values = dequantize_fp8::<F32Out>(&[0x38, 0x40], &scale, 1, 2, Dtype::F32)?; // 1.0 and 2.0
/// assert_eq!(values, [0.5f32.to_le_bytes(), 1.0f32.to_le_bytes()].concat());
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Parse` if lengths, shape and scale type disagree.
pub fn dequantize_fp8<E: OutputElement>(
    weight: &[u8],
    scale: &[u8],
    rows: usize,
    cols: usize,
    scale_dtype: Dtype,
) -> Result<Vec<u8>> {
    check_elements(weight, rows, cols)?;
    let scale_type = scale_type(scale_dtype)?;
    let scales = scale_count(scale, scale_type)?;
    let grid_rows = rows.div_ceil(BLOCK).max(1);
    let needed = cols.div_ceil(BLOCK);
    if !scales.is_multiple_of(grid_rows) || scales / grid_rows < needed {
        return Err(AnamnesisError::parse(format!(
            "{scales} scales do not cover {rows}x{cols} values in 128x128 blocks: {grid_rows} rows of {needed} are needed"
        )));
    }
    let block = BLOCK as u64;
    let mut grid = Grid::new(rows as u64, cols as u64, block, block, Arrangement::Block(block, block));
    grid.grid_cols = (scales / grid_rows) as u64;
    decode::<E>(&Fp8Decoder::new(Fp8Format::E4m3, grid, Some(scale_type)), weight.len(), &[weight, scale])
}

/// [`dequantize_fp8`] to BF16.
///
/// # Errors
/// As [`dequantize_fp8`].
pub fn dequantize_fp8_to_bf16(
    weight: &[u8],
    scale: &[u8],
    rows: usize,
    cols: usize,
    scale_dtype: Dtype,
) -> Result<Vec<u8>> {
    dequantize_fp8::<Bf16Out>(weight, scale, rows, cols, scale_dtype)
}

/// Decodes a weight with one scale for the whole tensor.
///
/// # Errors
/// `LimitExceeded` if the output exceeds the address space.
pub fn dequantize_per_tensor_fp8<E: OutputElement>(weight: &[u8], scale: f32) -> Result<Vec<u8>> {
    let grid = Grid::single(weight.len() as u64);
    let decoder = Fp8Decoder::new(Fp8Format::E4m3, grid, Some(ScaleType::F32));
    decode::<E>(&decoder, weight.len(), &[weight, &scale.to_le_bytes()])
}

/// [`dequantize_per_tensor_fp8`] to BF16.
///
/// # Errors
/// As [`dequantize_per_tensor_fp8`].
pub fn dequantize_per_tensor_fp8_to_bf16(weight: &[u8], scale: f32) -> Result<Vec<u8>> {
    dequantize_per_tensor_fp8::<Bf16Out>(weight, scale)
}

/// Decodes a weight with one scale per row.
///
/// # Errors
/// `Parse` if lengths, shape and scale type disagree.
pub fn dequantize_per_channel_fp8<E: OutputElement>(
    weight: &[u8],
    scale: &[u8],
    rows: usize,
    cols: usize,
    scale_dtype: Dtype,
) -> Result<Vec<u8>> {
    check_elements(weight, rows, cols)?;
    let scale_type = scale_type(scale_dtype)?;
    let scales = scale_count(scale, scale_type)?;
    if scales != rows {
        return Err(AnamnesisError::parse(format!("{scales} scales for {rows} rows")));
    }
    let grid = Grid::new(rows as u64, cols as u64, 1, cols as u64, Arrangement::Row);
    decode::<E>(&Fp8Decoder::new(Fp8Format::E4m3, grid, Some(scale_type)), weight.len(), &[weight, scale])
}

/// [`dequantize_per_channel_fp8`] to BF16.
///
/// # Errors
/// As [`dequantize_per_channel_fp8`].
pub fn dequantize_per_channel_fp8_to_bf16(
    weight: &[u8],
    scale: &[u8],
    rows: usize,
    cols: usize,
    scale_dtype: Dtype,
) -> Result<Vec<u8>> {
    dequantize_per_channel_fp8::<Bf16Out>(weight, scale, rows, cols, scale_dtype)
}

fn check_elements(weight: &[u8], rows: usize, cols: usize) -> Result<()> {
    if rows.checked_mul(cols) != Some(weight.len()) {
        return Err(AnamnesisError::parse(format!("a weight of {} bytes is not {rows}x{cols} values", weight.len())));
    }
    Ok(())
}

fn scale_type(dtype: Dtype) -> Result<ScaleType> {
    ScaleType::of_float(dtype)
        .ok_or_else(|| AnamnesisError::parse(format!("FP8 scales are F32, BF16 or F16, not {dtype}")))
}

fn scale_count(scale: &[u8], scale_type: ScaleType) -> Result<usize> {
    let bytes = scale_type.bytes() as usize;
    if scale.len().is_multiple_of(bytes) {
        return Ok(scale.len() / bytes);
    }
    Err(AnamnesisError::parse(format!("{} bytes are not whole scales of {bytes} bytes", scale.len())))
}
