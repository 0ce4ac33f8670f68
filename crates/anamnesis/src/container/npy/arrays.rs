//! The arrays of an NPZ archive: which entries they are, and what their headers say.

use super::header::Header;
use super::names::leaves_folder;
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

/// What an archive holds.
pub(crate) struct Arrays {
    /// In the archive's order.
    pub arrays: Vec<Array>,
    /// What was left out, for people.
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
        if let Some(why) = leaves_folder(&entry.name) {
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
    // An array without elements is never read again, so this is where its CRC is checked.
    if header.data_bytes == 0 {
        read_prefix(source, &entry, entry.bytes, true)?;
    }
    Ok(Array { name, header, entry })
}

/// Refuses a type that was told for an array that is not there.
pub(super) fn refuse_unknown_names<'a>(options: &OpenOptions, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    if options.npy_dtypes.is_empty() {
        return Ok(());
    }
    let names: std::collections::HashSet<&str> = names.into_iter().collect();
    match options.npy_dtypes.iter().find(|(name, _)| !names.contains(name.as_str())) {
        Some((name, dtype)) => {
            Err(AnamnesisError::parse(format!("there is no array {} that could be of type {dtype}", quoted(name))))
        }
        None => Ok(()),
    }
}
