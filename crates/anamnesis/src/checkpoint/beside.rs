//! The files beside a file: the model's configuration and the index of its shards.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::catalog::config::QuantConfig;
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// Longest configuration read, in bytes.
const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Longest index read, in bytes.
const MAX_INDEX_BYTES: u64 = 256 << 20;

/// Where models describe their quantisation; the first that does is believed.
const CONFIG_FILES: [&str; 3] = ["config.json", "hf_quant_config.json", "quantize_config.json"];
const INDEX_FILE: &str = "model.safetensors.index.json";

/// What stands beside a file.
#[derive(Debug, Default)]
pub(super) struct Beside {
    config: QuantConfig,
    broken_config: Option<String>,
    directory: PathBuf,
    file_name: String,
    /// Tensor name to file name; read when it is first asked for.
    index: OnceLock<HashMap<String, String>>,
}

impl Beside {
    pub(super) fn read(path: &Path, budget: &mut Budget) -> Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut beside = Self { directory, file_name, ..Self::default() };
        for name in CONFIG_FILES {
            let Some(text) = read_bounded(&beside.directory.join(name), MAX_CONFIG_BYTES, Some(&mut *budget))? else {
                continue;
            };
            match serde_json::from_slice(&text) {
                Ok(document) => beside.config = QuantConfig::from_document(name, document),
                Err(error) => beside.broken_config = Some(format!("{name} beside the file is not valid JSON: {error}")),
            }
            if beside.config.is_present() {
                break;
            }
        }
        Ok(beside)
    }

    pub(super) fn config(&self) -> &QuantConfig {
        &self.config
    }

    /// A configuration that cannot be read leaves in doubt what the tensors mean.
    pub(super) fn problem(&self) -> Option<AnamnesisError> {
        self.broken_config.as_ref().map(AnamnesisError::parse)
    }

    /// Where a tensor may be that is not in this file, as a clause for a message.
    pub(super) fn elsewhere(&self, tensor: &str) -> Option<String> {
        let index = self.index.get_or_init(|| self.read_index());
        match index.get(tensor) {
            Some(file) if *file != self.file_name => {
                Some(format!("the index places it in {}, which is not part of this input", quoted(file)))
            }
            Some(_) => None,
            None if index.is_empty() && is_numbered_shard(&self.file_name) => {
                Some("this file is one shard of a set whose other files were not read".to_owned())
            }
            None => None,
        }
    }

    /// The index of the set this file belongs to; empty where there is none or it cannot be read.
    fn read_index(&self) -> HashMap<String, String> {
        #[derive(serde::Deserialize)]
        struct Index {
            weight_map: HashMap<String, String>,
        }
        if self.file_name.is_empty() {
            return HashMap::new();
        }
        let text = read_bounded(&self.directory.join(INDEX_FILE), MAX_INDEX_BYTES, None).ok().flatten();
        let index = text.and_then(|text| serde_json::from_slice::<Index>(&text).ok());
        index
            .map(|index| index.weight_map)
            .filter(|map| map.values().any(|file| *file == self.file_name))
            .unwrap_or_default()
    }
}

/// The content of a file, `None` where there is none; one that is too long is refused.
fn read_bounded(path: &Path, max_bytes: u64, budget: Option<&mut Budget>) -> Result<Option<Vec<u8>>> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(None) };
    if !metadata.is_file() {
        return Ok(None);
    }
    let what = path.file_name().unwrap_or_default().to_string_lossy();
    if metadata.len() > max_bytes {
        let message = format!("{what} beside the file takes {} bytes, {max_bytes} are allowed", metadata.len());
        return Err(AnamnesisError::limit("MAX_CONFIG_BYTES", message));
    }
    if let Some(budget) = budget {
        budget.buffer(metadata.len(), &what)?;
    }
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| AnamnesisError::at_path(error, path))?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, max_bytes), &mut text)
        .map_err(|error| AnamnesisError::at_path(error, path))?;
    Ok(Some(text))
}

/// Whether a name ends in `-00001-of-00003` and the set has more than one file.
fn is_numbered_shard(file_name: &str) -> bool {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    let mut parts = stem.rsplit('-');
    let (count, of, number) = (parts.next(), parts.next(), parts.next());
    let digits = |text: Option<&str>| text.filter(|text| text.len() == 5)?.parse::<u32>().ok();
    of == Some("of") && digits(number).is_some() && digits(count).is_some_and(|count| count > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_shards_are_told_by_their_names() {
        assert!(is_numbered_shard("model-00002-of-00004.safetensors"));
        for name in ["model-00001-of-00001.safetensors", "model.safetensors", "a-of-b", "-of-", "x-1-of-2.safetensors"]
        {
            assert!(!is_numbered_shard(name), "{name}");
        }
    }
}
