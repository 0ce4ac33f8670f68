//! Temporary files for outputs before their commit.
//!
//! On file systems that support it, they are unnamed (`O_TMPFILE`), and the system removes them however the process
//! ends. Elsewhere they are named `.NAME.xxxxxx.partial` in the same directory and locked by their owner. Unlocked
//! ones were left by killed processes and are removed when the same output is started again.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

use tempfile::{Builder, TempPath};

/// The suffix of named temporary files.
pub(crate) const PARTIAL: &str = ".partial";

/// Attempts to create a file that other processes mistake for an abandoned one before it is locked.
const ATTEMPTS: usize = 16;

/// Maximum characters of the output's name in that of its temporary file.
const NAME_CHARS: usize = 100;

/// A temporary file; removed on drop.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: Arc<File>,
    /// `None` for an unnamed file.
    name: Option<TempPath>,
}

impl TemporaryFile {
    /// Creates a temporary file for `name` in `directory`, and removes abandoned ones.
    pub(super) fn create(directory: &Path, name: &str) -> Result<Self> {
        remove_abandoned(directory, name);
        if let Some(file) = create_unnamed(directory) {
            lock(&file);
            return Ok(Self { file: Arc::new(file), name: None });
        }
        Self::named(directory, name)
    }

    /// Creates a named file.
    fn named(directory: &Path, name: &str) -> Result<Self> {
        let prefix = prefix(name);
        for _ in 0..ATTEMPTS {
            let (file, path) = builder(&prefix, PARTIAL).tempfile_in(directory)?.into_parts();
            // Another process mistook it for an abandoned file and removed it.
            if lock(&file) != Lock::Others && is_linked(&file)? {
                return Ok(Self { file: Arc::new(file), name: Some(path) });
            }
        }
        Err(Error::new(ErrorKind::ResourceBusy, "temporary files are removed as soon as they are created"))
    }

    /// Links it to `target`, which must be free.
    pub(super) fn link(self, target: &Path) -> Result<()> {
        match self.name {
            None => link(&self.file, target),
            Some(path) => path.persist_noclobber(target).map_err(|error| error.error),
        }
    }

    /// Links it to `target`, replacing an existing file.
    pub(super) fn replace(self, target: &Path) -> Result<()> {
        let Some(path) = self.name else {
            return match link(&self.file, target) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => replace(&self.file, target),
                linked => linked,
            };
        };
        path.persist(target).map_err(|error| error.error)
    }
}

/// Links an unnamed file to a temporary name and renames it, because only a rename replaces.
fn replace(file: &File, target: &Path) -> Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let prefix = prefix(&name);
    let linked = builder(&prefix, PARTIAL).make_in(directory_of(target), |path| link(file, path))?;
    linked.into_temp_path().persist(target).map_err(|error| error.error)
}

/// The parent directory of a file.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A builder of temporary files with the default permissions of new files.
pub(super) fn builder<'a>(prefix: &'a str, suffix: &'a str) -> Builder<'a, 'a> {
    let mut builder = Builder::new();
    builder.prefix(prefix).suffix(suffix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// The prefix of temporary names for the file `name`.
pub(crate) fn prefix(name: &str) -> String {
    format!(".{}.", name.chars().take(NAME_CHARS).collect::<String>())
}

/// Whether `found` is a temporary name for the file `name` with this suffix.
pub(crate) fn is_temporary(found: &str, name: &str, suffix: &str) -> bool {
    let random = found.strip_prefix(&prefix(name)).and_then(|rest| rest.strip_suffix(suffix));
    random.is_some_and(|random| !random.is_empty() && !random.contains('.'))
}

/// Removes temporary files of this output that killed processes left.
fn remove_abandoned(directory: &Path, name: &str) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|found| is_temporary(found, name, PARTIAL)) {
            continue;
        }
        // Errors are ignored: the file does no harm.
        if File::open(entry.path()).is_ok_and(|file| lock(&file) == Lock::Ours) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The owner of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    Ours,
    Others,
    /// The file system has no locks.
    Unknown,
}

