//! NVFP4 weights as slices, in the layout of ModelOpt: E2M1 codes with an E4M3 scale per 16 values and one
//! F32 global scale.

use super::slices::{check_len, decode, product};
use super::{Bf16Out, OutputElement};
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{Arrangement, Grid, ScaleType};
use crate::scheme::grouped::{Arithmetic, GlobalScale, Grouped, Layout, Meaning, Offsets, Scales};

/// Values per block.
const BLOCK: usize = 16;

/// Decodes a weight: `code * (block_scale * global_scale)`, the low nibble first.
///
/// # Errors
/// `Parse` if lengths and shape disagree or `cols` is not a multiple of 16.
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
    if elements == 0 {
        return Ok(Vec::new());
    }
    decode::<E>(&decoder(rows as u64, cols as u64), elements, &[weight, block_scales, &global_scale.to_le_bytes()])
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

/// The decoder of a matrix in ModelOpt's layout, whose codebook has +0 for code 8.
fn decoder(rows: u64, cols: u64) -> Grouped {
    let block = BLOCK as u64;
    Grouped {
        layout: Layout::bytes(4, cols),
        meaning: Meaning::E2m1NoMinusZero,
        grid: Grid::new(rows, cols, 1, block, Arrangement::Block(1, block)),
        scales: Scales { kind: ScaleType::E4m3, global: Some(GlobalScale::times(false)) },
        offsets: Offsets::None,
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: "NVFP4, groups of 16".to_owned(),
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::catalog::TargetDtype;
    use crate::cpu::CpuLevel;
    use crate::scheme::{Context, TileDecoder};

    #[test]
    fn every_level_gives_the_same_values() {
        // Every code with every scale, including NaN.
        let blocks = 1324;
        let weight: Vec<u8> = (0..blocks * BLOCK / 2).map(|index| (index * 151 % 256) as u8).collect();
        let scales: Vec<u8> = (0..blocks).map(|index| index as u8).collect();
        let elements = (blocks * BLOCK) as u64;
        let decoded = |level| {
            let mut out = vec![0; blocks * BLOCK * 2];
            let (inputs, mut context) = ([&weight[..], &scales, &0.3f32.to_le_bytes()], Context::new(level));
            let decoder = decoder(4, elements / 4);
            let written = decoder.decode(0..elements, &inputs, TargetDtype::BF16, &mut out, &mut context);
            assert_eq!(written.unwrap(), out.len());
            out
        };
        let levels: Vec<_> = CpuLevel::available().collect();
        let first = decoded(levels[0]);
        assert_eq!(first[..2], [0, 0], "a scale of zero");
        for level in levels {
            assert!(decoded(level) == first, "{level}");
        }
    }
}
