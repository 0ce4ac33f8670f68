//! The arrays of an NPZ archive.

use super::header::Header;
use super::names::unsafe_path_reason;
use crate::catalog::Note;
use crate::container::options::OpenOptions;
use crate::container::zip::{Archive, Entry, read_prefix};
use crate::error::{AnamnesisError, Remedy, Result, quoted};
use crate::io::ReadAt;
use crate::limits::Budget;

/// An array of an archive.
pub(crate) struct Array {
    pub name: String,
    pub header: Header,
    pub(super) entry: Entry,
}

/// The arrays of an archive.
pub(crate) struct Arrays {
    /// In archive order.
    pub arrays: Vec<Array>,
    /// Notes on omitted entries.
    pub notes: Vec<Note>,
}

/// Reads the headers of an archive and of its arrays.
pub(crate) fn read_arrays(
    source: &(impl ReadAt + ?Sized),
    options: &OpenOptions,
    budget: &mut Budget,
) -> Result<Arrays> {
    let archive = Archive::read(source, budget)?;
    let (mut arrays, mut notes) = (Vec::new(), Vec::new());
    for entry in archive.entries {
        if let Some(why) = unsafe_path_reason(&entry.name) {
            return Err(AnamnesisError::parse(format!("an entry of the archive: {why}")));
        }
        let Some(name) = entry.name.strip_suffix(".npy") else {
            if !entry.name.ends_with('/') {
                notes.push(Note::new(format!("entry {} is not an array and was left out", quoted(&entry.name))));
            }
            continue;
        };
        let name = name.to_owned();
        match read_array(source, name, entry, options, budget) {
            Ok(array) => arrays.push(array),
            Err(AnamnesisError::Unsupported { detail, .. } | AnamnesisError::TensorNotRead { detail, .. })
                if options.skip_unsupported =>
            {
                notes.push(Note::new(format!("left out: {detail}")));
            }
            Err(error) => return Err(error.with_remedy(Remedy::LeaveOut)),
        }
    }
    refuse_unknown_names(options, arrays.iter().map(|array| array.name.as_str()))?;
    Ok(Arrays { arrays, notes })
}

fn read_array(
    source: &(impl ReadAt + ?Sized),
    name: String,
    entry: Entry,
    options: &OpenOptions,
    budget: &mut Budget,
) -> Result<Array> {
    entry.check_readable("NPZ", budget)?;
    let header = Header::read(&name, entry.bytes, options, budget, |bytes| read_prefix(source, &entry, bytes, true))?;
    // The data of an empty array is never read, so its CRC is checked here.
    if header.data_bytes == 0 {
        read_prefix(source, &entry, entry.bytes, true)?;
    }
    Ok(Array { name, header, entry })
}

/// Refuses an element type that the caller set for an array that does not exist.
pub(super) fn refuse_unknown_names<'a>(options: &OpenOptions, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    if options.npy_dtypes.is_empty() {
        return Ok(());
    }
    let names: std::collections::HashSet<&str> = names.into_iter().collect();
    match options.npy_dtypes.iter().find(|(name, _)| !names.contains(name.as_str())) {
        Some((name, dtype)) => Err(AnamnesisError::parse(format!(
            "an element type ({dtype}) was given for array {}, which does not exist",
            quoted(name)
        ))),
        None => Ok(()),
    }
}
