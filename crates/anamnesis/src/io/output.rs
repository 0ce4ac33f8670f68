//! Atomic output files: they appear complete or not at all.
//!
//! Bytes are written to a [temporary file](super::temporary), which [`PendingFile::commit`] renames. If it is dropped
//! before, it is removed and the target is unchanged. A target in a mounted store is written by the store.

use std::fmt;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::at_offset::write_all_at;
use super::existing::Existing;
use super::place::{self, is_mounted};
use super::store::{StoreWrite, mounted};
use super::temporary::{TemporaryFile, directory_of};
use crate::error::{AnamnesisError, Result};

/// An output file before its commit.
pub(crate) struct PendingFile {
    destination: Destination,
    target: PathBuf,
    existing: Existing,
}

/// Where the bytes go until the commit.
enum Destination {
    File {
        file: Arc<File>,
        /// The temporary file, until the commit.
        temporary: Mutex<Option<TemporaryFile>>,
    },
    Store(Arc<dyn StoreWrite>),
}

impl fmt::Debug for PendingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingFile").field("target", &self.target).finish_non_exhaustive()
    }
}

impl PendingFile {
    /// Creates the temporary file of `target` and reserves `bytes` bytes on the disk.
    pub(crate) fn create(target: &Path, existing: Existing, bytes: u64) -> Result<Self> {
        let target = resolve(target, existing)?;
        let at = |error| AnamnesisError::at_path(error, &target);
        if let Some((store, name)) = mounted(&target) {
            let destination = Destination::Store(store.create(&name, bytes, existing).map_err(at)?);
            return Ok(Self { destination, target, existing });
        }
        check_space(&target, bytes)?;
        let directory = directory_of(&target);
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let temporary =
            TemporaryFile::create(directory, &name).map_err(|error| AnamnesisError::at_path(error, directory))?;
        temporary.file.set_len(bytes).and_then(|()| reserve(&temporary.file, bytes)).map_err(at)?;
        let file = Arc::clone(&temporary.file);
        Ok(Self { destination: Destination::File { file, temporary: Mutex::new(Some(temporary)) }, target, existing })
    }

    /// Announces bytes that are not written, which are zero.
    pub(crate) fn skip(&self, gaps: &[Range<u64>]) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let Destination::Store(store) = &self.destination else { return Ok(()) };
        for gap in gaps {
            let mut at = gap.start;
            while at < gap.end {
                let zeros = &ZEROS[..ZEROS.len().min((gap.end - at) as usize)];
                store.write_all_at(zeros, at).map_err(|error| AnamnesisError::at_path(error, &self.target))?;
                at += zeros.len() as u64;
            }
        }
        Ok(())
    }

    /// Writes `bytes` at `offset`; threads may write disjoint ranges concurrently.
    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match &self.destination {
            Destination::File { file, .. } => write_all_at(file, bytes, offset),
            Destination::Store(store) => store.write_all_at(bytes, offset),
        }
        .map_err(|error| AnamnesisError::at_path(error, &self.target))
    }

    /// Copies `bytes` bytes of another file from `from` to `offset` inside the kernel; `false` if the system cannot.
    pub(crate) fn copy_at(&self, offset: u64, file: &File, from: u64, bytes: u64) -> Result<bool> {
        match &self.destination {
            Destination::File { file: to, .. } => {
                copy_range(file, from, to, offset, bytes).map_err(|error| AnamnesisError::at_path(error, &self.target))
            }
            Destination::Store(_) => Ok(false),
        }
    }

    /// Waits until all written bytes are on the disk.
    pub(crate) fn flush(&self) -> Result<()> {
        match &self.destination {
            Destination::File { file, .. } => {
                file.sync_data().map_err(|error| AnamnesisError::at_path(error, &self.target))
            }
            Destination::Store(_) => Ok(()),
        }
    }

    /// Names the file after a flush, so that not even a power failure leaves an incomplete one.
    pub(crate) fn commit(&self) -> Result<()> {
        self.complete()?.map_or(Ok(()), CompleteFile::publish)
    }

    /// [`commit`](Self::commit), and returns the open file, which keeps its lock until it is closed; `None` in a store.
    pub(crate) fn commit_locked(self) -> Result<Option<Arc<File>>> {
        self.commit()?;
        match self.destination {
            Destination::File { file, .. } => Ok(Some(file)),
            Destination::Store(_) => Ok(None),
        }
    }

    /// Flushes the file without naming it; `None` if that has been done before.
    pub(crate) fn complete(&self) -> Result<Option<CompleteFile>> {
        self.flush()?;
        let content = match &self.destination {
            Destination::File { temporary, .. } => {
                temporary.lock().unwrap_or_else(PoisonError::into_inner).take().map(Content::File)
            }
            Destination::Store(store) => {
                store.complete().map_err(|error| AnamnesisError::at_path(error, &self.target))?;
                Some(Content::Store(Arc::clone(store)))
            }
        };
        let (target, existing) = (self.target.clone(), self.existing);
        Ok(content.map(|content| CompleteFile { content, target, existing }))
    }
}

