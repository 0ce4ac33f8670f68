//! Models of any format and quantisation for burn.
//!
//! A [`CheckpointStore`] is a module store of burn-store over a [`Checkpoint`]: its tensors are lazy, and each is decoded
//! when its parameter is loaded.
//!
//! ```no_run
//! use anamnesis_burn::CheckpointStore;
//! use burn_store::ModuleStore;
//!
//! let mut store = CheckpointStore::open("Llama-3.1-8B-GPTQ")?;
//! println!("{:?}", store.keys()?);
//! // model.load_from(&mut store)?;
//! # Ok::<(), anamnesis_burn::StoreError>(())
//! ```

mod adapter;
mod lazy;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anamnesis::{AnamnesisError, Checkpoint, Format, ParseLimits, TargetDtype};
use burn_pack::Tensor;
use burn_store::{ApplyResult, ModuleAdapter, ModuleSnapshot, ModuleStore, PathFilter};

use adapter::Transposing;
use lazy::Tensors;

/// The tensors of a checkpoint as a module store, which is read and not written.
pub struct CheckpointStore {
    tensors: BTreeMap<String, Tensor>,
    config: Option<String>,
    adapter: Option<Box<dyn ModuleAdapter>>,
    filter: Option<PathFilter>,
    allow_partial: bool,
}

impl CheckpointStore {
    /// Opens a file, a directory, or a model in a local store, and decodes weights to F32. A GGUF file of a known
    /// architecture gets the names of Hugging Face.
    ///
    /// # Errors
    /// As [`Checkpoint::open`] and [`Checkpoint::as_hugging_face`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let checkpoint = Checkpoint::open(path, &ParseLimits::default())?;
        let mapped = checkpoint.format() == Format::Gguf;
        Self::new(checkpoint, TargetDtype::F32, mapped)
    }

    /// The tensors of a checkpoint as `dtype`, under the names of Hugging Face if it is a GGUF file that is to be `mapped`.
    ///
    /// # Errors
    /// As [`Checkpoint::as_hugging_face`], if it is mapped.
    pub fn new(checkpoint: Checkpoint, dtype: TargetDtype, mapped: bool) -> Result<Self, StoreError> {
        let source = Arc::new(Tensors::new(checkpoint, mapped)?);
        Ok(Self {
            config: source.config().map(str::to_owned),
            tensors: lazy::tensors(&source, dtype),
            adapter: Some(Box::new(Transposing { source, dtype })),
            filter: None,
            allow_partial: false,
        })
    }

    /// The `config.json` that a GGUF file stands for, if it is mapped.
    #[must_use]
    pub fn config(&self) -> Option<&str> {
        self.config.as_deref()
    }

    /// Sets the adapter; by default linear layers and norms are those of PyTorch.
    #[must_use]
    pub fn with_adapter(mut self, adapter: impl ModuleAdapter + 'static) -> Self {
        self.adapter = Some(Box::new(adapter));
        self
    }

    /// Loads only parameters whose paths match.
    #[must_use]
    pub fn with_filter(mut self, filter: PathFilter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Sets whether parameters may be missing.
    #[must_use]
    pub const fn allow_partial(mut self, allow: bool) -> Self {
        self.allow_partial = allow;
        self
    }
}

impl ModuleStore for CheckpointStore {
    type Error = StoreError;

    /// Refused: a checkpoint is read only.
    fn collect_from<M: ModuleSnapshot>(&mut self, _: &M) -> Result<(), StoreError> {
        Err(StoreError::ReadOnly)
    }

    fn apply_to<M: ModuleSnapshot>(&mut self, module: &mut M) -> Result<ApplyResult, StoreError> {
        let tensors = self.tensors.values().cloned().collect();
        let result = module.apply(tensors, self.filter.clone(), self.adapter.clone(), false);
        if !result.errors.is_empty() {
            return Err(StoreError::Apply(format!("{:?}", result.errors)));
        }
        if !self.allow_partial && !result.missing.is_empty() {
            return Err(StoreError::Apply(format!("missing: {:?}", result.missing)));
        }
        Ok(result)
    }

    fn get_tensor(&mut self, name: &str) -> Result<Option<&Tensor>, StoreError> {
        Ok(self.tensors.get(name))
    }

    fn get_all_tensors(&mut self) -> Result<&BTreeMap<String, Tensor>, StoreError> {
        Ok(&self.tensors)
    }

    fn keys(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(self.tensors.keys().cloned().collect())
    }
}

/// A failure of a store.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The checkpoint cannot be read or decoded.
    Checkpoint(AnamnesisError),
    /// Parameters are missing or do not fit.
    Apply(String),
    /// A checkpoint is read, not written.
    ReadOnly,
}

impl From<AnamnesisError> for StoreError {
    fn from(error: AnamnesisError) -> Self {
        Self::Checkpoint(error)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint(error) => error.fmt(f),
            Self::Apply(text) => write!(f, "the checkpoint does not fit the module: {text}"),
            Self::ReadOnly => f.write_str("a checkpoint is read, not written"),
        }
    }
}

impl std::error::Error for StoreError {}
