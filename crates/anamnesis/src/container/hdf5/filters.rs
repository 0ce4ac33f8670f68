//! Filters of chunks, undone in reverse order: deflate, shuffle, fletcher32.

use std::hash::{Hash, Hasher};
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use super::file::Bytes;
use crate::container::checked::is_same;
use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// A filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Filter {
    Deflate,
    /// The first bytes of all elements, then the second ones.
    Shuffle {
        element_bytes: usize,
    },
    /// A checksum behind the data.
    Fletcher32,
}

/// Bytes of the checksum of fletcher32.
const CHECKSUM_BYTES: usize = 4;
/// Maximum expansion of deflate.
pub(super) const MAX_GROWTH: u64 = 1032;

/// The filters of a message, or the name of one that is not undone.
pub(super) fn filters(content: &[u8]) -> Result<std::result::Result<Vec<Filter>, String>> {
    let mut rest = Bytes::new(content);
    let (version, count) = (rest.u8()?, rest.u8()?);
    if version == 1 {
        rest.take(6)?;
    }
    let mut found = Vec::new();
    for _ in 0..count {
        let id = rest.u16()?;
        let name_bytes = if version == 1 || id >= 256 { usize::from(rest.u16()?) } else { 0 };
        let (_flags, values) = (rest.u16()?, usize::from(rest.u16()?));
        let padded = if version == 1 { name_bytes.next_multiple_of(8) } else { name_bytes };
        rest.take(padded)?;
        let mut first = None;
        for _ in 0..values {
            let value = rest.u32()?;
            first.get_or_insert(value);
        }
        if version == 1 && !values.is_multiple_of(2) {
            rest.take(4)?;
        }
        found.push(match id {
            1 => Filter::Deflate,
            2 => Filter::Shuffle { element_bytes: first.unwrap_or(1).max(1) as usize },
            3 => Filter::Fletcher32,
            other => return Ok(Err(name(other))),
        });
    }
    Ok(Ok(found))
}

fn name(id: u16) -> String {
    match id {
        4 => "szip".to_owned(),
        5 => "nbit".to_owned(),
        6 => "scaleoffset".to_owned(),
        32000 => "LZF".to_owned(),
        32001 => "Blosc".to_owned(),
        32004 => "LZ4".to_owned(),
        32008 => "bitshuffle".to_owned(),
        32015 => "Zstandard".to_owned(),
        other => format!("number {other}"),
    }
}

/// A chunk as its filters left it, presented as it was.
pub(super) struct Filtered {
    pub(super) start: u64,
    pub(super) stored_bytes: u64,
    pub(super) bytes: u64,
    pub(super) filters: Arc<[Filter]>,
    /// Bit n is set if filter n was not applied.
    pub(super) mask: u32,
}

impl Filtered {
    /// Whether the stored bytes can become so many.
    pub(super) fn is_possible(&self) -> bool {
        let has_deflate = self.filters.contains(&Filter::Deflate);
        let most = if has_deflate { self.stored_bytes.saturating_mul(MAX_GROWTH) } else { self.stored_bytes };
        self.bytes <= most
    }

    fn restored(&self, below: &dyn Source) -> Result<Vec<u8>> {
        let mut data = vec![0; self.stored_bytes as usize];
        below.read_at(self.start, &mut data)?;
        for (number, filter) in self.filters.iter().enumerate().rev() {
            if self.mask >> number & 1 == 1 {
                continue;
            }
            // The checksum of a filter that is undone later may be among the bytes.
            data = match filter {
                Filter::Deflate => inflate(&data, self.bytes as usize + CHECKSUM_BYTES)?,
                Filter::Shuffle { element_bytes } => unshuffle(&data, *element_bytes),
                Filter::Fletcher32 => checked(data)?,
            };
        }
        match data.len() as u64 == self.bytes {
            true => Ok(data),
            false => {
                let (bytes, wanted) = (data.len(), self.bytes);
                Err(AnamnesisError::parse(format!("a chunk of {wanted} bytes was restored to {bytes}")))
            }
        }
    }
}

impl Region for Filtered {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let data = self.restored(below)?;
        let from = offset as usize;
        if let Some(bytes) = data.get(from..from + buffer.len()) {
            buffer.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        (&self.filters, self.mask, &range).hash(&mut hasher);
        below.identify(self.start..self.start + self.stored_bytes, hasher);
    }
}

/// Inflates a zlib stream to at most so many bytes.
fn inflate(data: &[u8], most: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let read = flate2::read::ZlibDecoder::new(data).take(most as u64 + 1).read_to_end(&mut out);
    read.map_err(|error| AnamnesisError::parse(format!("a chunk cannot be inflated: {error}")))?;
    Ok(out)
}

fn unshuffle(data: &[u8], element_bytes: usize) -> Vec<u8> {
    let elements = data.len() / element_bytes;
    let mut out = data.to_vec();
    if element_bytes > 1 && elements > 1 {
        for (place, plane) in data.chunks_exact(elements).take(element_bytes).enumerate() {
            for (element, byte) in plane.iter().enumerate() {
                out[element * element_bytes + place] = *byte;
            }
        }
    }
    out
}

/// The data in front of its checksum.
fn checked(mut data: Vec<u8>) -> Result<Vec<u8>> {
    let Some((front, &written)) = data.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(AnamnesisError::parse("a chunk is shorter than its checksum"));
    };
    if !is_same(fletcher32(front), u32::from_le_bytes(written)) {
        return Err(AnamnesisError::parse("a chunk is damaged: its checksum is another"));
    }
    data.truncate(data.len() - CHECKSUM_BYTES);
    Ok(data)
}

/// `H5_checksum_fletcher32`: sums of big-endian words of two bytes, modulo 65535.
fn fletcher32(data: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut first, mut second) = (0u32, 0u32);
    // No sum of 360 words overflows.
    for words in data.chunks(720) {
        for word in words.chunks(2) {
            let high = word.first().copied().unwrap_or_default();
            first += u32::from(high) << 8 | u32::from(word.get(1).copied().unwrap_or_default());
            second += first;
        }
        (first, second) = (fold(first), fold(second));
    }
    fold(second) << 16 | fold(first)
}
