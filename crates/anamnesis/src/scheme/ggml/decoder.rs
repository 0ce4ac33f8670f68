//! Decoding tiles of blocks.

use std::ops::Range;

use anamnesis_kernels::{Level, Output, ggml};

use crate::catalog::{BlockType, TargetDtype};
use crate::error::Result;
use crate::scheme::decoder::with_output;
use crate::scheme::{Context, TileDecoder, Window};

/// A tensor of blocks (part 0), with scales of its own (part 1) where it has any.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct GgmlDecoder {
    block: BlockType,
    /// Elements under each of the tensor's own scales.
    per_scale: Option<u64>,
}

impl GgmlDecoder {
    pub(crate) fn new(block: BlockType, per_scale: Option<u64>) -> Self {
        Self { block, per_scale }
    }

    fn bytes(&self, elements: u64) -> u64 {
        elements / self.block.block_elements() * self.block.block_bytes()
    }

    /// The pieces of a tile under the same scale, with the scale's index.
    fn pieces(&self, elements: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
        let per_scale = self.per_scale.unwrap_or(u64::MAX).max(1);
        let mut at = elements.start;
        std::iter::from_fn(move || {
            let scale = at / per_scale;
            let end = per_scale.saturating_mul(scale + 1).min(elements.end);
            let piece = at..end;
            at = end;
            (!piece.is_empty()).then_some((scale, piece))
        })
    }

    fn run<O: Output>(&self, level: Level, elements: Range<u64>, inputs: &[&[u8]], out: &mut [u8]) {
        let Some(scales) = inputs.get(1) else { return blocks::<O>(level, self.block, inputs[0], out) };
        for (scale, piece) in self.pieces(elements.clone()) {
            let place = |element: u64| element - elements.start;
            let codes = self.bytes(place(piece.start)) as usize..self.bytes(place(piece.end)) as usize;
            let values = place(piece.start) as usize * O::BYTES..place(piece.end) as usize * O::BYTES;
            let factor =
                scales.as_chunks::<4>().0.get(scale as usize).map_or(f32::NAN, |bytes| f32::from_le_bytes(*bytes));
            ggml::decode_blocks_times::<ggml::Nvfp4, O>(level, &inputs[0][codes], factor, &mut out[values]);
        }
    }
}

impl TileDecoder for GgmlDecoder {
    fn granule(&self) -> u64 {
        self.block.block_elements()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let (start, end) = (self.bytes(elements.start), self.bytes(elements.end));
        windows.push(Window::run(0, start, end - start));
        if let Some(per_scale) = self.per_scale {
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
    ) -> Result<()> {
        let level = context.level();
        with_output!(target, context.is_streamed(), O => self.run::<O>(level, elements, inputs, out));
        Ok(())
    }

    fn describe(&self) -> String {
        self.block.name().to_owned()
    }
}

/// Decodes whole blocks of one type.
fn blocks<O: Output>(level: Level, block: BlockType, codes: &[u8], out: &mut [u8]) {
    macro_rules! each {
        ($($block:ident $kernel:ident),* $(,)?) => {
            match block {
                $(BlockType::$block => ggml::decode_blocks::<ggml::$kernel, O>(level, codes, out),)*
            }
        };
    }
    each! {
        Q4_0 Q4_0, Q4_1 Q4_1, Q5_0 Q5_0, Q5_1 Q5_1, Q8_0 Q8_0, Q8_1 Q8_1,
        Q2_K Q2K, Q3_K Q3K, Q4_K Q4K, Q5_K Q5K, Q6_K Q6K, Q8_K Q8K,
        IQ2_XXS Iq2Xxs, IQ2_XS Iq2Xs, IQ3_XXS Iq3Xxs, IQ1_S Iq1S, IQ4_NL Iq4Nl, IQ3_S Iq3S, IQ2_S Iq2S, IQ4_XS Iq4Xs,
        IQ1_M Iq1M, TQ1_0 Tq1_0, TQ2_0 Tq2_0, MXFP4 Mxfp4, NVFP4 Nvfp4, Q1_0 Q1_0, Q2_0 Q2_0,
    }
}
