//! Extracting the codes and scales of four-bit floats from ggml blocks, for formats that store them in separate
//! tensors. This is the inverse of [`ToGgmlBlocks`](crate::scheme::coder::ToGgmlBlocks); no value is computed.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::{BlockType, TargetDtype};
use crate::error::Result;
use crate::scheme::coder::{ByteTiles, Context, FourBitFloats, TileDecoder, Window, filled};

/// Copies blocks (part 0) unchanged.
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

/// The field that is extracted from a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BlockField {
    /// Two codes per byte, even codes in the low nibbles.
    Codes,
    Scales,
}

/// Extracts the codes or the scales from the blocks of another decoder.
#[derive(Clone)]
pub(crate) struct BlockParts {
    blocks: Arc<dyn TileDecoder>,
    kind: FourBitFloats,
    field: BlockField,
}

impl BlockParts {
    /// The codes and the scales of `blocks`, a decoder whose elements are the bytes of blocks of this type.
    pub(crate) fn both(blocks: &Arc<dyn TileDecoder>, kind: FourBitFloats) -> [Self; 2] {
        [BlockField::Codes, BlockField::Scales].map(|field| Self { blocks: blocks.clone(), kind, field })
    }

    /// The extracted bytes per block.
    fn each(&self) -> u64 {
        match self.field {
            BlockField::Codes => self.kind.block().block_bytes() - self.kind.scales(),
            BlockField::Scales => self.kind.scales(),
        }
    }

    /// The bytes of the blocks that these output bytes are extracted from.
    fn range(&self, bytes: &Range<u64>) -> Range<u64> {
        let block = |byte: u64| byte / self.each() * self.kind.block().block_bytes();
        block(bytes.start)..block(bytes.end)
    }
}

impl Hash for BlockParts {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.blocks.identify(hasher);
        (self.kind, self.field).hash(hasher);
    }
}

/// Converts `2 * N` codes from the first half in the low nibbles to even codes in the low nibbles.
fn pairs<const N: usize>(halves: &[u8; N]) -> [u8; N] {
    let code = |index: usize| (halves[index % N] >> (index / N * 4)) & 0x0F;
    std::array::from_fn(|index| code(2 * index) | code(2 * index + 1) << 4)
}

impl ByteTiles for BlockParts {
    fn granule(&self) -> u64 {
        // Tiles of blocks are cut between blocks, so one of the two sizes divides the other.
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
        let pieces = blocks.chunks_exact(self.kind.block().block_bytes() as usize);
        let pieces = pieces.zip(out.chunks_exact_mut(self.each() as usize));
        for (block, out) in pieces {
            let (block_scales, codes) = block.split_at(scales);
            self.kind.check(block_scales)?;
            written += out.len();
            match (self.field, self.kind) {
                (BlockField::Scales, _) => out.copy_from_slice(block_scales),
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
        let field = match self.field {
            BlockField::Codes => "codes",
            BlockField::Scales => "scales",
        };
        format!("the same {field} as {}", self.kind.block().name())
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
