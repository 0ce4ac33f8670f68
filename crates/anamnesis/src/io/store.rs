//! Stores: files by name in storage of the caller, such as a folder of a web server. A mounted store is read by its
//! path like a directory: with its index, shards and sidecars. Outputs can be written to stores that create files.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::PositionedRead;
use super::existing::Existing;
use crate::error::{Request, Result};

/// Files by name. Names are relative and have `/` between folder and file; the empty name is the store itself.
///
/// ```
/// use std::sync::Arc;
/// use anamnesis::{Mount, PositionedRead, Store, StoreEntry};
///
/// struct OneFile;
///
/// impl Store for OneFile {
///     fn entry(&self, name: &str) -> std::io::Result<Option<StoreEntry>> {
///         Ok(match name {
///             "" => Some(StoreEntry::Folder),
///             "data.json" => Some(StoreEntry::file(2)),
///             _ => None,
///         })
///     }
///
///     fn list(&self, _: &str) -> std::io::Result<Vec<String>> {
///         Ok(vec!["data.json".to_owned()])
///     }
///
///     fn open(&self, _: &str) -> std::io::Result<Arc<dyn PositionedRead>> {
///         Ok(Arc::new(b"{}".to_vec()))
///     }
/// }
///
/// let mount = Mount::new("memory:example", Arc::new(OneFile))?;
/// let error = anamnesis::Checkpoint::open(mount.root(), &Default::default()).err();
/// assert!(error.is_some_and(|error| error.to_string().contains("no safetensors")));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
pub trait Store: Send + Sync {
    /// The entry of this name; `None` if there is none.
    ///
    /// # Errors
    /// Any error of the storage, if it does not say whether the entry exists.
    fn entry(&self, name: &str) -> io::Result<Option<StoreEntry>>;

    /// The names of the files and folders in a folder, without its own name.
    ///
    /// # Errors
    /// Any error of the storage.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Whether its lists have every file. A web server, for example, has files under names that only an index knows.
    fn lists_all(&self) -> bool {
        true
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, or any error of the storage.
    fn open(&self, name: &str) -> io::Result<Arc<dyn PositionedRead>>;

    /// Announces files that are opened next. A store may fetch their beginnings at the same time.
    fn announce(&self, names: &[String]) {
        let _ = names;
    }

    /// Begins a file of `bytes` bytes, which is visible from [`StoreWrite::publish`] on.
    ///
    /// # Errors
    /// `Unsupported` if files of this store are only read, `AlreadyExists` if there is such a file and it is not to be
    /// replaced, or any error of the storage.
    fn create(&self, name: &str, bytes: u64, existing: Existing) -> io::Result<Arc<dyn StoreWrite>> {
        let _ = (name, bytes, existing);
        Err(io::Error::new(io::ErrorKind::Unsupported, "files of this store are only read"))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// `Unsupported` if files of this store are only read, or any error of the storage.
    fn remove(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Err(io::Error::new(io::ErrorKind::Unsupported, "files of this store are only read"))
    }
}

/// A file of a [`Store`] before it is visible. It never becomes visible if it is dropped before
/// [`publish`](Self::publish).
pub trait StoreWrite: Send + Sync {
    /// Writes bytes at an offset. Several threads write at the same time, each byte at most once.
    ///
    /// # Errors
    /// Any error of the storage.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Stores all bytes; those that were not written are zero.
    ///
    /// # Errors
    /// Any error of the storage.
    fn complete(&self) -> io::Result<()>;

    /// Makes the file visible, after [`complete`](Self::complete).
    ///
    /// # Errors
    /// `AlreadyExists` if such a file has appeared and is not to be replaced, or any error of the storage.
    fn publish(&self) -> io::Result<()>;
}

/// An entry of a [`Store`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEntry {
    /// A file.
    #[non_exhaustive]
    File {
        /// Its size.
        bytes: u64,
        /// A text that changes with its content, such as a digest or an ETag.
        version: Option<String>,
    },
    /// A folder.
    Folder,
}

impl StoreEntry {
    /// A file of this size.
    #[must_use]
    pub const fn file(bytes: u64) -> Self {
        Self::File { bytes, version: None }
    }