/// A complete file before it is named; removed on drop.
pub(crate) struct CompleteFile {
    content: Content,
    target: PathBuf,
    existing: Existing,
}

enum Content {
    File(TemporaryFile),
    Store(Arc<dyn StoreWrite>),
}

impl CompleteFile {
    /// Gives the file its final name.
    pub(crate) fn publish(self) -> Result<()> {
        let Self { content, target, existing } = self;
        let named = match (content, existing) {
            (Content::Store(store), _) => store.publish(),
            (Content::File(temporary), Existing::Replace) => temporary.replace(&target),
            (Content::File(temporary), Existing::Refuse) => temporary.link(&target),
        };
        named.map_err(|error| AnamnesisError::at_path(error, &target))
    }

    /// Gives the file its final name, which must be free.
    pub(super) fn publish_new(self) -> Result<()> {
        Self { existing: Existing::Refuse, ..self }.publish()
    }

    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    pub(super) const fn existing(&self) -> Existing {
        self.existing
    }
}

/// Preallocates disk space if the file system supports it.
#[cfg(target_os = "linux")]
fn reserve(file: &File, bytes: u64) -> std::io::Result<()> {
    use rustix::io::Errno;
    // tmpfs: preallocating gains nothing.
    let is_memory = rustix::fs::fstatfs(file).is_ok_and(|about| about.f_type as u64 == 0x0102_1994);
    if bytes == 0 || is_memory {
        return Ok(());
    }
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error.into()),
        // Not supported by this file system.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Does nothing.
#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _bytes: u64) -> std::io::Result<()> {
    Ok(())
}

/// Refuses early what [`PendingFile::create`] would refuse.
pub(crate) fn check_target(target: &Path, existing: Existing) -> Result<()> {
    resolve(target, existing).map(drop)
}

/// Resolves symbolic links and refuses anything but regular files.
fn resolve(target: &Path, existing: Existing) -> Result<PathBuf> {
    let refuse = |kind, text: &str| Err(AnamnesisError::at_path(Error::new(kind, text), target));
    if is_mounted(target) {
        return match place::entry(target)? {
            Some(entry) if entry.is_folder() => refuse(ErrorKind::IsADirectory, "is a folder, a file name is needed"),
            Some(_) if existing == Existing::Refuse => refuse(ErrorKind::AlreadyExists, "exists already"),
            _ => Ok(target.to_path_buf()),
        };
    }
    match std::fs::metadata(target) {
        Ok(metadata) if metadata.is_dir() => refuse(ErrorKind::IsADirectory, "is a directory, a file name is needed"),
        Ok(metadata) if !metadata.is_file() => refuse(ErrorKind::InvalidInput, "is not a regular file"),
        Ok(_) if existing == Existing::Refuse => refuse(ErrorKind::AlreadyExists, "exists already"),
        Ok(_) => std::fs::canonicalize(target).map_err(|error| AnamnesisError::at_path(error, target)),
        Err(_) if target.file_name().is_none() => refuse(ErrorKind::InvalidInput, "is not a file name"),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(target.to_path_buf()),
        Err(error) => Err(AnamnesisError::at_path(error, target)),
    }
}

/// Creates a folder, unless there is one; returns whether it was created.
pub(crate) fn create_folder(path: &Path) -> Result<bool> {
    let at = |error| AnamnesisError::at_path(error, path);
    match std::fs::create_dir(path) {
        Ok(()) => Ok(true),
        // A folder that cannot be looked up is not taken for a file.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(false),
            Ok(_) => Err(at(error)),
            Err(error) => Err(at(error)),
        },
        Err(error) => Err(at(error)),
    }
}

