//! The files that an input consists of.

use std::path::{Path, PathBuf};

use super::files;
use super::index::Index;
use super::names::is_distributed_shard;
use crate::error::{AnamnesisError, Result};

/// The files of an input.
#[derive(Debug)]
pub(super) enum Located {
    /// A single file.
    File(PathBuf),
    /// The files of a checkpoint directory.
    Set(Set),
}

/// The files of a checkpoint directory, by name, sorted.
#[derive(Debug)]
pub(super) struct Set {
    pub directory: PathBuf,
    pub files: Vec<String>,
    /// The index that lists them, with its file name.
    pub index: Option<(String, Index)>,
}

impl Set {
    /// Whether its files are shards of a distributed checkpoint, which have pieces of tensors.
    pub(super) fn is_in_pieces(&self) -> bool {
        self.files.len() > 1 && self.files.iter().all(|name| is_distributed_shard(name))
    }
}

/// The names of the regular files in a directory, sorted.
pub(super) fn file_names(directory: &Path) -> Result<Vec<String>> {
    let at = |error| AnamnesisError::at_path(error, directory);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(at)? {
        let entry = entry.map_err(at)?;
        // No checkpoint file has a name that is not UTF-8.
        if let Some(name) = entry.file_name().to_str()
            && files::is_file(&entry.path())?
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
