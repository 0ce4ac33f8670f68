//! Byte strings that a pickle encodes as Latin-1 text, as protocols without byte strings do.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// Decoded bytes per block.
const BLOCK: usize = 16 << 10;

/// A Latin-1 text with the offsets of its blocks.
#[derive(Debug, Clone)]
pub(super) struct Latin1Text {
    /// Offset of the text in the pickle.
    pub(super) start: u64,
    /// Offset of each block in the text, and the end of the last one.
    blocks: Vec<u32>,
    /// Decoded length in bytes.
    pub(super) bytes: u64,
}

impl Latin1Text {
    /// Indexes `text`, which starts at byte `start` of the pickle.
    pub(super) fn new(start: u64, text: &str) -> Result<Self> {
        let mut blocks = Vec::with_capacity(text.len() / BLOCK + 2);
        let mut bytes = 0u64;
        for (at, character) in text.char_indices() {
            if u8::try_from(character).is_err() {
                return Err(AnamnesisError::parse("a byte string of the pickle has a character that is not a byte"));
            }
            if bytes.is_multiple_of(BLOCK as u64) {
                // Texts of a pickle are far shorter than 2^32 bytes.
                blocks.push(at as u32);
            }
            bytes += 1;
        }
        blocks.push(text.len() as u32);
        Ok(Self { start, blocks, bytes })
    }
}

/// The decoded bytes of a text as a region.
#[derive(Debug)]
pub(super) struct Latin1Region {
    /// Offset of the text in the underlying source.
    pub(super) base: u64,
    pub(super) latin: Latin1Text,
}

impl Latin1Region {
    /// Decodes a block.
    fn block(&self, below: &dyn Source, index: usize) -> Result<Vec<u8>> {
        let changed = || AnamnesisError::parse("a text of the pickle has changed");
        let Some(&[start, end]) = self.latin.blocks.get(index..index + 2) else { return Err(changed()) };
        let mut text = vec![0; end.saturating_sub(start) as usize];
        below.read_at(self.base + u64::from(start), &mut text)?;
        let text = String::from_utf8(text).map_err(|_| changed())?;
        text.chars().map(|character| u8::try_from(character).map_err(|_| changed())).collect()
    }
}

impl Region for Latin1Region {
    fn len(&self) -> u64 {
        self.latin.bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut at = usize::try_from(offset).map_err(|_| AnamnesisError::parse("an offset past the end of a text"))?;
        let mut rest = buffer;
        while !rest.is_empty() {
            let block = self.block(below, at / BLOCK)?;
            let from = block.get(at % BLOCK..).unwrap_or_default();
            let taken = from.len().min(rest.len());
            if taken == 0 {
                return Err(AnamnesisError::parse("a text of the pickle has changed"));
            }
            let (piece, more) = rest.split_at_mut(taken);
            piece.copy_from_slice(&from[..taken]);
            (at, rest) = (at + taken, more);
        }
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        ("latin", range).hash(&mut hasher);
        let end = self.latin.blocks.last().map_or(self.base, |end| self.base + u64::from(*end));
        below.identify(self.base..end, hasher);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::io::BytesSource;

    #[test]
    fn every_window_of_a_text_decodes_to_its_bytes() {
        let bytes: Vec<u8> = (0..3 * BLOCK + 77).map(|index| (index * 7 % 256) as u8).collect();
        let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
        let source = BytesSource(format!("ab{text}").into_bytes());
        let region = Latin1Region { base: 2, latin: Latin1Text::new(2, &text).unwrap() };
        assert_eq!(region.len(), bytes.len() as u64);
        for (from, to) in
            [(0, bytes.len()), (1, 2), (BLOCK - 1, BLOCK + 1), (BLOCK, 2 * BLOCK), (3 * BLOCK, bytes.len())]
        {
            let mut found = vec![0; to - from];
            region.read_at(&source, from as u64, &mut found).unwrap();
            assert_eq!(found, bytes[from..to], "{from}..{to}");
        }
        assert!(Latin1Text::new(0, "ab\u{100}").is_err());
    }
}
