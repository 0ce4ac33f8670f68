//! Big-endian files: their numbers have the highest byte first, those inside blocks too. A region behind the file shows the
//! tensors as a little-endian file has them.
//!
//! A block is ggml's C structure as a big-endian machine has it in memory, so that the numbers in it are swapped and its bytes
//! are not. Some structures declare bytes where ggml's code reads numbers of its own machine; what a big-endian file holds
//! there depends on who wrote it, so that these types are refused.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::catalog::{BlockType, Dtype};
use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// Numbers inside a block: where the first starts, the bytes of each, and how many stand side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers(usize, usize, usize);

/// The numbers of a type that take more than a byte; `None` where it is not defined what a big-endian file holds.
fn numbers_of(dtype: Dtype) -> Option<&'static [Numbers]> {
    use BlockType as B;
    const HALF: &[Numbers] = &[Numbers(0, 2, 1)];
    const TWO_HALVES: &[Numbers] = &[Numbers(0, 2, 2)];
    let Dtype::Block(block) = dtype else {
        return match dtype.byte_size() {
            1 => Some(&[]),
            2 => Some(HALF),
            4 => Some(&[Numbers(0, 4, 1)]),
            8 => Some(&[Numbers(0, 8, 1)]),
            _ => None,
        };
    };
    match block {
        B::Q4_0 | B::Q8_0 | B::IQ4_NL | B::IQ2_S | B::IQ3_S | B::Q1_0 | B::Q2_0 => Some(HALF),
        // A scale and a minimum or a sum; IQ4_XS: the scale and the high bits of the sub-scales.
        B::Q4_1 | B::Q8_1 | B::Q4_K | B::Q5_K | B::IQ4_XS => Some(TWO_HALVES),
        B::Q2_K => Some(&[Numbers(80, 2, 2)]),
        B::Q3_K => Some(&[Numbers(108, 2, 1)]),
        B::Q6_K => Some(&[Numbers(208, 2, 1)]),
        // An F32 scale, 256 bytes of codes, 16 sums.
        B::Q8_K => Some(&[Numbers(0, 4, 1), Numbers(260, 2, 16)]),
        // The scale and 32 codes of 16 bits.
        B::IQ2_XS => Some(&[Numbers(0, 2, 33)]),
        B::IQ1_S => Some(&[Numbers(0, 2, 1), Numbers(34, 2, 8)]),
        B::TQ1_0 => Some(&[Numbers(52, 2, 1)]),
        B::TQ2_0 => Some(&[Numbers(64, 2, 1)]),
        B::MXFP4 | B::NVFP4 => Some(&[]),
        // `qh` is bytes, copied to and from a u32.
        B::Q5_0 | B::Q5_1 => None,
        // u16 codes, read as pairs of u32; bytes, read as u32; bytes, read as u16.
        B::IQ2_XXS | B::IQ3_XXS | B::IQ1_M => None,
    }
}

/// Whether tensors of this type can be read from a big-endian file.
pub(super) fn is_defined(dtype: Dtype) -> bool {
    numbers_of(dtype).is_some()
}

/// The whole file once more, with the numbers of its tensors in little-endian order. Only tensors can be read.
pub(super) struct LittleEndian {
    file_bytes: u64,
    /// In the order of the file; none overlap.
    tensors: Vec<Swapped>,
}

struct Swapped {
    range: Range<u64>,
    block_bytes: usize,
    numbers: &'static [Numbers],
}

impl LittleEndian {
    /// A file of `file_bytes` bytes with tensors of these types at these places. Those of types that are not defined are
    /// left out.
    pub(super) fn new(tensors: impl Iterator<Item = (Dtype, Range<u64>)>, file_bytes: u64) -> Self {
        let swapped = |(dtype, range): (Dtype, Range<u64>)| {
            Some(Swapped { range, block_bytes: dtype.byte_size(), numbers: numbers_of(dtype)? })
        };
        let mut tensors: Vec<_> = tensors.filter_map(swapped).collect();
        tensors.sort_by_key(|tensor| tensor.range.start);
        Self { file_bytes, tensors }
    }
}

