//! Decoding blocks to `[experts, in, out]`: a tile is a strip of columns of stored blocks, transposed to rows.

use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::chosen::{self as kernels, Packed, Rounded};
use anamnesis_kernels::float::e2m1;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{
    Codes, Context, FourBitFloats, GgmlBlocks, TileDecoder, ToGgmlBlocks, Window, filled, rounded,
};

/// Codes per block.
pub(super) const BLOCK: u64 = 32;
/// Bytes per block.
const BLOCK_BYTES: u64 = 16;
/// Output bytes per tile. Stored rows are read piece by piece, and longer pieces cost less.
const TILE_BYTES: u64 = 4 << 20;
/// Stored rows that are decoded before they are transposed: few enough to stay in the cache with the blocks of a tile.
const PANEL: usize = 64;

/// The part indices of a weight.
const CODES: usize = 0;
const SCALES: usize = 1;

/// The decoder of a stack of matrices of blocks `[out, in / 32]`.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct TransposedBlocks {
    /// Rows of a stored matrix.
    pub outputs: u64,
    /// Blocks per row.
    pub blocks: u64,
}

/// A range of columns of blocks of one matrix.
struct Strip {
    matrix: u64,
    blocks: Range<u64>,
}

impl TransposedBlocks {
    /// The strips of a tile, one for each matrix it covers.
    fn strips(&self, elements: &Range<u64>) -> impl Iterator<Item = Strip> + use<> {
        let granule = BLOCK * self.outputs;
        let (mut at, end, blocks) = (elements.start / granule, elements.end.div_ceil(granule), self.blocks);
        std::iter::from_fn(move || {
            let (matrix, first) = (at / blocks, at % blocks);
            let count = (blocks - first).min(end.saturating_sub(at));
            at += count;
            (count > 0).then(|| Strip { matrix, blocks: first..first + count })
        })
    }

    fn run(
        &self,
        to: Rounded,
        elements: &Range<u64>,
        inputs: &[&[u8]],
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let outputs = self.outputs as usize;
        let (mut rest, mut written) = (out, 0);
        for (strip, [codes, exponents]) in self.strips(elements).zip(inputs.as_chunks::<2>().0) {
            let count = (strip.blocks.end - strip.blocks.start) as usize;
            let inputs = count * BLOCK as usize;
            let (out, after) = rest.split_at_mut((inputs * outputs * to.bytes()).min(rest.len()));
            rest = after;
            let panels = codes.chunks(PANEL * count * BLOCK_BYTES as usize).zip(exponents.chunks(PANEL * count));
            for (panel, (codes, exponents)) in panels.enumerate() {
                let rows = exponents.len() / count;
                let (scales, decoded, _) = context.scratch(exponents.len(), rows * inputs * to.bytes(), 0);
                for (scale, exponent) in scales.iter_mut().zip(exponents) {
                    *scale = half_power(*exponent);
                }
                let map = std::array::from_fn(|code| 2.0 * e2m1::decode(code as u8));
                let block = BLOCK as usize;
                let count =
                    kernels::coded_blocks(level, Packed::LowNibbles, to, codes, &map, &[], scales, block, decoded);
                filled(count, decoded.len())?;
                written += kernels::transpose_columns(level, to, decoded, rows, inputs, out, outputs, panel * PANEL);
            }
        }
        Ok(written)
    }
}

/// 2^(exponent − 128). The code map is doubled in return, so that the largest exponent, 2^128, does not overflow.
fn half_power(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 => 0x0020_0000,
        1 => 0x0040_0000,
        _ => u32::from(exponent - 1) << 23,
    })
}

impl TileDecoder for TransposedBlocks {
    fn granule(&self) -> u64 {
        BLOCK * self.outputs
    }

    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        for Strip { matrix, blocks } in self.strips(&elements) {
            let (first, count) = (matrix * self.outputs * self.blocks + blocks.start, blocks.end - blocks.start);
            for (part, size) in [(CODES, BLOCK_BYTES), (SCALES, 1)] {
                windows.push(Window::columns(part, first * size, count * size, self.blocks * size, self.outputs));
            }
        }
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        self.run(rounded(target), &elements, inputs, out, context)
    }

    fn describe(&self) -> String {
        "MXFP4, groups of 32, transposed".to_owned()
    }

    fn codes(&self) -> Codes {
        let kind = FourBitFloats::Mxfp4;
        Codes::Blocks(GgmlBlocks {
            block: kind.block(),
            bytes: Arc::new(ToGgmlBlocks { kind }),
            global: None,
            is_transposed: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuLevel;

    /// An element of a weight, computed by the definition.
    fn naive(weight: TransposedBlocks, codes: &[u8], exponents: &[u8], element: u64) -> f32 {
        let (outputs, inputs) = (weight.outputs, weight.blocks * BLOCK);
        let (matrix, input, output) = (element / outputs / inputs, element / outputs % inputs, element % outputs);
        let row = matrix * outputs + output;
        let byte = codes[((row * inputs + input) / 2) as usize];
        let code = if input % 2 == 0 { byte & 15 } else { byte >> 4 };
        let exponent = i32::from(exponents[(row * weight.blocks + input / BLOCK) as usize]) - 127;
        (f64::from(e2m1::decode(code)) * 2f64.powi(exponent)) as f32
    }

    #[test]
    fn every_tile_of_every_shape_equals_one_element_at_a_time() {
        let mut state = 7u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for (matrices, outputs, blocks) in [(1, 1, 1), (3, 5, 2), (2, 64, 3), (2, 67, 4), (1, 130, 1), (4, 33, 2)] {
            let weight = TransposedBlocks { outputs, blocks };
            let count = matrices * outputs * blocks;
            let parts: [Vec<u8>; 2] =
                [(0..count * BLOCK_BYTES).map(|_| byte()).collect(), (0..count).map(|_| byte()).collect()];
            let (granule, total) = (weight.granule(), count * BLOCK);
            for elements in [0..total, 0..granule, total - granule..total, granule.min(total - granule)..total] {
                let mut windows = Vec::new();
                weight.windows(elements.clone(), &mut windows);
                let gathered: Vec<Vec<u8>> = windows
                    .iter()
                    .map(|window| {
                        let row = |row| (window.offset + row * window.stride) as usize;
                        (0..window.rows)
                            .flat_map(|at| &parts[window.part][row(at)..][..window.row_bytes as usize])
                            .copied()
                            .collect()
                    })
                    .collect();
                let inputs: Vec<&[u8]> = gathered.iter().map(Vec::as_slice).collect();
                for level in CpuLevel::available() {
                    let mut out = vec![0xEE; (elements.end - elements.start) as usize * 4];
                    let mut context = Context::new(level);
                    weight.decode(elements.clone(), &inputs, TargetDtype::F32, &mut out, &mut context).unwrap();
                    for (bytes, element) in out.as_chunks::<4>().0.iter().zip(elements.clone()) {
                        let expected = naive(weight, &parts[0], &parts[1], element);
                        assert_eq!(f32::from_le_bytes(*bytes).to_bits(), expected.to_bits(), "{element} of {weight:?}");
                    }
                }
            }
        }
    }
}