/// Tries to lock a file exclusively, until it is closed.
pub(crate) fn lock(file: &File) -> Lock {
    lock_by(file, File::try_lock)
}

/// Replaces a lock on the file by a shared one.
pub(crate) fn lock_shared(file: &File) -> Lock {
    lock_by(file, File::try_lock_shared)
}

fn lock_by(file: &File, lock: fn(&File) -> std::result::Result<(), std::fs::TryLockError>) -> Lock {
    // Windows locks are mandatory and would block readers.
    if cfg!(not(unix)) {
        return Lock::Unknown;
    }
    match lock(file) {
        Ok(()) => Lock::Ours,
        Err(std::fs::TryLockError::WouldBlock) => Lock::Others,
        Err(std::fs::TryLockError::Error(_)) => Lock::Unknown,
    }
}

/// Whether a file is still linked in a directory.
#[cfg(unix)]
pub(crate) fn is_linked(file: &File) -> Result<bool> {
    Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 0)
}

#[cfg(not(unix))]
pub(crate) fn is_linked(_file: &File) -> Result<bool> {
    Ok(true)
}

/// Directory of the open files of this process.
#[cfg(target_os = "linux")]
const OPEN_FILES: &str = "/proc/self/fd";

/// Creates an unnamed file that can be linked later; `None` if that is not supported.
#[cfg(target_os = "linux")]
fn create_unnamed(directory: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    if !Path::new(OPEN_FILES).is_dir() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // Errors of the directory are reported when a named file is created.
    rustix::fs::open(directory, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
}

#[cfg(not(target_os = "linux"))]
fn create_unnamed(_directory: &Path) -> Option<File> {
    None
}

#[cfg(target_os = "linux")]
fn link(file: &File, target: &Path) -> Result<()> {
    use std::os::fd::AsRawFd;
    let open = Path::new(OPEN_FILES).join(file.as_raw_fd().to_string());
    let here = rustix::fs::CWD;
    Ok(rustix::fs::linkat(here, &open, here, target, rustix::fs::AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_file: &File, _target: &Path) -> Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_belong_to_one_output() {
        assert!(is_temporary(".a.b.x1y2z3.partial", "a.b", PARTIAL));
        for found in [".a.b.c.x1y2z3.partial", ".a.b..partial", "a.b.x.partial", ".a.b.x1y2z3.old", ".a.b.partial"] {
            assert!(!is_temporary(found, "a.b", PARTIAL), "{found}");
        }
        let long = "n".repeat(300);
        assert!(is_temporary(&format!("{}x1y2z3.partial", prefix(&long)), &long, PARTIAL));
    }

    #[test]
    fn a_named_temporary_file_is_removed_or_linked() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out");
        let names = || std::fs::read_dir(directory.path()).unwrap().count();
        let create = || TemporaryFile::named(directory.path(), "out").unwrap();
        let file = create();
        assert_eq!(names(), 1);
        // A second writer of the same output leaves it alone.
        drop(TemporaryFile::create(directory.path(), "out").unwrap());
        assert_eq!(names(), 1);
        drop(file);
        assert_eq!(names(), 0);
        create().link(&target).unwrap();
        assert_eq!(create().link(&target).unwrap_err().kind(), ErrorKind::AlreadyExists);
        create().replace(&target).unwrap();
        assert_eq!(names(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn abandoned_files_are_removed_and_locked_ones_kept() {
        let directory = tempfile::tempdir().unwrap();
        let names = [".out.dead00.partial", ".out.alive0.partial", ".other.dead00.partial"];
        let paths = names.map(|name| directory.path().join(name));
        paths.iter().for_each(|path| std::fs::write(path, "half").unwrap());
        let alive = File::open(&paths[1]).unwrap();
        assert_eq!(lock(&alive), Lock::Ours);
        let file = TemporaryFile::create(directory.path(), "out").unwrap();
        assert_eq!(paths.map(|path| path.exists()), [false, true, true]);
        file.link(&directory.path().join("out")).unwrap();
        assert!(directory.path().join("out").exists());
    }
}
