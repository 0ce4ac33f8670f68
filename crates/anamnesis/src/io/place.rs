//! Paths of inputs: places in the file system, or in a mounted store.

use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::store::{StoreEntry, mounted};
use super::{FilePool, FileSource, PositionedRead, PositionedSource, Source, record};
use crate::error::{AnamnesisError, Result};

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    /// A device, a socket or a pipe.
    Special,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    /// Its size, if it is a file.
    pub(crate) bytes: u64,
    /// A text that changes with the content of a file: the time of its last change, or the version in a store.
    pub(crate) version: Option<String>,
}

impl Entry {
    pub(crate) fn is_file(&self) -> bool {
        self.kind == EntryKind::File
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.kind == EntryKind::Folder
    }
}

impl From<std::fs::Metadata> for Entry {
    fn from(metadata: std::fs::Metadata) -> Self {
        let kind = match (metadata.is_file(), metadata.is_dir()) {
            (true, _) => EntryKind::File,
            (_, true) => EntryKind::Folder,
            _ => EntryKind::Special,
        };
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self { kind, bytes: metadata.len(), version: modified.map(|time| time.as_nanos().to_string()) }
    }
}

impl From<StoreEntry> for Entry {
    fn from(entry: StoreEntry) -> Self {
        match entry {
            StoreEntry::File { bytes, version } => Self { kind: EntryKind::File, bytes, version },
            StoreEntry::Folder => Self { kind: EntryKind::Folder, bytes: 0, version: None },
        }
    }
}

/// Whether a path is in a mounted store.
pub(crate) fn is_mounted(path: &Path) -> bool {
    mounted(path).is_some()
}

/// The entry of a path, following links; `None` if it does not exist.
pub(crate) fn entry(path: &Path) -> Result<Option<Entry>> {
    let at = |error| AnamnesisError::at_path(error, path);
    if let Some((store, name)) = mounted(path) {
        return Ok(store.entry(&name).map_err(at)?.map(Entry::from));
    }
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.into())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(at(error)),
    }
}

/// Whether there is a file or folder at a path, in the file system or in a mounted store. An empty folder of a store
/// does not exist.
///
/// ```
/// assert!(anamnesis::exists(".".as_ref()) && !anamnesis::exists("s3://bucket/model.gguf".as_ref()));
/// ```
#[must_use]
pub fn exists(path: &Path) -> bool {
    match entry(path) {
        Ok(Some(found)) if found.is_folder() && is_mounted(path) => {
            entry_names(path).is_ok_and(|names| !names.is_empty())
        }
        Ok(found) => found.is_some(),
        Err(_) => false,
    }
}

/// The entry of a path that exists.
pub(crate) fn existing_entry(path: &Path) -> Result<Entry> {
    let at = |error| AnamnesisError::at_path(error, path);
    match mounted(path) {
        Some((store, name)) => {
            let found = store.entry(&name).map_err(at)?.map(Entry::from);
            found.ok_or_else(|| at(Error::new(ErrorKind::NotFound, "no such file")))
        }
        None => Ok(std::fs::metadata(path).map_err(at)?.into()),
    }
}

/// The paths of all entries of a folder.
pub(crate) fn entry_paths(folder: &Path) -> Result<Vec<PathBuf>> {
    let at = |error| AnamnesisError::at_path(error, folder);
    match mounted(folder) {
        Some((store, name)) => {
            let names = store.list(&name).map_err(at)?;
            // A name that is a path would lead to another folder.
            let is_plain = |name: &&String| !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\\']);
            Ok(names.iter().filter(is_plain).map(|name| folder.join(name)).collect())
        }
        None => {
            let entries = std::fs::read_dir(folder).map_err(at)?;
            entries.map(|entry| Ok(entry.map_err(at)?.path())).collect()
        }
    }
}

/// The names of all entries of a folder that are UTF-8; no file of a checkpoint has another name.
pub(crate) fn entry_names(folder: &Path) -> Result<Vec<String>> {
    let paths = entry_paths(folder)?;
    Ok(paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
}

/// Whether the names of a folder's entries are known, all of them and without effort.
pub(crate) fn is_listed(folder: &Path) -> bool {
    mounted(folder).is_none_or(|(store, _)| store.lists_all())
}

/// Whether a path is a folder itself, not a link to one.
pub(crate) fn is_unlinked_folder(path: &Path) -> Result<bool> {
    match is_mounted(path) {
        true => Ok(entry(path)?.is_some_and(|entry| entry.is_folder())),
        false => Ok(std::fs::symlink_metadata(path).map_err(|error| AnamnesisError::at_path(error, path))?.is_dir()),
    }
}

/// Announces the files of a folder that are opened next.
pub(crate) fn announce(folder: &Path, names: &[String]) {
    if let Some((store, inside)) = mounted(folder) {
        let prefix = if inside.is_empty() { inside } else { format!("{inside}/") };
        store.announce(&names.iter().map(|name| format!("{prefix}{name}")).collect::<Vec<_>>());
    }
}

/// Removes a file.
#[cfg(feature = "convert")]
pub(crate) fn remove(path: &Path) -> std::io::Result<()> {
    match mounted(path) {
        Some((store, name)) => store.remove(&name),
        None => std::fs::remove_file(path),
    }
}

/// Opens a single file.
pub(crate) fn open_file(path: &Path) -> Result<Box<dyn Source>> {
    open_file_in(&FilePool::new(1), path)
}

/// Opens one file of many, which the pool may close temporarily.
pub(crate) fn open_file_in(pool: &Arc<FilePool>, path: &Path) -> Result<Box<dyn Source>> {
    let Some((store, name)) = mounted(path) else {
        let file = FileSource::open_in(pool, path)?;
        record::input(path, true);
        return Ok(Box::new(file));
    };
    let at = |error| AnamnesisError::at_path(error, path);
    let file = store.open(&name).map_err(at)?;
    let bytes = file.size().map_err(at)?;
    record::input(path, false);
    Ok(Box::new(MountedFile { source: PositionedSource::with_size(file, bytes), path: path.to_path_buf() }))
}

/// A file of a mounted store.
struct MountedFile {
    source: PositionedSource<Arc<dyn PositionedRead>>,
    path: PathBuf,
}

impl MountedFile {
    fn at_path(&self, error: AnamnesisError) -> AnamnesisError {
        match error {
            AnamnesisError::Io(error) => AnamnesisError::at_path(error, &self.path),
            other => other.in_file(&self.path),
        }
    }
}

impl Source for MountedFile {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_at(offset, buffer).map_err(|error| self.at_path(error))
    }

    fn read_rows(&self, offset: u64, row_bytes: u64, stride: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_rows(offset, row_bytes, stride, buffer).map_err(|error| self.at_path(error))
    }

    fn announce(&self, ranges: &[Range<u64>]) {
        self.source.announce(ranges);
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}
