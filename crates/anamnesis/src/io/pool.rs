//! A pool of open files: a checkpoint of hundreds of shards must not exhaust the file handles.
//!
//! A [`PooledFile`] is opened when it is read and closed when others need its slot, the least recently used first. A
//! reopened file must be the same as before: length, modification time and (on Unix) device and inode are compared.
//!
//! A file that is being read is never closed. If all slots are in use, a reader opens its file for that one read, so
//! that the bound is exceeded by at most the number of threads.

use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::Source;
use super::at_offset::read_exact_at;
use super::source::past_end;
use crate::error::{AnamnesisError, Result, quoted};

/// Default number of open files, well below the limits of all systems (256 at least).
pub(crate) const MAX_OPEN_FILES: usize = 64;

/// A bound on the number of open files.
pub(crate) struct FilePool {
    max_open: usize,
    next_id: AtomicU64,
    /// The open files, least recently used first.
    open: Mutex<Vec<(u64, Arc<File>)>>,
}

impl FilePool {
    /// A pool of at most `max_open` files, and at least one.
    pub(crate) fn new(max_open: usize) -> Arc<Self> {
        Arc::new(Self { max_open: max_open.max(1), next_id: AtomicU64::new(0), open: Mutex::default() })
    }

    /// The file `id`, opened by `open` if it is not open.
    fn get(&self, id: u64, open: impl FnOnce() -> Result<File>) -> Result<Arc<File>> {
        // The list is consistent at all times. Files are opened under the lock too, to keep the bound.
        let mut files = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = files.iter().position(|(other, _)| *other == id) {
            let entry = files.remove(place);
            let file = Arc::clone(&entry.1);
            files.push(entry);
            return Ok(file);
        }
        while files.len() >= self.max_open {
            let Some(idle) = files.iter().position(|(_, file)| Arc::strong_count(file) == 1) else {
                return open().map(Arc::new);
            };
            files.remove(idle);
        }
        let file = Arc::new(open()?);
        files.push((id, Arc::clone(&file)));
        Ok(file)
    }

    fn close(&self, id: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != id);
    }
}

/// A file of a pool.
pub(crate) struct PooledFile {
    pool: Arc<FilePool>,
    id: u64,
    path: PathBuf,
    identity: Identity,
}

impl PooledFile {
    /// Opens a file for the first time and records its identity.
    ///
    /// # Errors
    /// `Io` if it cannot be opened or is not a regular file.
    pub(crate) fn open(pool: &Arc<FilePool>, path: &Path) -> Result<Self> {
        let id = pool.next_id.fetch_add(1, Ordering::Relaxed);
        let mut identity = None;
        pool.get(id, || {
            let (file, found) = open_regular(path)?;
            identity = Some(found);
            Ok(file)
        })?;
        let identity = identity.ok_or_else(|| changed(path))?;
        Ok(Self { pool: Arc::clone(pool), id, path: path.to_path_buf(), identity })
    }

    /// The open file; it stays open while the handle exists.
    ///
    /// # Errors
    /// `Io` if it cannot be reopened or has been replaced.
    pub(super) fn handle(&self) -> Result<Arc<File>> {
        self.pool.get(self.id, || {
            let (file, identity) = open_regular(&self.path)?;
            if identity == self.identity { Ok(file) } else { Err(changed(&self.path)) }
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PooledFile {
    fn drop(&mut self) {
        self.pool.close(self.id);
    }
}

impl Source for PooledFile {
    fn len(&self) -> u64 {
        self.identity.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.identity.len) {
            return Err(past_end(offset, buffer.len(), self.identity.len));
        }
        let file = self.handle()?;
        read_exact_at(&file, buffer, offset).map_err(|error| match error.kind() {
            // It was long enough when it was opened.
            ErrorKind::UnexpectedEof => shortened(&self.path, self.identity.len),
            _ => AnamnesisError::at_path(error, &self.path),
        })
    }
}

/// Distinguishes a file from another one with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    len: u64,
    /// `None` if the system does not report it.
    modified: Option<SystemTime>,
    #[cfg(unix)]
    device_and_inode: (u64, u64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            device_and_inode: {
                use std::os::unix::fs::MetadataExt;
                (metadata.dev(), metadata.ino())
            },
        }
    }
}

/// Opens a regular file.
fn open_regular(path: &Path) -> Result<(File, Identity)> {
    let at_path = |error| AnamnesisError::at_path(error, path);
    // Checked before opening: opening a FIFO without a writer blocks.
    let metadata = std::fs::metadata(path).map_err(at_path)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "is a directory, a file is needed" } else { "is not a regular file" };
        return Err(at_path(Error::new(ErrorKind::InvalidInput, what)));
    }
    let file = File::open(path).map_err(at_path)?;
    let identity = Identity::of(&file.metadata().map_err(at_path)?);
    Ok((file, identity))
}

fn changed(path: &Path) -> AnamnesisError {
    AnamnesisError::at_path(Error::other("the file changed while it was being read"), path)
}