/// Whether two paths refer to the same file, also through links.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    if is_mounted(a) || is_mounted(b) {
        return a == b;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if let (Ok(a), Ok(b)) = (std::fs::metadata(a), std::fs::metadata(b)) {
            return (a.dev(), a.ino()) == (b.dev(), b.ino());
        }
    }
    matches!((std::fs::canonicalize(a), std::fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// Free bytes on the disk of `output`, which need not exist; `None` if the system does not report them.
///
/// ```
/// let free = anamnesis::free_bytes("not-there-yet/model.safetensors".as_ref());
/// println!("{free:?} bytes");
/// ```
#[must_use]
pub fn free_bytes(output: &Path) -> Option<u64> {
    if is_mounted(output) {
        return None;
    }
    let place = output.ancestors().find(|place| place.exists()).unwrap_or(Path::new("."));
    #[cfg(unix)]
    {
        let space = rustix::fs::statvfs(place).ok()?;
        // Some file systems report no blocks.
        space.f_bavail.checked_mul(space.f_frsize).filter(|_| space.f_blocks > 0)
    }
    #[cfg(not(unix))]
    {
        let _ = place;
        None
    }
}

/// Refuses an output that exceeds the free space, if that is known.
pub(crate) fn check_space(output: &Path, needed: u64) -> Result<()> {
    match free_bytes(output) {
        Some(free) if free < needed => {
            let text = format!("{needed} bytes are needed, {free} are free");
            Err(AnamnesisError::at_path(Error::new(ErrorKind::StorageFull, text), output))
        }
        _ => Ok(()),
    }
}

/// Copies a range of one file into another inside the kernel.
#[cfg(target_os = "linux")]
fn copy_range(from: &File, mut source: u64, to: &File, mut target: u64, bytes: u64) -> std::io::Result<bool> {
    let end = source + bytes;
    while source < end {
        let wanted = usize::try_from(end - source).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut target), wanted) {
            // The file is shorter now; the caller's read reports that.
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => {}
            Err(error @ (rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::FBIG)) => {
                return Err(error.into());
            }
            // Not supported between these files, or on this system.
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
fn copy_range(_from: &File, _source: u64, _to: &File, _target: u64, _bytes: u64) -> std::io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out");
        let pending = PendingFile::create(&target, Existing::Refuse, 4).unwrap();
        pending.write_at(2, b"cd").unwrap();
        pending.write_at(0, b"ab").unwrap();
        assert!(!target.exists());
        pending.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"abcd");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn a_range_is_copied_inside_the_kernel_unless_it_ends_past_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let (source, target) = (directory.path().join("in"), directory.path().join("out"));
        std::fs::write(&source, "0123456789").unwrap();
        let file = File::open(&source).unwrap();
        let pending = PendingFile::create(&target, Existing::Refuse, 4).unwrap();
        assert!(!pending.copy_at(0, &file, 8, 4).unwrap());
        if !pending.copy_at(1, &file, 3, 3).unwrap() {
            pending.write_at(1, b"345").unwrap();
        }
        pending.write_at(0, b"x").unwrap();
        pending.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"x345");
    }

    #[test]
    fn an_abandoned_file_leaves_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out");
        std::fs::write(&target, "old").unwrap();
        drop(PendingFile::create(&target, Existing::Replace, 100).unwrap());
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn an_existing_file_is_refused_or_replaced_as_asked() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out");
        std::fs::write(&target, "old").unwrap();
        let error = PendingFile::create(&target, Existing::Refuse, 1).unwrap_err();
        assert!(error.to_string().contains("exists already"), "{error}");
        let pending = PendingFile::create(&target, Existing::Replace, 1).unwrap();
        pending.write_at(0, b"n").unwrap();
        pending.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"n");
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out");
        let pending = PendingFile::create(&target, Existing::Refuse, 1).unwrap();
        std::fs::write(&target, "other").unwrap();
        assert!(pending.commit().is_err());
        drop(pending);
        assert_eq!(std::fs::read(&target).unwrap(), b"other");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_directories_are_refused_and_links_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        for target in [Path::new("/dev/null"), directory.path(), Path::new("/")] {
            assert!(PendingFile::create(target, Existing::Replace, 0).is_err(), "{}", target.display());
        }
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        PendingFile::create(&link, Existing::Replace, 0).unwrap().commit().unwrap();
        assert_eq!(std::fs::read(&real).unwrap(), b"");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[cfg(unix)]
    #[test]
    fn the_disk_of_an_output_is_that_of_its_parent() {
        for output in [".", "not-there-yet", "/not/there/yet"] {
            assert!(free_bytes(Path::new(output)).is_some_and(|bytes| bytes > 0), "{output}");
        }
        let error = check_space(Path::new("not-there-yet"), u64::MAX).unwrap_err();
        assert!(error.to_string().contains("not-there-yet: 18446744073709551615 bytes are needed"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_to_one_file_are_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a", "hard", "soft", "other"].map(|name| directory.path().join(name));
        std::fs::write(&paths[0], "x").unwrap();
        std::fs::hard_link(&paths[0], &paths[1]).unwrap();
        std::os::unix::fs::symlink(&paths[0], &paths[2]).unwrap();
        std::fs::write(&paths[3], "x").unwrap();
        assert!(same_file(&paths[0], &paths[1]) && same_file(&paths[0], &paths[2]));
        assert!(!same_file(&paths[0], &paths[3]) && !same_file(&paths[0], &directory.path().join("missing")));
    }
}
