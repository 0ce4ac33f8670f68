//! Sidecars of a checkpoint: the model's configuration, and the index of the set that a single file belongs to.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::files::{MAX_CONFIG_BYTES, MAX_INDEX_BYTES, read_bounded, read_existing};
use super::index::Index;
use super::names::{INDEX_FILE, Numbered, TORCH_INDEX_FILE};
use crate::catalog::Catalog;
use crate::container::{Configuration, OpenOptions};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::announce;
use crate::limits::Budget;
use crate::quant_config::{DOCUMENTS, GptqFormat, MODULE_TABLE, Markers, QuantConfig};

/// Longest configuration that is kept to describe the model: many times that of the largest models.
const MAX_MODEL_CONFIG_BYTES: usize = 1 << 20;

/// The sidecars that give the tensors of a checkpoint their meaning.
#[derive(Debug, Default)]
pub(super) struct Sidecars {
    config: QuantConfig,
    /// The text of the model's configuration, if it is not longer than [`MAX_MODEL_CONFIG_BYTES`].
    model: Option<Vec<u8>>,
    /// I/O errors of configuration files that exist but cannot be read.
    unreadable: Vec<AnamnesisError>,
    directory: PathBuf,
    /// The name of a file that was opened by itself; empty if the whole set was opened.
    alone: String,
    /// The index of the set that the file belongs to, read on first use.
    index: OnceLock<Result<Index>>,
}

impl Sidecars {
    /// Reads the configuration: the caller's, or the files in `directory`. `alone` is the name of the file if the rest
    /// of its set is not read.
    pub(super) fn read(
        directory: &Path,
        alone: Option<&str>,
        catalog: &Catalog,
        options: &OpenOptions,
        budget: &mut Budget,
    ) -> Result<Self> {
        let mut sidecars = match options.config {
            Some(_) => Self::from_options(catalog, options, budget)?,
            None => Self::in_directory(directory, options, budget)?.within_matching_limit(catalog),
        };
        sidecars.directory = directory.to_path_buf();
        sidecars.alone = alone.unwrap_or_default().to_owned();
        Ok(sidecars)
    }

    /// Reads the caller's configuration only; no files are looked up.
    pub(super) fn from_options(catalog: &Catalog, options: &OpenOptions, budget: &mut Budget) -> Result<Self> {
        let (config, model) = match &options.config {
            None => (QuantConfig::default(), None),
            Some(Configuration::Text(text)) => {
                budget.buffer(text.len() as u64, "the configuration")?;
                (QuantConfig::read_given("the configuration", text.as_bytes()), Some(text.clone().into_bytes()))
            }
            Some(Configuration::File(path)) => {
                let text = read_existing(path, MAX_CONFIG_BYTES, Some(budget))?;
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                (QuantConfig::read_given(&name, &text), Some(text))
            }
        };
        let model = model.filter(|text| text.len() <= MAX_MODEL_CONFIG_BYTES);
        let given = Self { config: config.with_gptq_format(options.gptq_format), model, ..Self::default() };
        Ok(given.within_matching_limit(catalog))
    }

    /// Drops a configuration whose patterns would take too long to match against the names of these tensors.
    fn within_matching_limit(mut self, catalog: &Catalog) -> Self {
        self.config = self.config.within_matching_limit(catalog.iter().map(|(_, tensor)| tensor.name.as_str()));
        self
    }

    fn in_directory(directory: &Path, options: &OpenOptions, budget: &mut Budget) -> Result<Self> {
        let mut documents = Vec::new();
        let mut unreadable = Vec::new();
        let names = DOCUMENTS.into_iter().chain([MODULE_TABLE]);
        announce(directory, &names.clone().map(str::to_owned).collect::<Vec<_>>());
        for name in names {
            match read_bounded(&directory.join(name), MAX_CONFIG_BYTES, Some(&mut *budget)) {
                Ok(text) => documents.extend(text.map(|text| (name, text))),
                Err(error @ AnamnesisError::Io(_)) => unreadable.push(error),
                Err(error) => return Err(error),
            }
        }
        let table = documents.pop_if(|(name, _)| *name == MODULE_TABLE);
        let texts = documents.iter().map(|(name, text)| (*name, text.as_slice()));
        let config = QuantConfig::read(texts).with_gptq_format(options.gptq_format);
        let config = match table {
            Some((_, text)) => config.with_module_table(&text),
            None => config,
        };
        let is_model = |(name, text): &(&str, Vec<u8>)| *name == DOCUMENTS[0] && text.len() <= MAX_MODEL_CONFIG_BYTES;
        let model = documents.into_iter().find(is_model).map(|(_, text)| text);
        Ok(Self { config, model, unreadable, ..Self::default() })
    }

    /// Adds the quantisation markers found in the weight files.
    pub(super) fn with_markers(mut self, markers: Markers, catalog: &Catalog) -> Self {
        let is_stored = |module: &str| catalog.with_prefix(&format!("{module}.")).next().is_some();
        self.config = self.config.with_markers(markers, &|module| module.is_empty() || is_stored(module));
        self
    }

    /// Overrides the format of GPTQ zero points.
    pub(super) fn set_gptq_format(&mut self, format: GptqFormat) {
        self.config = std::mem::take(&mut self.config).with_gptq_format(Some(format));
    }

    /// The text of the model's configuration.
    pub(super) fn model(&self) -> Option<&[u8]> {
        self.model.as_deref()
    }

    pub(super) fn config(&self) -> &QuantConfig {
        &self.config
    }

    /// Errors of configurations that cannot be read or contradict themselves, so that the meaning of the
    /// tensors is uncertain.
    pub(super) fn problems(&self) -> impl Iterator<Item = AnamnesisError> {
        self.unreadable.iter().chain(self.config.problems()).map(AnamnesisError::duplicate)
    }

    /// Where a tensor that is missing from this input may be found, as a clause of an error message.
    pub(super) fn location_hint(&self, tensor: &str) -> Option<String> {
        if self.alone.is_empty() {
            return None;
        }
        let index = match self.index.get_or_init(|| self.index_of_set()) {
            Ok(index) => index,
            Err(error) => return Some(format!("the index of its set, which may list it, cannot be read: {error}")),
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

    /// The index that lists this file; empty if there is none.
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