/// The error for an open file that has become shorter than `len`.
pub(super) fn shortened(path: &Path, len: u64) -> AnamnesisError {
    let path = quoted(&path.to_string_lossy());
    AnamnesisError::parse(format!("{path} had {len} bytes and was shortened: it changed while it was being read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Creates `count` files, each containing its number.
    fn files(directory: &Path, count: u64) -> Vec<PathBuf> {
        let write = |number: u64| {
            let path = directory.join(number.to_string());
            fs::write(&path, number.to_le_bytes()).unwrap();
            path
        };
        (0..count).map(write).collect()
    }

    fn number_in(file: &PooledFile) -> Result<u64> {
        let mut bytes = [0; 8];
        file.read_at(0, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// How many files inside `directory` this process has open.
    #[cfg(target_os = "linux")]
    fn open_in(directory: &Path) -> usize {
        let handles = fs::read_dir("/proc/self/fd").unwrap().flatten();
        handles.filter(|handle| fs::read_link(handle.path()).is_ok_and(|path| path.starts_with(directory))).count()
    }

    fn says_changed(result: Result<u64>, path: &Path) {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("changed while it was being read") && text.contains(path.to_str().unwrap()), "{text}");
    }

    #[test]
    fn hundreds_of_files_are_read_with_few_open() {
        let directory = tempfile::tempdir().unwrap();
        let paths = files(directory.path(), 300);
        let pool = FilePool::new(8);
        let files: Vec<_> = paths.iter().map(|path| PooledFile::open(&pool, path).unwrap()).collect();
        for round in 0..3 {
            for step in 0..300 {
                let number = (step * 7 + round) % 300;
                assert_eq!(number_in(&files[number]).unwrap(), number as u64);
                #[cfg(target_os = "linux")]
                assert!(step % 50 != 0 || open_in(directory.path()) == 8);
            }
        }
        drop(files);
        #[cfg(target_os = "linux")]
        assert_eq!(open_in(directory.path()), 0);
    }

    #[test]
    fn threads_share_a_pool_smaller_than_their_number() {
        let directory = tempfile::tempdir().unwrap();
        let paths = files(directory.path(), 40);
        let pool = FilePool::new(2);
        let files: Vec<_> = paths.iter().map(|path| PooledFile::open(&pool, path).unwrap()).collect();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let files = &files;
                scope.spawn(move || {
                    for step in 0..400 {
                        let number = (step * (2 * thread + 1) + thread) % files.len();
                        assert_eq!(number_in(&files[number]).unwrap(), number as u64);
                    }
                });
            }
        });
        assert!(pool.open.lock().unwrap().len() <= 2);
    }

    #[test]
    fn the_least_recently_used_file_is_closed_first_and_one_in_use_never() {
        let directory = tempfile::tempdir().unwrap();
        let paths = files(directory.path(), 4);
        let pool = FilePool::new(2);
        let open = || -> Vec<u64> { pool.open.lock().unwrap().iter().map(|(id, _)| *id).collect() };
        let files: Vec<_> = paths.iter().map(|path| PooledFile::open(&pool, path).unwrap()).collect();
        assert_eq!(open(), [2, 3]);
        number_in(&files[2]).unwrap();
        number_in(&files[0]).unwrap();
        assert_eq!(open(), [2, 0]);
        let held = (files[2].handle().unwrap(), files[0].handle().unwrap());
        assert_eq!(number_in(&files[1]).unwrap(), 1);
        assert_eq!(open(), [2, 0]);
        drop(held);
        number_in(&files[1]).unwrap();
        assert_eq!(open(), [0, 1]);
    }

    #[test]
    fn a_file_replaced_while_closed_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let paths = files(directory.path(), 2);
        let pool = FilePool::new(1);
        let files: Vec<_> = paths.iter().map(|path| PooledFile::open(&pool, path).unwrap()).collect();
        let replacement = directory.path().join("new");
        fs::write(&replacement, 9_u64.to_le_bytes()).unwrap();
        fs::rename(&replacement, &paths[0]).unwrap();
        assert!(matches!(number_in(&files[0]), Err(AnamnesisError::Io(_))));
        says_changed(number_in(&files[0]), &paths[0]);
        assert_eq!(number_in(&files[1]).unwrap(), 1);
    }

    #[test]
    fn a_truncated_file_is_an_error_whether_open_or_closed() {
        let directory = tempfile::tempdir().unwrap();
        let paths = files(directory.path(), 2);
        let pool = FilePool::new(1);
        let files: Vec<_> = paths.iter().map(|path| PooledFile::open(&pool, path).unwrap()).collect();
        for (file, path) in files.iter().zip(&paths) {
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4).unwrap();
            says_changed(number_in(file), path);
        }
    }

    #[test]
    fn a_removed_file_is_an_error_with_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let paths = files(directory.path(), 2);
        let pool = FilePool::new(1);
        let files: Vec<_> = paths.iter().map(|path| PooledFile::open(&pool, path).unwrap()).collect();
        fs::remove_file(&paths[0]).unwrap();
        let error = number_in(&files[0]).unwrap_err().to_string();
        assert!(error.contains(paths[0].to_str().unwrap()), "{error}");
    }

    #[test]
    fn special_files_are_refused_without_blocking() {
        let directory = tempfile::tempdir().unwrap();
        let pool = FilePool::new(MAX_OPEN_FILES);
        let refused = |path: &Path| PooledFile::open(&pool, path).err().unwrap().to_string();
        assert!(refused(directory.path()).contains("is a directory"));
        #[cfg(unix)]
        {
            let socket = directory.path().join("socket");
            let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
            assert!(refused(&socket).contains("not a regular file"));
            assert!(refused(Path::new("/dev/zero")).contains("not a regular file"));
        }
        #[cfg(target_os = "linux")]
        {
            let pipe = directory.path().join("pipe");
            let made = std::process::Command::new("mkfifo").arg(&pipe).status();
            if made.is_ok_and(|status| status.success()) {
                assert!(refused(&pipe).contains("not a regular file"));
            }
        }
    }
}
