//! The format since PyTorch 1.6: a ZIP archive of a pickle and storages, all in one folder of any name.
//!
//! | entry | content |
//! |---|---|
//! | `data.pkl` | the object |
//! | `data/KEY` | the bytes of one storage |
//! | `byteorder` | `little` or `big`; `little` by default |
//! | `constants.pkl`, `constants/KEY` | TorchScript: tensors used by the code |
//! | `code/…` | TorchScript: ignored |
//!
//! All other entries (`version`, `.data/serialization_id`, …) are ignored.

use std::borrow::Cow;

use super::pickle::caps::{FREE_PICKLE_GROWTH, MAX_PICKLE_GROWTH, MAX_PICKLE_WORKING_SET, MAX_PKL_SIZE};
use crate::container::zip::{Archive, Entry, Method, read_whole};
use crate::error::{AnamnesisError, FileKind, Result, quoted};
use crate::io::ReadAt;
use crate::limits::Budget;

/// Maximum size of `byteorder` in bytes.
const MAX_BYTEORDER_SIZE: u64 = 64;

/// An archive written by PyTorch.
pub(super) struct TorchArchive {
    /// All entries, sorted by name.
    pub(super) entries: Vec<Entry>,
    /// The folder of the archive, with a slash.
    folder: String,
    /// Pickles that are not part of the saved object; never read.
    pub(super) extra_pickles: Vec<String>,
}

impl TorchArchive {
    /// Reads the headers of an archive.
    pub(super) fn read(source: &(impl ReadAt + ?Sized), budget: &mut Budget) -> Result<Self> {
        let archive = Archive::read(source, budget)?;
        let mut folders = archive.entries.iter().filter_map(|entry| match entry.name.split_once('/') {
            Some((folder, "data.pkl")) => Some(folder),
            _ => None,
        });
        let folder = match (folders.next(), folders.next()) {
            (Some(folder), None) => format!("{folder}/"),
            (Some(a), Some(b)) => {
                let why = format!("the archive holds two objects, {}/data.pkl and {}/data.pkl", quoted(a), quoted(b));
                return Err(AnamnesisError::parse(why));
            }
            _ => return Err(no_object(&archive)),
        };
        let is_stray = |name: &str| {
            let below = name.strip_prefix(&folder);
            let lower = name.to_ascii_lowercase();
            (lower.ends_with(".pkl") || lower.ends_with(".pickle"))
                && !matches!(below, Some("data.pkl" | "constants.pkl"))
        };
        let names = archive.entries.iter().map(|entry| &entry.name);
        let extra_pickles = names.filter(|name| is_stray(name)).cloned().collect();
        let mut entries = archive.entries;
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { entries, folder, extra_pickles })
    }

    /// Whether this is a TorchScript archive.
    pub(super) fn is_script(&self) -> bool {
        self.find("constants.pkl").is_some()
    }

    /// The entry with this name in the folder, and its index.
    pub(super) fn find_indexed(&self, name: &str) -> Option<(usize, &Entry)> {
        let name = format!("{}{name}", self.folder);
        let index = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(&name)).ok()?;
        Some((index, &self.entries[index]))
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.find_indexed(name).map(|(_, entry)| entry)
    }

    pub(super) fn is_big_endian(&self, source: &(impl ReadAt + ?Sized), budget: &mut Budget) -> Result<bool> {
        let Some(entry) = self.find("byteorder") else { return Ok(false) };
        if entry.bytes > MAX_BYTEORDER_SIZE {
            let message = format!("byteorder takes {} bytes, {MAX_BYTEORDER_SIZE} are allowed", entry.bytes);
            return Err(AnamnesisError::limit("MAX_BYTEORDER_SIZE", message));
        }
        match read_entry(entry, source, budget)?.trim_ascii() {
            b"little" => Ok(false),
            b"big" => Ok(true),
            other => {
                let found = quoted(&String::from_utf8_lossy(other));
                Err(AnamnesisError::parse(format!("byteorder is {found}, not little or big")))
            }
        }
    }

    /// The bytes of a pickle and the memory allowed for its values; `None` if the entry does not exist.
    pub(super) fn pickle<'s>(
        &self,
        name: &str,
        source: &'s (impl ReadAt + ?Sized),
        budget: &mut Budget,
    ) -> Result<Option<(Cow<'s, [u8]>, u64)>> {
        let Some(entry) = self.find(name) else { return Ok(None) };
        let max_value_bytes = check_pickle_size(entry)?;
        read_entry(entry, source, budget).map(|bytes| Some((bytes, max_value_bytes)))
    }
}

/// Whether an entry has a checksum. PyTorch can omit them and writes 0 instead.
pub(super) fn has_checksum(entry: &Entry) -> bool {
    entry.crc != 0
}

/// Reads all bytes of a small entry.
fn read_entry<'s>(entry: &Entry, source: &'s (impl ReadAt + ?Sized), budget: &mut Budget) -> Result<Cow<'s, [u8]>> {
    entry.check_readable("pth", budget)?;
    budget.buffer(entry.bytes, &quoted(&entry.name))?;
    read_whole(source, entry, has_checksum(entry))
}

/// Refuses a pickle that is too large, and returns the memory allowed for its values.
pub(crate) fn check_pickle_size(entry: &Entry) -> Result<u64> {
    if entry.bytes > MAX_PKL_SIZE {
        let message = format!("{} takes {} bytes, {MAX_PKL_SIZE} are allowed", quoted(&entry.name), entry.bytes);
        return Err(AnamnesisError::limit("MAX_PKL_SIZE", message));
    }
    if entry.method == Method::Stored {
        return Ok(MAX_PICKLE_WORKING_SET);
    }
    let max_value_bytes = entry.stored_bytes.saturating_mul(MAX_PICKLE_GROWTH).max(FREE_PICKLE_GROWTH);
    if entry.bytes > max_value_bytes {
        let (name, bytes, stored) = (quoted(&entry.name), entry.bytes, entry.stored_bytes);
        let message = format!("{name} makes {bytes} bytes of {stored}, {max_value_bytes} are allowed");
        return Err(AnamnesisError::limit("MAX_PICKLE_GROWTH", message));
    }
    Ok(max_value_bytes)
}

fn no_object(archive: &Archive) -> AnamnesisError {
    let named = |end: &str| archive.entries.iter().any(|entry| entry.name.ends_with(end));
    let what = if named(".npy") {
        ": it holds NumPy arrays, name it .npz"
    } else if archive.entries.iter().any(|entry| entry.name.contains("/.data/extern_modules")) {
        ": it is a torch.package, which holds code"
    } else {
        ""
    };
    let detail = format!("the archive has no data.pkl, so it is not a PyTorch file{what}");
    AnamnesisError::not_a_model(FileKind::Zip, detail)
}
