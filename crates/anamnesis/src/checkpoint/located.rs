//! The files that an input consists of.

use std::path::{Path, PathBuf};

use super::files;
use super::index::Index;
use super::names::is_distributed_shard;
use crate::error::Result;
use crate::io::entry_names;

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
    /// Groups of tensors that an index lists instead, with the files that must have some of each.
    pub groups: Vec<(String, String)>,
}

impl Set {
    /// Files without an index.
    pub(super) fn new(directory: &Path, files: Vec<String>) -> Self {
        Self { directory: directory.to_path_buf(), files, index: None, groups: Vec::new() }
    }

    /// Whether its files are shards of a distributed checkpoint, which have pieces of tensors.
    pub(super) fn is_in_pieces(&self) -> bool {
        self.files.len() > 1 && self.files.iter().all(|name| is_distributed_shard(name))
    }
}

/// The names of the regular files in a directory, sorted.
pub(super) fn file_names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in entry_names(directory)? {
        if files::is_file(&directory.join(&name))? {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
