//! NVFP4 weights as slices, in the layout of ModelOpt: E2M1 codes with an E4M3 scale per 16 values and one F32 scale.

use anamnesis_kernels::Level;
use anamnesis_kernels::chosen::{self as kernels, Packed, Rounded};

use super::slices::{check_len, filled_once, piece, product};
use super::{Bf16Out, OutputElement};
use crate::error::{AnamnesisError, Result};
use crate::scheme::Context;
use crate::scheme::coder::{filled, rounded};

/// Values per block.
const BLOCK: usize = 16;
/// Blocks decoded at a time.
const STRIP: usize = 1024;

/// The values of the codes. ModelOpt's table has +0 for code 8.
const MAP: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Decodes a weight: `code * (block_scale * global_scale)`, the low nibble first.
///
/// # Errors
/// `Parse` where lengths and shape disagree or 16 does not divide `cols`.
pub fn dequantize_nvfp4<E: OutputElement>(
    weight: &[u8],
    block_scales: &[u8],
    global_scale: f32,
    rows: usize,
    cols: usize,
) -> Result<Vec<u8>> {
    if !cols.is_multiple_of(BLOCK) {
        return Err(AnamnesisError::parse(format!("{cols} columns are not whole blocks of {BLOCK}")));
    }
    check_len("weight", weight, product(&[rows, cols / 2]))?;
    check_len("block_scales", block_scales, product(&[rows, cols / BLOCK]))?;
    let elements =
        product(&[rows, cols]).ok_or_else(|| AnamnesisError::parse(format!("{rows}x{cols} values are too many")))?;
    let (level, to) = (Context::default().level(), rounded(E::TARGET));
    filled_once::<E>(elements, piece::<E>(BLOCK), |range, out| {
        let (codes, scales) = (range.start / 2..range.end / 2, range.start / BLOCK..range.end / BLOCK);
        decode(level, to, &weight[codes], &block_scales[scales], global_scale, out)
    })
}

/// [`dequantize_nvfp4`] to BF16.
///
/// # Errors
/// As [`dequantize_nvfp4`].
pub fn dequantize_nvfp4_to_bf16(
    weight: &[u8],
    block_scales: &[u8],
    global_scale: f32,
    rows: usize,
    cols: usize,
) -> Result<Vec<u8>> {
    dequantize_nvfp4::<Bf16Out>(weight, block_scales, global_scale, rows, cols)
}

fn decode(
    level: Level,
    to: Rounded,
    weight: &[u8],
    block_scales: &[u8],
    global_scale: f32,
    out: &mut [u8],
) -> Result<usize> {
    let (mut scales, mut written) = ([0.0; STRIP], 0);
    let strips = weight.chunks(STRIP * BLOCK / 2).zip(out.chunks_mut(STRIP * BLOCK * to.bytes()));
    for ((codes, out), stored) in strips.zip(block_scales.chunks(STRIP)) {
        let scales = &mut scales[..stored.len()];
        filled(kernels::widen_e4m3(level, stored, scales), stored.len())?;
        scales.iter_mut().for_each(|scale| *scale *= global_scale);
        written += kernels::coded_blocks(level, Packed::LowNibbles, to, codes, &MAP, &[], scales, BLOCK, out);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn every_level_gives_the_same_values() {
        // More than a strip, with every code under every scale, NaN among them.
        let blocks = STRIP + 300;
        let weight: Vec<u8> = (0..blocks * BLOCK / 2).map(|index| (index * 151 % 256) as u8).collect();
        let scales: Vec<u8> = (0..blocks).map(|index| index as u8).collect();
        let decoded = |level| {
            let mut out = vec![0; blocks * BLOCK * 2];
            assert_eq!(decode(level, Rounded::Bf16, &weight, &scales, 0.3, &mut out).unwrap(), out.len());
            out
        };
        let portable = decoded(Level::portable());
        assert_eq!(portable[..2], [0, 0], "a scale of zero");
        for level in Level::available() {
            assert!(decoded(level) == portable, "{level}");
        }
    }
}
