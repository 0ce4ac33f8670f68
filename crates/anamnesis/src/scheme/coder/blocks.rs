//! Repacking four-bit floats into ggml blocks: the same codes and scales in another order, so no value is computed or
//! rounded.
//!
//! | | stored | ggml block |
//! |---|---|---|
//! | MXFP4 | 32 codes, even codes in the low nibbles; the exponent in another tensor | the exponent; 32 codes, the first half in the low nibbles |
//! | NVFP4 | 16 codes, even codes in the low nibbles; the E4M3 scale in another tensor | four E4M3 scales; four times 16 codes, the first half in the low nibbles |

use std::ops::Range;

use super::byte_tiles::ByteTiles;
use super::context::Context;
use super::decoder::{TileDecoder, Window};
use super::filled::mishandled;
use super::scale::ScaleOp;
use crate::catalog::{BlockType, TargetDtype};
use crate::error::{AnamnesisError, Result};

/// The input scale of a layer with NVFP4 weights: the suffix after the name of the layer, and whether the scale is
/// multiplied or divided by.
pub(crate) const INPUT_SCALES: [(&str, ScaleOp); 2] =
    [(".input_scale", ScaleOp::Multiply), (".input_global_scale", ScaleOp::Divide)];

/// Builds ggml blocks from codes (part 0) and scales (part 1), both stored without gaps.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct ToGgmlBlocks {
    pub kind: FourBitFloats,
}

/// The ggml block types of four-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FourBitFloats {
    Mxfp4,
    Nvfp4,
}

impl FourBitFloats {
    pub(crate) const fn block(self) -> BlockType {
        match self {
            Self::Mxfp4 => BlockType::MXFP4,
            Self::Nvfp4 => BlockType::NVFP4,
        }
    }

    /// The variant for a block type; `None` for other block types.
    pub(crate) const fn of(block: BlockType) -> Option<Self> {
        match block {
            BlockType::MXFP4 => Some(Self::Mxfp4),
            BlockType::NVFP4 => Some(Self::Nvfp4),
            _ => None,
        }
    }

    /// The number of scales in a block.
    pub(in crate::scheme) const fn scales(self) -> u64 {
        match self {
            Self::Mxfp4 => 1,
            Self::Nvfp4 => 4,
        }
    }

    /// Whether ggml decodes this scale to the same value. It does not for NaN and for negative scales.
    const fn can_represent(self, scale: u8) -> bool {
        match self {
            Self::Mxfp4 => scale < 0xFF,
            Self::Nvfp4 => scale < 0x7F,
        }
    }

    /// Refuses scales that ggml decodes to another value.
    pub(in crate::scheme) fn check(self, scales: &[u8]) -> Result<()> {
        let Some(scale) = scales.iter().find(|scale| !self.can_represent(**scale)) else { return Ok(()) };
        let detail = format!("a scale is {scale:#04x}, which ggml decodes to another value");
        Err(AnamnesisError::unsupported(self.block().name(), detail))
    }
}

/// Converts `2 * N` codes from even codes in the low nibbles to the first half in the low nibbles.
fn halves<const N: usize>(pairs: &[u8; N]) -> [u8; N] {
    let code = |index: usize| (pairs[index / 2] >> (index % 2 * 4)) & 0x0F;
    std::array::from_fn(|index| code(index) | code(index + N) << 4)
}

impl ByteTiles for ToGgmlBlocks {
    fn granule(&self) -> u64 {
        self.kind.block().block_bytes()
    }

    fn windows(&self, bytes: Range<u64>, windows: &mut Vec<Window>) {
        let (each, scales) = (self.kind.block().block_bytes(), self.kind.scales());
        let (start, count) = (bytes.start / each, (bytes.end - bytes.start) / each);
        let code_bytes = each - scales;
        windows.push(Window::run(0, start * code_bytes, count * code_bytes));
        windows.push(Window::run(1, start * scales, count * scales));
    }

    fn fill(&self, _bytes: Range<u64>, inputs: &[&[u8]], out: &mut [u8], _context: &mut Context) -> Result<usize> {
        let [codes, scales, ..] = inputs else { return Err(mishandled("fewer windows than it asked for")) };
        let mut written = 0;
        self.kind.check(scales)?;
        match self.kind {
            FourBitFloats::Mxfp4 => {
                let blocks = out.as_chunks_mut::<17>().0.iter_mut().zip(codes.as_chunks::<16>().0);
                for ((out, codes), scale) in blocks.zip(*scales) {
                    out[0] = *scale;
                    out[1..].copy_from_slice(&halves(codes));
                    written += out.len();
                }
            }
            FourBitFloats::Nvfp4 => {
                let blocks = out.as_chunks_mut::<36>().0.iter_mut().zip(codes.as_chunks::<32>().0);
                for ((out, codes), scales) in blocks.zip(scales.as_chunks::<4>().0) {
                    out[..4].copy_from_slice(scales);
                    written += out.len();
                    for (out, codes) in out[4..].as_chunks_mut::<8>().0.iter_mut().zip(codes.as_chunks::<8>().0) {
                        *out = halves(codes);
                    }
                }
            }
        }
        Ok(written)
    }

    fn describe(&self) -> String {
        format!("the same codes as {}", self.kind.block().name())
    }
}

/// Decodes the F32 values of part 0 to their reciprocals.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct Reciprocals;

impl TileDecoder for Reciprocals {
    fn granule(&self) -> u64 {
        1
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        windows.push(Window::between(0, elements.start * 4..elements.end * 4));
    }

    fn decode(
        &self,
        _elements: Range<u64>,
        inputs: &[&[u8]],
        _target: TargetDtype,
        out: &mut [u8],
        _context: &mut Context,
    ) -> Result<usize> {
        let stored = inputs.first().copied().unwrap_or_default().as_chunks::<4>().0;
        for (out, stored) in out.as_chunks_mut::<4>().0.iter_mut().zip(stored) {
            *out = (1.0 / f32::from_le_bytes(*stored)).to_le_bytes();
        }
        Ok(4 * stored.len().min(out.len() / 4))
    }

    fn describe(&self) -> String {
        "F32, reciprocal".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_and_odd_codes_become_halves() {
        // Codes 0 to 15.
        let pairs: [u8; 8] = std::array::from_fn(|byte| ((2 * byte) | ((2 * byte + 1) << 4)) as u8);
        assert_eq!(halves(&pairs), [0x80, 0x91, 0xA2, 0xB3, 0xC4, 0xD5, 0xE6, 0xF7]);
    }
}
