//! Verification of all entries of an archive by their CRCs.

use super::{Archive, Entry, Inflated, Method, Spill};
use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};
use crate::limits::Budget;

/// Bytes read at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// CRC mismatches of an archive's entries, as messages. A CRC of 0 means none: PyTorch can omit them.
pub(crate) fn checksum_errors(source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
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
    let inflated = (entry.method == Method::Deflated).then(|| Inflated::sequential(entry.clone(), true, &Spill::new()));
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; entry.bytes.min(PIECE_BYTES) as usize];
    let mut at = 0;
    while at < entry.bytes {
        let piece = &mut buffer[..(entry.bytes - at).min(PIECE_BYTES) as usize];
        match &inflated {
            // Reading a deflated entry checks its CRC.
            Some(inflated) => inflated.read_at(source, at, piece)?,
            None => {
                source.read_at(entry.offset + at, piece)?;
                hasher.update(piece);
            }
        }
        at += piece.len() as u64;
    }
    if inflated.is_some() { Ok(()) } else { entry.check_crc(hasher.finalize()) }
}
