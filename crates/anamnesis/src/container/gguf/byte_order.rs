//! Big-endian GGUF files: a region behind the file presents the tensors in little-endian order, and tensors that are
//! written are swapped.
//!
//! A block is ggml's C struct in the memory layout of a big-endian machine: its multi-byte fields are swapped. Some
//! structs declare a byte array that ggml's code reads as native integers. The byte order of these fields depends on
//! the writer, so those types are refused.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::catalog::{BlockType, Dtype};
use crate::container::layout::ByteOrder;
use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// A run of multi-byte fields in a block: offset of the first, bytes per field, number of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fields(usize, usize, usize);

/// The multi-byte fields of a type; `None` if its big-endian layout is undefined.
fn multibyte_fields(dtype: Dtype) -> Option<&'static [Fields]> {
    use BlockType as B;
    const F16_FIELD: &[Fields] = &[Fields(0, 2, 1)];
    const TWO_F16_FIELDS: &[Fields] = &[Fields(0, 2, 2)];
    let Dtype::Block(block) = dtype else {
        return match dtype.byte_size() {
            1 => Some(&[]),
            2 => Some(F16_FIELD),
            4 => Some(&[Fields(0, 4, 1)]),
            8 => Some(&[Fields(0, 8, 1)]),
            _ => None,
        };
    };
    match block {
        B::Q4_0 | B::Q8_0 | B::IQ4_NL | B::IQ2_S | B::IQ3_S | B::Q1_0 | B::Q2_0 => Some(F16_FIELD),
        // A scale and a minimum or a sum; IQ4_XS: the scale and the high bits of the sub-scales.
        B::Q4_1 | B::Q8_1 | B::Q4_K | B::Q5_K | B::IQ4_XS => Some(TWO_F16_FIELDS),
        B::Q2_K => Some(&[Fields(80, 2, 2)]),
        B::Q3_K => Some(&[Fields(108, 2, 1)]),
        B::Q6_K => Some(&[Fields(208, 2, 1)]),
        // An F32 scale, 256 bytes of codes, 16 sums.
        B::Q8_K => Some(&[Fields(0, 4, 1), Fields(260, 2, 16)]),
        // The scale and 32 codes of 16 bits.
        B::IQ2_XS => Some(&[Fields(0, 2, 33)]),
        B::IQ1_S => Some(&[Fields(0, 2, 1), Fields(34, 2, 8)]),
        B::TQ1_0 => Some(&[Fields(52, 2, 1)]),
        B::TQ2_0 => Some(&[Fields(64, 2, 1)]),
        B::MXFP4 | B::NVFP4 => Some(&[]),
        // `qh` is a byte array that is copied to and from a u32.
        B::Q5_0 | B::Q5_1 => None,
        // u16 codes read as pairs of u32; bytes read as u32; bytes read as u16.
        B::IQ2_XXS | B::IQ3_XXS | B::IQ1_M => None,
    }
}

/// Whether the big-endian layout of this type is defined.
pub(super) fn has_big_endian_layout(dtype: Dtype) -> bool {
    multibyte_fields(dtype).is_some()
}

/// The tensors of a big-endian file.
pub(super) struct SwappedTensors {
    /// In file order, without overlaps.
    tensors: Vec<SwappedTensor>,
}

/// A copy of the file with its tensors in little-endian order. Only tensors can be read.
pub(super) struct LittleEndian {
    file_bytes: u64,
    tensors: SwappedTensors,
}

struct SwappedTensor {
    range: Range<u64>,
    block_bytes: usize,
    fields: &'static [Fields],
}

impl SwappedTensors {
    /// Tensors of these types at these ranges. Types without a defined layout are omitted.
    pub(super) fn new(tensors: impl Iterator<Item = (Dtype, Range<u64>)>) -> Self {
        let swapped = |(dtype, range): (Dtype, Range<u64>)| {
            Some(SwappedTensor { range, block_bytes: dtype.byte_size(), fields: multibyte_fields(dtype)? })
        };
        let mut tensors: Vec<_> = tensors.filter_map(swapped).collect();
        tensors.sort_by_key(|tensor| tensor.range.start);
        Self { tensors }
    }

    /// The tensor that all of these bytes belong to.
    fn of(&self, offset: u64, bytes: usize) -> Result<&SwappedTensor> {
        let end = offset.saturating_add(bytes as u64);
        let behind = self.tensors.partition_point(|tensor| tensor.range.start <= offset);
        let tensor = behind.checked_sub(1).and_then(|index| self.tensors.get(index));
        tensor.filter(|tensor| end <= tensor.range.end).ok_or_else(|| {
            AnamnesisError::parse(format!("bytes {offset} to {end} of a big-endian file are not within one tensor"))
        })
    }
}

impl ByteOrder for SwappedTensors {
    fn store(&self, offset: u64, bytes: &[u8], put: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let tensor = self.of(offset, bytes.len())?;
        let block = tensor.block_bytes;
        let skipped = ((offset - tensor.range.start) % block as u64) as usize;
        let head = if skipped == 0 { 0 } else { (block - skipped).min(bytes.len()) };
        let (before, whole) = bytes.split_at(head);
        let (whole, behind) = whole.split_at(whole.len() / block * block);
        // The bytes of a block that is cut into pieces go to their places one by one.
        let mut cut = |bytes: &[u8], offset: u64, skipped: usize| {
            let start = offset - skipped as u64;
            bytes.iter().zip(skipped..).try_for_each(|(byte, place)| put(start + tensor.swapped(place), &[*byte]))
        };
        cut(before, offset, skipped)?;
        cut(behind, offset + (head + whole.len()) as u64, 0)?;
        if whole.is_empty() {
            return Ok(());
        }
        let mut swapped = whole.to_vec();
        tensor.swap_blocks(&mut swapped);
        put(offset + head as u64, &swapped)
    }
}

