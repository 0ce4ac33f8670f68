//! Codes and scales of four-bit floats taken out of the blocks of ggml, for formats that have them apart. No number is
//! calculated: it is what [`ToGgmlBlocks`](super::ToGgmlBlocks) does, the other way round.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::{BlockType, TargetDtype};
use crate::error::Result;
use crate::scheme::coder::{ByteTiles, Context, FourBitFloats, TileDecoder, Window, filled};

/// The bytes of blocks (part 0) as they are stored.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct StoredBlocks {
    pub block: BlockType,
}

impl ByteTiles for StoredBlocks {
    fn granule(&self) -> u64 {
        self.block.block_bytes()
    }

    fn windows(&self, bytes: Range<u64>, windows: &mut Vec<Window>) {
        windows.push(Window::between(0, bytes));
    }

    fn fill(&self, _bytes: Range<u64>, inputs: &[&[u8]], out: &mut [u8], _context: &mut Context) -> Result<usize> {
        out.copy_from_slice(inputs.first().copied().unwrap_or_default());
        Ok(out.len())
    }

    fn describe(&self) -> String {
        format!("the same blocks of {}", self.block.name())
    }
}

/// What is taken out of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BlockField {
    /// Two codes in a byte, the even ones low.
    Codes,
    Scales,
}

/// Codes or scales of blocks whose bytes another decoder gives.
#[derive(Clone)]
pub(crate) struct BlockParts {
    blocks: Arc<dyn TileDecoder>,
    kind: FourBitFloats,
    of: BlockField,
}

impl BlockParts {
    /// The codes and the scales of `blocks`, whose elements are the bytes of blocks of this kind.
    pub(crate) fn both(blocks: &Arc<dyn TileDecoder>, kind: FourBitFloats) -> [Self; 2] {
        [BlockField::Codes, BlockField::Scales].map(|of| Self { blocks: blocks.clone(), kind, of })
    }

    /// Bytes that are taken out of a block.
    fn each(&self) -> u64 {
        match self.of {
            BlockField::Codes => self.kind.block().block_bytes() - self.kind.scales(),
            BlockField::Scales => self.kind.scales(),
        }
    }

    /// The bytes of the blocks that these bytes are of.
    fn range(&self, bytes: &Range<u64>) -> Range<u64> {
        let block = |byte: u64| byte / self.each() * self.kind.block().block_bytes();
        block(bytes.start)..block(bytes.end)
    }
}

impl Hash for BlockParts {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.blocks.identify(hasher);
        (self.kind, self.of).hash(hasher);
    }
}

/// Codes of which the first half is low, so that the even ones are low. `N` is the bytes they take.
fn pairs<const N: usize>(halves: &[u8; N]) -> [u8; N] {
    let code = |index: usize| (halves[index % N] >> (index / N * 4)) & 0x0F;
    std::array::from_fn(|index| code(2 * index) | code(2 * index + 1) << 4)
}

impl ByteTiles for BlockParts {
    fn granule(&self) -> u64 {
        // Whatever gives blocks is cut between blocks, so that one of the two divides the other.
        (self.blocks.granule() / self.kind.block().block_bytes()).max(1) * self.each()
    }

    fn tile_bytes(&self) -> u64 {
        self.blocks.tile_bytes() * self.each() / self.kind.block().block_bytes()
    }

    fn windows(&self, bytes: Range<u64>, windows: &mut Vec<Window>) {
        self.blocks.windows(self.range(&bytes), windows);
    }

    fn fill(&self, bytes: Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<usize> {
        let range = self.range(&bytes);
        let mut blocks = context.lend((range.end - range.start) as usize);
        filled(self.blocks.decode(range, inputs, TargetDtype::F32, &mut blocks, context)?, blocks.len())?;
        let mut written = 0;
        let scales = self.kind.scales() as usize;
        let of_blocks = blocks.chunks_exact(self.kind.block().block_bytes() as usize);
        let of_blocks = of_blocks.zip(out.chunks_exact_mut(self.each() as usize));
        for (block, out) in of_blocks {
            let (own, codes) = block.split_at(scales);
            self.kind.check(own)?;
            written += out.len();
            match (self.of, self.kind) {
                (BlockField::Scales, _) => out.copy_from_slice(own),
                (BlockField::Codes, FourBitFloats::Mxfp4) => {
                    let codes = codes.as_chunks::<16>().0.iter();
                    codes.zip(out.as_chunks_mut::<16>().0).for_each(|(codes, out)| *out = pairs(codes));
                }
                (BlockField::Codes, FourBitFloats::Nvfp4) => {
                    let codes = codes.as_chunks::<8>().0.iter();
                    codes.zip(out.as_chunks_mut::<8>().0).for_each(|(codes, out)| *out = pairs(codes));
                }
            }
        }
        context.take_back(blocks);
        Ok(written)
    }

    fn describe(&self) -> String {
        let what = match self.of {
            BlockField::Codes => "codes",
            BlockField::Scales => "scales",
        };
        format!("the same {what} as {}", self.kind.block().name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_even_and_odd_codes() {
        let halves = [0x80, 0x91, 0xA2, 0xB3, 0xC4, 0xD5, 0xE6, 0xF7];
        assert_eq!(pairs(&halves), [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]);
    }
}
