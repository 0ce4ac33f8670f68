//! The files beside the weights: the model's configuration, and the index of a set this file belongs to.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::files::{MAX_CONFIG_BYTES, MAX_INDEX_BYTES, read_bounded};
use super::index::Index;
use super::names::{INDEX_FILE, Numbered, TORCH_INDEX_FILE};
use crate::catalog::config::QuantConfig;
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// Where models describe their quantisation, the most telling first.
pub(super) const CONFIG_FILES: [&str; 4] =
    ["config.json", "hf_quant_config.json", "quantize_config.json", "params.json"];

/// What stands beside the weights.
#[derive(Debug, Default)]
pub(super) struct Beside {
    config: QuantConfig,
    problems: Vec<String>,
    directory: PathBuf,
    /// The name of a file that was opened by itself; empty where the whole set is there.
    alone: String,
    /// The index of the set that the file belongs to, read when it is first asked for.
    index: OnceLock<Result<Index>>,
}

impl Beside {
    /// Reads the configuration in `directory`. `alone` is the file's name where the rest of its set is not read.
    pub(super) fn read(directory: &Path, alone: Option<&str>, budget: &mut Budget) -> Result<Self> {
        let mut documents = Vec::new();
        let mut problems = Vec::new();
        for name in CONFIG_FILES {
            let Some(text) = read_bounded(&directory.join(name), MAX_CONFIG_BYTES, Some(&mut *budget))? else {
                continue;
            };
            match serde_json::from_slice(&text) {
                Ok(document) => documents.push((name, document)),
                Err(error) => problems.push(format!("{name} beside the weights is not valid JSON: {error}")),
            }
        }
        let config = QuantConfig::from_documents(documents);
        problems.extend(config.conflict());
        let (directory, alone) = (directory.to_path_buf(), alone.unwrap_or_default().to_owned());
        Ok(Self { config, problems, directory, alone, index: OnceLock::new() })
    }

    pub(super) fn config(&self) -> &QuantConfig {
        &self.config
    }

    /// A configuration that cannot be read or contradicts itself leaves in doubt what the tensors mean.
    pub(super) fn problems(&self) -> impl Iterator<Item = AnamnesisError> {
        self.problems.iter().map(AnamnesisError::parse)
    }

    /// Where a tensor may be that is not in this input, as a clause for a message.
    pub(super) fn elsewhere(&self, tensor: &str) -> Option<String> {
        if self.alone.is_empty() {
            return None;
        }
        let index = match self.index.get_or_init(|| self.index_of_set()) {
            Ok(index) => index,
            Err(error) => return Some(format!("the index beside it, which may place it, cannot be read: {error}")),
        };
        match index.weight_map.get(tensor) {
            Some(file) if *file != self.alone => {
                Some(format!("the index places it in {}, which is not part of this input", quoted(file)))
            }
            Some(_) => None,
            None if index.weight_map.is_empty() && Numbered::parse(&self.alone).is_some() => {
                Some("this file is one shard of a set whose other files were not read".to_owned())
            }
            None => None,
        }
    }

    /// The index of the set this file belongs to; empty where there is none.
    fn index_of_set(&self) -> Result<Index> {
        for name in [INDEX_FILE, TORCH_INDEX_FILE] {
            let Some(text) = read_bounded(&self.directory.join(name), MAX_INDEX_BYTES, None)? else { continue };
            let index = Index::parse(&text, name)?;
            if index.weight_map.values().any(|file| *file == self.alone) {
                return Ok(index);
            }
        }
        Ok(Index::default())
    }
}