impl LittleEndian {
    /// A file of `file_bytes` bytes with tensors of these types at these ranges.
    pub(super) fn new(tensors: impl Iterator<Item = (Dtype, Range<u64>)>, file_bytes: u64) -> Self {
        Self { file_bytes, tensors: SwappedTensors::new(tensors) }
    }
}

impl Region for LittleEndian {
    fn len(&self) -> u64 {
        self.file_bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let tensor = self.tensors.of(offset, buffer.len())?;
        let block = tensor.block_bytes as u64;
        let skipped = (offset - tensor.range.start) % block;
        if skipped == 0 && buffer.len().is_multiple_of(tensor.block_bytes) {
            below.read_at(offset, buffer)?;
            tensor.swap_blocks(buffer);
            return Ok(());
        }
        // Unaligned request: read whole blocks and copy the requested bytes.
        let blocks = (skipped + buffer.len() as u64).div_ceil(block) * block;
        let mut whole = vec![0; blocks as usize];
        below.read_at(offset - skipped, &mut whole)?;
        tensor.swap_blocks(&mut whole);
        buffer.copy_from_slice(&whole[skipped as usize..][..buffer.len()]);
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        // The swaps of a range follow from the file's content, which `below` identifies.
        "little endian".hash(&mut hasher);
        below.identify(range, hasher);
    }
}

impl SwappedTensor {
    /// The place of a byte of a block in the other byte order.
    fn swapped(&self, place: usize) -> u64 {
        let of_field = |&Fields(offset, bytes, count): &Fields| {
            let inside = place.checked_sub(offset).filter(|inside| *inside < bytes * count)?;
            Some(offset + inside / bytes * bytes + bytes - 1 - inside % bytes)
        };
        self.fields.iter().find_map(of_field).unwrap_or(place) as u64
    }

    /// Swaps the bytes of all fields in whole blocks.
    fn swap_blocks(&self, blocks: &mut [u8]) {
        if let [Fields(0, bytes, 1)] = *self.fields
            && bytes == self.block_bytes
        {
            // One number per block: a fixed width vectorises.
            match bytes {
                2 => reverse_words::<2>(blocks),
                4 => reverse_words::<4>(blocks),
                _ => reverse_words::<8>(blocks),
            }
            return;
        }
        for block in blocks.chunks_exact_mut(self.block_bytes) {
            for &Fields(offset, bytes, count) in self.fields {
                let numbers = block.get_mut(offset..offset + bytes * count).unwrap_or_default();
                numbers.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
            }
        }
    }
}

fn reverse_words<const BYTES: usize>(numbers: &mut [u8]) {
    let (numbers, _) = numbers.as_chunks_mut::<BYTES>();
    numbers.iter_mut().for_each(|number| number.reverse());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::ggml_types::GgufType;
    use crate::io::BytesSource;

    #[test]
    fn fields_are_inside_their_block_and_do_not_overlap() {
        for dtype in GgufType::all().filter_map(GgufType::dtype) {
            let mut end = 0;
            for &Fields(offset, bytes, count) in multibyte_fields(dtype).unwrap_or_default() {
                assert!(offset >= end && bytes > 1 && count > 0, "{dtype}");
                end = offset + bytes * count;
            }
            assert!(end <= dtype.byte_size(), "{dtype}");
        }
    }

    #[test]
    fn any_range_of_a_tensor_matches_the_whole() {
        let bytes: Vec<u8> = (0..=255).collect();
        let source = BytesSource(&bytes);
        let range = 32..32 + 5 * 18;
        let fields = multibyte_fields(Dtype::Block(BlockType::Q4_0)).unwrap();
        let tensors = vec![SwappedTensor { range: range.clone(), block_bytes: 18, fields }];
        let region = LittleEndian { file_bytes: 256, tensors: SwappedTensors { tensors } };
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

    #[test]
    fn bytes_written_in_any_pieces_match_the_whole() {
        let bytes: Vec<u8> = (0..90).collect();
        let order = SwappedTensors::new([(Dtype::Block(BlockType::Q4_0), 32..122)].into_iter());
        let stored = |cuts: &[usize]| {
            let mut file = vec![0; 122];
            for cut in cuts.windows(2) {
                let mut put = |offset: u64, bytes: &[u8]| {
                    file[offset as usize..][..bytes.len()].copy_from_slice(bytes);
                    Ok(())
                };
                order.store(32 + cut[0] as u64, &bytes[cut[0]..cut[1]], &mut put).unwrap();
            }
            file
        };
        let whole = stored(&[0, 90]);
        assert_eq!(whole[32..36], [1, 0, 2, 3]);
        for first in 0..=90 {
            for second in first..=90 {
                assert_eq!(stored(&[0, first, second, 90]), whole, "{first}, {second}");
            }
        }
    }
}
