//! Decoding tiles of ggml blocks.

use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::Level;
use anamnesis_kernels::chosen::{BlockKernels, Rounded, blocks, nvfp4_times};

use crate::catalog::{BlockType, TargetDtype};
use crate::error::Result;
use crate::scheme::coder::{Codes, Context, FourBitFloats, GgmlBlocks, ScaleOp, TileDecoder, Window, rounded};
use crate::scheme::repack::StoredBlocks;

/// The kernels of a block type.
pub(super) const fn kernels(block: BlockType) -> &'static BlockKernels {
    macro_rules! same_name {
        ($($name:ident)+) => {
            match block {
                $( BlockType::$name => &blocks::$name, )+
            }
        };
    }
    same_name!(Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S
        IQ4_XS IQ1_M TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0 Q2_0)
}

/// The block types whose tensors may have global scales, in addition to the scales in the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ScaledBlock {
    Nvfp4,
}

impl ScaledBlock {
    pub(crate) const fn of(block: BlockType) -> Option<Self> {
        match block {
            BlockType::NVFP4 => Some(Self::Nvfp4),
            _ => None,
        }
    }

    const fn block(self) -> BlockType {
        match self {
            Self::Nvfp4 => BlockType::NVFP4,
        }
    }
}

/// The global scales of a tensor.
#[derive(Debug, Clone, Copy, Hash)]
struct Scales {
    block: ScaledBlock,
    /// Elements per scale.
    per_scale: u64,
}

/// The decoder of a tensor of blocks (part 0), with its global scales (part 1) if it has any.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct GgmlDecoder {
    block: BlockType,
    scales: Option<Scales>,
}

impl GgmlDecoder {
    pub(crate) const fn new(block: BlockType) -> Self {
        Self { block, scales: None }
    }

    /// The decoder of a tensor with a global scale for every `per_scale` elements.
    pub(crate) const fn scaled(block: ScaledBlock, per_scale: u64) -> Self {
        Self { block: block.block(), scales: Some(Scales { block, per_scale }) }
    }

    fn bytes(&self, elements: u64) -> u64 {
        elements / self.block.block_elements() * self.block.block_bytes()
    }

    fn run(&self, level: Level, to: Rounded, elements: Range<u64>, inputs: &[&[u8]], out: &mut [u8]) -> usize {
        let (Some(Scales { block, per_scale }), [codes, factors, ..]) = (self.scales, inputs) else {
            return (kernels(self.block).decode)(level, to, inputs[0], out);
        };
        let mut written = 0;
        for (scale, piece) in pieces(elements.clone(), per_scale.max(1)) {
            let place = |element: u64| element - elements.start;
            let bytes = self.bytes(place(piece.start)) as usize..self.bytes(place(piece.end)) as usize;
            let values = place(piece.start) as usize * to.bytes()..place(piece.end) as usize * to.bytes();
            let factor = factors.as_chunks::<4>().0.get(scale as usize);
            let factor = factor.map_or(f32::NAN, |bytes| f32::from_le_bytes(*bytes));
            let (codes, out) = (&codes[bytes], &mut out[values]);
            written += match block {
                ScaledBlock::Nvfp4 => nvfp4_times(level, to, codes, factor, out),
            };
        }
        written
    }
}

/// Splits a tile into pieces with the same global scale, each with the index of the scale.
fn pieces(elements: Range<u64>, per_scale: u64) -> impl Iterator<Item = (u64, Range<u64>)> {
    let mut at = elements.start;
    std::iter::from_fn(move || {
        let scale = at / per_scale;
        let end = per_scale.saturating_mul(scale + 1).min(elements.end);
        let piece = at..end;
        at = end;
        (!piece.is_empty()).then_some((scale, piece))
    })
}

impl TileDecoder for GgmlDecoder {
    fn granule(&self) -> u64 {
        self.block.block_elements()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let (start, end) = (self.bytes(elements.start), self.bytes(elements.end));
        windows.push(Window::run(0, start, end - start));
        if let Some(Scales { per_scale, .. }) = self.scales {
            // All scales up to the last one needed: there are as many as there are experts.
            windows.push(Window::run(1, 0, (elements.end.saturating_sub(1) / per_scale.max(1) + 1) * 4));
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
        let level = context.level();
        Ok(self.run(level, rounded(target), elements, inputs, out))
    }

    fn describe(&self) -> String {
        self.block.name().to_owned()
    }

    fn codes(&self) -> Codes {
        let Some(block) = FourBitFloats::of(self.block).map(FourBitFloats::block) else { return Codes::Own };
        let global = self.scales.map(|_| (1, ScaleOp::Multiply));
        Codes::Blocks(GgmlBlocks { block, bytes: Arc::new(StoredBlocks { block }), global, is_transposed: false })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_catalog_and_the_kernels_agree_about_every_block() {
        for block in BlockType::all() {
            let (name, elements, bytes) =
                (kernels(block).name, kernels(block).elements as u64, kernels(block).bytes as u64);
            assert_eq!((block.name(), block.block_elements(), block.block_bytes()), (name, elements, bytes));
        }
    }

    #[test]
    fn a_tile_is_cut_where_scales_change() {
        let found: Vec<_> = pieces(64..320, 128).collect();
        assert_eq!(found, [(0, 64..128), (1, 128..256), (2, 256..320)]);
    }
}