impl Region for LittleEndian {
    fn len(&self) -> u64 {
        self.file_bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        let behind = self.tensors.partition_point(|tensor| tensor.range.start <= offset);
        let tensor = behind.checked_sub(1).and_then(|index| self.tensors.get(index));
        let Some(tensor) = tensor.filter(|tensor| end <= tensor.range.end) else {
            let why = format!("bytes {offset} to {end} of a big-endian file are not of one tensor");
            return Err(AnamnesisError::parse(why));
        };
        let block = tensor.block_bytes as u64;
        let skipped = (offset - tensor.range.start) % block;
        if skipped == 0 && buffer.len().is_multiple_of(tensor.block_bytes) {
            below.read_at(offset, buffer)?;
            tensor.swap(buffer);
            return Ok(());
        }
        // A reader that does not think in blocks gets the bytes it asks for all the same.
        let blocks = (skipped + buffer.len() as u64).div_ceil(block) * block;
        let mut whole = vec![0; blocks as usize];
        below.read_at(offset - skipped, &mut whole)?;
        tensor.swap(&mut whole);
        buffer.copy_from_slice(&whole[skipped as usize..][..buffer.len()]);
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        // How the bytes of a range are swapped is the file's alone to say.
        "little endian".hash(&mut hasher);
        below.identify(range, hasher);
    }
}

impl Swapped {
    /// Reverses the numbers in whole blocks.
    fn swap(&self, blocks: &mut [u8]) {
        if let [Numbers(0, bytes, 1)] = *self.numbers
            && bytes == self.block_bytes
        {
            // Plain numbers, in the form that becomes vector instructions.
            match bytes {
                2 => reverse_each::<2>(blocks),
                4 => reverse_each::<4>(blocks),
                _ => reverse_each::<8>(blocks),
            }
            return;
        }
        for block in blocks.chunks_exact_mut(self.block_bytes) {
            for &Numbers(offset, bytes, count) in self.numbers {
                let numbers = block.get_mut(offset..offset + bytes * count).unwrap_or_default();
                numbers.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
            }
        }
    }
}

fn reverse_each<const BYTES: usize>(numbers: &mut [u8]) {
    let (numbers, _) = numbers.as_chunks_mut::<BYTES>();
    numbers.iter_mut().for_each(|number| number.reverse());
}

#[cfg(test)]
mod tests {
    use super::super::types::GgufType;
    use super::*;
    use crate::io::BytesSource;

    #[test]
    fn numbers_lie_inside_their_blocks_and_apart() {
        for dtype in GgufType::all().filter_map(GgufType::dtype) {
            let mut end = 0;
            for &Numbers(offset, bytes, count) in numbers_of(dtype).unwrap_or_default() {
                assert!(offset >= end && bytes > 1 && count > 0, "{dtype}");
                end = offset + bytes * count;
            }
            assert!(end <= dtype.byte_size(), "{dtype}");
        }
    }

    #[test]
    fn any_range_of_a_tensor_is_read_as_a_part_of_the_whole() {
        let bytes: Vec<u8> = (0..=255).collect();
        let source = BytesSource(&bytes);
        let range = 32..32 + 5 * 18;
        let numbers = numbers_of(Dtype::Block(BlockType::Q4_0)).unwrap();
        let tensors = vec![Swapped { range: range.clone(), block_bytes: 18, numbers }];
        let region = LittleEndian { file_bytes: 256, tensors };
        let mut whole = vec![0; 90];
        region.read_at(&source, range.start, &mut whole).unwrap();
        assert_eq!(whole[..4], [33, 32, 34, 35]);
        assert_eq!(whole[18..22], [51, 50, 52, 53]);
        for start in 0..90 {
            for end in start..=90 {
                let mut part = vec![0; end - start];
                region.read_at(&source, range.start + start as u64, &mut part).unwrap();
                assert_eq!(part, whole[start..end], "{start}..{end}");
            }
        }
        for outside in [31..40, 100..123, 0..4, 200..201] {
            let mut part = vec![0; outside.end - outside.start];
            assert!(region.read_at(&source, outside.start as u64, &mut part).is_err(), "{outside:?}");
        }
    }
}
