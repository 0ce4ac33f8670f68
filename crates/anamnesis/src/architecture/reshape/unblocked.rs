//! The values of ggml blocks whose bytes another decoder gives.

use std::ops::Range;
use std::sync::Arc;

use crate::catalog::{BlockType, TargetDtype};
use crate::error::Result;
use crate::scheme::ggml::GgmlDecoder;
use crate::scheme::{Context, Inner, TileDecoder, Window};

/// Decodes blocks from the bytes of another decoder.
#[derive(Hash)]
pub(super) struct Unblocked {
    /// Its elements are bytes.
    bytes: Inner,
    block: BlockType,
    decoder: GgmlDecoder,
}

impl Unblocked {
    /// The values of `bytes` bytes of blocks.
    pub(super) fn new(bytes: Arc<dyn TileDecoder>, count: u64, block: BlockType) -> Self {
        let bytes = Inner { decoder: bytes, elements: count, first_part: 0 };
        Self { bytes, block, decoder: GgmlDecoder::new(block) }
    }

    fn range(&self, elements: &Range<u64>) -> Range<u64> {
        let bytes = |element: u64| element / self.block.block_elements() * self.block.block_bytes();
        bytes(elements.start)..bytes(elements.end)
    }
}

impl TileDecoder for Unblocked {
    fn granule(&self) -> u64 {
        self.block.block_elements()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        self.bytes.windows(&self.range(&elements), windows);
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let range = self.range(&elements);
        let mut all = context.lend((range.end - range.start) as usize);
        self.bytes.decode(&range, inputs, target, &mut all, context)?;
        let written = self.decoder.decode(0..elements.end - elements.start, &[&all], target, out, context)?;
        context.take_back(all);
        Ok(written)
    }

    fn describe(&self) -> String {
        self.block.name().to_owned()
    }
}
