//! Sidecar files: the vocabulary, the model card and other small files in the directory of the weights.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::checkpoint::{MAX_CONFIG_BYTES, read_bounded};
use crate::error::{AnamnesisError, Result};
use crate::io::{entry, entry_names};
use crate::limits::{Budget, ParseLimits};

/// Longest file read whole, in bytes: six times the largest known vocabulary.
const MAX_SIDECAR_BYTES: u64 = 256 << 20;
/// Most entries a folder may have.
const MAX_ENTRIES: usize = 1 << 16;

/// The sidecar files of a model, by their names in its directory.
pub(crate) trait SidecarFiles {
    /// The content of a file, if it exists.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// The names of the files in a folder, sorted; none if it does not exist.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// The name of the directory, from which names of models are guessed.
    fn directory_name(&self) -> Option<String>;
}

/// A directory on disk. All reads share one budget.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    budget: Mutex<Budget>,
}

impl Directory {
    pub(crate) fn new(path: &Path, limits: &ParseLimits) -> Self {
        Self { path: path.to_path_buf(), budget: Mutex::new(Budget::new(limits)) }
    }
}

impl SidecarFiles for Directory {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        // Vocabularies are long; other JSON files are parsed into memory whole and have few values.
        let is_small = ["config.json", "special_tokens_map.json"].iter().any(|end| name.ends_with(end));
        let most = if is_small { MAX_CONFIG_BYTES } else { MAX_SIDECAR_BYTES };
        read_bounded(&self.path.join(name), most, Some(&mut budget))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let folder = self.path.join(folder);
        if !entry(&folder)?.is_some_and(|entry| entry.is_folder()) {
            return Ok(Vec::new());
        }
        let mut names = entry_names(&folder)?;
        if names.len() > MAX_ENTRIES {
            let message = format!("{} has more than {MAX_ENTRIES} entries", folder.display());
            return Err(AnamnesisError::limit("MAX_ENTRIES", message));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn directory_name(&self) -> Option<String> {
        let whole = std::path::absolute(&self.path).ok()?;
        Some(whole.file_name()?.to_string_lossy().into_owned())
    }
}

#[cfg(any(test, fuzzing))]
pub(crate) mod in_memory {
    //! Files that are only in memory.

    use std::collections::BTreeMap;

    use super::SidecarFiles;
    use crate::error::Result;

    #[derive(Debug, Default, Clone)]
    pub(crate) struct InMemory {
        pub(crate) files: BTreeMap<String, Vec<u8>>,
        directory: Option<String>,
    }

    impl InMemory {
        pub(crate) fn with(mut self, name: &str, content: impl Into<Vec<u8>>) -> Self {
            self.files.insert(name.to_owned(), content.into());
            self
        }

        pub(crate) fn named(mut self, directory: &str) -> Self {
            self.directory = Some(directory.to_owned());
            self
        }
    }

    impl SidecarFiles for InMemory {
        fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
            Ok(self.files.get(name).cloned())
        }

        fn list(&self, folder: &str) -> Result<Vec<String>> {
            let inside = |name: &String| name.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned);
            Ok(self.files.keys().filter_map(inside).filter(|name| !name.contains('/')).collect())
        }

        fn directory_name(&self) -> Option<String> {
            self.directory.clone()
        }
    }
}