    /// A file with a version; folders have none.
    #[must_use]
    pub fn with_version(self, text: impl Into<String>) -> Self {
        match self {
            Self::File { bytes, .. } => Self::File { bytes, version: Some(text.into()) },
            Self::Folder => Self::Folder,
        }
    }
}

/// A store that can be read by its path, as long as this value exists.
#[derive(Debug)]
pub struct Mount {
    id: u64,
    root: PathBuf,
}

impl Mount {
    /// Makes the files of a store readable under `root` for all functions of this crate: `root/config.json` is the
    /// store's `config.json`. The root is an address, not a place in the file system: its first component is a scheme
    /// of several letters, as in `https://host/folder`. Of several stores at the same root, the last one is read.
    ///
    /// # Errors
    /// `Request` if the root is not an address.
    pub fn new(root: impl Into<PathBuf>, store: Arc<dyn Store>) -> Result<Self> {
        let root = root.into();
        if !is_address(&root) {
            let why = "is not an address: a scheme like https: is needed".to_owned();
            let text = root.to_string_lossy().into_owned();
            return Err(Request::Malformed { what: "address", text, why }.into());
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        mounts(|mounts| mounts.push(Mounted { id, root: root.clone(), store }));
        Ok(Self { id, root })
    }

    /// The path of the store itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The store is dropped outside of the lock.
        let _ = mounts(|mounts| mounts.iter().position(|mounted| mounted.id == self.id).map(|at| mounts.remove(at)));
    }
}

struct Mounted {
    id: u64,
    root: PathBuf,
    store: Arc<dyn Store>,
}

static MOUNTS: RwLock<Vec<Mounted>> = RwLock::new(Vec::new());

fn mounts<T>(change: impl FnOnce(&mut Vec<Mounted>) -> T) -> T {
    change(&mut MOUNTS.write().unwrap_or_else(PoisonError::into_inner))
}

/// Whether the first component of a path is a scheme, as in `https://host` or `hf:org`. A single letter is a drive.
fn is_address(path: &Path) -> bool {
    let first = path.components().next().map(Component::as_os_str).and_then(|first| first.to_str());
    let scheme = first.and_then(|first| first.split_once(':')).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// The mounted store that has a path, and the name of the path in it.
pub(crate) fn mounted(path: &Path) -> Option<(Arc<dyn Store>, String)> {
    if !is_address(path) {
        return None;
    }
    let mounts = MOUNTS.read().unwrap_or_else(PoisonError::into_inner);
    mounts.iter().rev().find_map(|mounted| {
        let parts = path.strip_prefix(&mounted.root).ok()?.components().map(|part| match part {
            Component::Normal(part) => part.to_str(),
            _ => None,
        });
        Some((Arc::clone(&mounted.store), parts.collect::<Option<Vec<_>>>()?.join("/")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Empty;

    impl Store for Empty {
        fn entry(&self, _: &str) -> io::Result<Option<StoreEntry>> {
            Ok(None)
        }

        fn list(&self, _: &str) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }

        fn open(&self, _: &str) -> io::Result<Arc<dyn PositionedRead>> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn a_store_is_found_below_its_root_while_it_is_mounted() {
        let name = |path: &str| mounted(Path::new(path)).map(|(_, name)| name);
        let mount = Mount::new("test://host/dir", Arc::new(Empty)).unwrap();
        assert_eq!(name("test://host/dir").as_deref(), Some(""));
        assert_eq!(name("test://host/dir/a/b.json").as_deref(), Some("a/b.json"));
        for outside in ["test://host", "test://host/dirs", "test://host/dir/../x", "host/dir", "/test:/host/dir"] {
            assert_eq!(name(outside), None, "{outside}");
        }
        drop(mount);
        assert_eq!(name("test://host/dir"), None);
    }

    #[test]
    fn roots_in_the_file_system_are_refused() {
        for root in ["models", "/models", "C:\\models", "C:", "", ".", ":x", "a b:c"] {
            assert!(Mount::new(root, Arc::new(Empty)).is_err(), "{root}");
        }
    }
}
