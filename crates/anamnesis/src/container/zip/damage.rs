//! Holding every entry of an archive against its checksum.

use super::inflated::check_crc;
use super::{Archive, Entry, Inflated, Method, Spill};
use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};
use crate::limits::Budget;

/// Bytes read at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// What is wrong with the entries of an archive, by their checksums, for people. An entry whose checksum is 0 was written
/// without one, as PyTorch can be told to.
pub(crate) fn damaged_entries(source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
    let archive = Archive::read(source, budget)?;
    let mut damage = Vec::new();
    for entry in archive.entries.iter().filter(|entry| entry.crc != 0) {
        match check(source, entry, budget) {
            Ok(()) => {}
            Err(AnamnesisError::Io(error)) => return Err(AnamnesisError::Io(error)),
            Err(error) => damage.push(error.to_string()),
        }
    }
    Ok(damage)
}

fn check(source: &dyn Source, entry: &Entry, budget: &Budget) -> Result<()> {
    entry.check_readable("ZIP", budget)?;
    let inflated = (entry.method == Method::Deflated).then(|| Inflated::in_order(entry.clone(), true, &Spill::new()));
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; entry.bytes.min(PIECE_BYTES) as usize];
    let mut at = 0;
    while at < entry.bytes {
        let piece = &mut buffer[..(entry.bytes - at).min(PIECE_BYTES) as usize];
        match &inflated {
            // It checks what it inflates by itself.
            Some(inflated) => inflated.read_at(source, at, piece)?,
            None => {
                source.read_at(entry.offset + at, piece)?;
                hasher.update(piece);
            }
        }
        at += piece.len() as u64;
    }
    if inflated.is_some() { Ok(()) } else { check_crc(entry, hasher.finalize()) }
}
