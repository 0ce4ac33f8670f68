//! A record of the files that a call reads and writes, for statements about where an output comes from.
//!
//! Files are opened and outputs are completed on the thread of the caller, so the record is kept there: calls on other
//! threads do not appear in it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

thread_local! {
    static CURRENT: RefCell<Option<FileRecord>> = const { RefCell::new(None) };
}

/// The files that calls have read and written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileRecord {
    /// The inputs, with their state before the first read; none for files of a mounted store.
    pub inputs: BTreeMap<PathBuf, Option<FileState>>,
    /// The outputs that are complete, those of an earlier run that were kept included.
    pub outputs: Vec<PathBuf>,
}

/// The state of a file, which changes if it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileState {
    /// Its size.
    pub bytes: u64,
    /// The time of the last change, if the system reports it.
    pub modified: Option<SystemTime>,
}

impl FileState {
    /// The state of a file; `None` if it cannot be looked up.
    #[must_use]
    pub fn of(path: impl AsRef<Path>) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self { bytes: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// Runs `work`, and records the files that it reads and writes.
///
/// ```
/// use std::io::Write;
/// use anamnesis::{AtomicFile, Existing, record_files};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("notes.txt");
/// let (done, record) = record_files(|| {
///     let mut file = AtomicFile::create(&path, Existing::Refuse)?;
///     file.write_all(b"text")?;
///     file.commit()
/// });
/// assert_eq!((done?, record.outputs), (4, vec![path]));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
pub fn record_files<T>(work: impl FnOnce() -> T) -> (T, FileRecord) {
    let before = CURRENT.replace(Some(FileRecord::default()));
    let result = work();
    let record = CURRENT.replace(before).unwrap_or_default();
    (result, record)
}

/// Records an input that has been opened.
pub(super) fn input(path: &Path, is_local: bool) {
    CURRENT.with_borrow_mut(|current| {
        if let Some(record) = current {
            let state = || if is_local { FileState::of(path) } else { None };
            record.inputs.entry(path.to_path_buf()).or_insert_with(state);
        }
    });
}

/// Removes the inputs in a folder: the files of an output, which are read to resume it.
pub(crate) fn exclude(folder: &Path) {
    CURRENT.with_borrow_mut(|current| {
        if let Some(record) = current {
            record.inputs.retain(|path, _| !path.starts_with(folder));
        }
    });
}

/// Records an output that is complete.
pub(crate) fn output(path: &Path) {
    CURRENT.with_borrow_mut(|current| {
        if let Some(record) = current {
            record.outputs.push(path.to_path_buf());
        }
    });
}
