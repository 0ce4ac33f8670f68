//! The file that bytes go into before an output gets its name.
//!
//! Where the file system can, it has no name at all (`O_TMPFILE`), and the system takes it back however the process ends.
//! Elsewhere its name is `.NAME.xxxxxx.partial` in the same directory. Its owner holds a lock on it; one without a living owner
//! was left by a process that was killed, and goes when the same output is begun again.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

use tempfile::{Builder, TempPath};

/// The ending of files that are being written.
pub(crate) const PARTIAL: &str = ".partial";

/// How often a name is tried that others take for abandoned before it is locked.
const ATTEMPTS: usize = 16;

/// Characters of the output's name that the name of a temporary file has.
const NAME_CHARS: usize = 100;

/// A file on its way to be an output. It goes when it is dropped.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: Arc<File>,
    /// `None` where it has no name.
    name: Option<TempPath>,
}

impl TemporaryFile {
    /// Begins the file that will be `name` in `directory`, and removes what killed processes left of it.
    pub(super) fn create(directory: &Path, name: &str) -> Result<Self> {
        remove_abandoned(directory, name);
        if let Some(file) = nameless(directory) {
            lock(&file);
            return Ok(Self { file: Arc::new(file), name: None });
        }
        Self::named(directory, name)
    }

    /// Where every file has a name.
    fn named(directory: &Path, name: &str) -> Result<Self> {
        let prefix = prefix(name);
        for _ in 0..ATTEMPTS {
            let (file, path) = builder(&prefix, PARTIAL).tempfile_in(directory)?.into_parts();
            // Whoever came between took it for abandoned and has it removed.
            if lock(&file) != Lock::Others && has_name(&file)? {
                return Ok(Self { file: Arc::new(file), name: Some(path) });
            }
        }
        Err(Error::new(ErrorKind::ResourceBusy, "temporary files are removed as soon as they are made"))
    }

    /// Gives it the name `target`, which nothing may have.
    pub(super) fn link(self, target: &Path) -> Result<()> {
        match self.name {
            None => link(&self.file, target),
            Some(path) => path.persist_noclobber(target).map_err(|error| error.error),
        }
    }

    /// Gives it the name `target`, in place of what has it.
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

/// Links a file without a name over another: under a temporary name first, because only renaming replaces.
fn replace(file: &File, target: &Path) -> Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let prefix = prefix(&name);
    let linked = builder(&prefix, PARTIAL).make_in(directory_of(target), |path| link(file, path))?;
    linked.into_temp_path().persist(target).map_err(|error| error.error)
}

/// The directory of a file.
pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes names of temporary files that everybody may read who may read others that are written here.
pub(super) fn builder<'a>(prefix: &'a str, suffix: &'a str) -> Builder<'a, 'a> {
    let mut builder = Builder::new();
    builder.prefix(prefix).suffix(suffix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// How the names of temporary forms of the file `name` begin.
pub(super) fn prefix(name: &str) -> String {
    format!(".{}.", name.chars().take(NAME_CHARS).collect::<String>())
}

/// Whether `found` is a temporary form of the file `name`, of the kind with this ending.
pub(crate) fn is_temporary(found: &str, name: &str, suffix: &str) -> bool {
    let random = found.strip_prefix(&prefix(name)).and_then(|rest| rest.strip_suffix(suffix));
    random.is_some_and(|random| !random.is_empty() && !random.contains('.'))
}

/// Removes what processes that are no more left of this file.
fn remove_abandoned(directory: &Path, name: &str) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|found| is_temporary(found, name, PARTIAL)) {
            continue;
        }
        // What cannot be opened or removed is in nobody's way.
        if File::open(entry.path()).is_ok_and(|file| lock(&file) == Lock::Ours) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whose a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    Ours,
    Others,
    /// The file system has no locks.
    Unknown,
}

/// Takes a file for this process, until it is closed, where nobody else has it.
pub(crate) fn lock(file: &File) -> Lock {
    lock_by(file, File::try_lock)
}

/// Takes a file for this process and others that share it, in place of what it held before.
pub(crate) fn share(file: &File) -> Lock {
    lock_by(file, File::try_lock_shared)
}

fn lock_by(file: &File, lock: fn(&File) -> std::result::Result<(), std::fs::TryLockError>) -> Lock {
    // Elsewhere, locks would keep others from reading.
    if cfg!(not(unix)) {
        return Lock::Unknown;
    }
    match lock(file) {
        Ok(()) => Lock::Ours,
        Err(std::fs::TryLockError::WouldBlock) => Lock::Others,
        Err(std::fs::TryLockError::Error(_)) => Lock::Unknown,
    }
}

/// Whether a file is still in a directory.
#[cfg(unix)]
pub(crate) fn has_name(file: &File) -> Result<bool> {
    Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 0)
}

#[cfg(not(unix))]
pub(crate) fn has_name(_file: &File) -> Result<bool> {
    Ok(true)
}

/// Where the system shows the files that this process has open.
#[cfg(target_os = "linux")]
const OPEN_FILES: &str = "/proc/self/fd";

/// A file without a name, which can get one later; `None` where that cannot be had.
#[cfg(target_os = "linux")]
fn nameless(directory: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    if !Path::new(OPEN_FILES).is_dir() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // Whatever is wrong with the directory is said where a named file is tried.
    rustix::fs::open(directory, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_directory: &Path) -> Option<File> {
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
    fn names_of_temporary_files_belong_to_one_output() {
        assert!(is_temporary(".a.b.x1y2z3.partial", "a.b", PARTIAL));
        for found in [".a.b.c.x1y2z3.partial", ".a.b..partial", "a.b.x.partial", ".a.b.x1y2z3.old", ".a.b.partial"] {
            assert!(!is_temporary(found, "a.b", PARTIAL), "{found}");
        }
        let long = "n".repeat(300);
        assert!(is_temporary(&format!("{}x1y2z3.partial", prefix(&long)), &long, PARTIAL));
    }

    #[test]
    fn a_file_with_a_temporary_name_goes_or_gets_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out");
        let names = || std::fs::read_dir(directory.path()).unwrap().count();
        let create = || TemporaryFile::named(directory.path(), "out").unwrap();
        let file = create();
        assert_eq!(names(), 1);
        // Another that begins the same output leaves it alone.
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
    fn what_a_killed_process_left_goes_and_what_another_writes_stays() {
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
