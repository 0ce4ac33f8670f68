//! Opening an input: which format it is, its catalog, and what the files beside it say.

mod beside;
mod format;

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use crate::catalog::Catalog;
use crate::container::Container;
use crate::container::safetensors::Safetensors;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{BytesSource, FileSource, ReaderSource, Source};
use crate::limits::{Budget, ParseLimits};
use crate::scheme::{self, Claimed};

use beside::Beside;
pub use format::{Format, detect_format, detect_format_from_bytes};

/// A model's tensors, wherever they are stored: the input of every operation.
///
/// Opening reads headers and the configuration beside them, never tensor data.
///
/// ```no_run
/// use anamnesis::{Checkpoint, ParseLimits, RememberOptions, TargetDtype};
/// let checkpoint = Checkpoint::open("model.safetensors", &ParseLimits::default())?;
/// println!("{}", checkpoint.inspect(&Default::default()));
/// let plan = checkpoint.plan(TargetDtype::BF16)?;
/// plan.write("model-bf16.safetensors", &RememberOptions::new(), |_| {})?;
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
pub struct Checkpoint {
    pub(crate) sources: Vec<Box<dyn Source>>,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) catalog: Catalog,
    pub(crate) limits: ParseLimits,
    beside: Beside,
}

impl Checkpoint {
    /// Opens a file, with the configuration that stands beside it.
    ///
    /// # Errors
    /// `Io` where the file cannot be read, `Parse` where it is malformed, `Unsupported` where its format is not read,
    /// `LimitExceeded` where it asks for more than `limits` allow.
    pub fn open(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<Self> {
        let path = path.as_ref();
        let source = FileSource::open(path)?;
        require_safetensors(format::detect(Some(path), &source)?)?;
        let in_file = |error| match error {
            AnamnesisError::Parse { reason } => {
                AnamnesisError::parse(format!("{}: {reason}", quoted(&path.to_string_lossy())))
            }
            AnamnesisError::LimitExceeded { limit, message } => {
                AnamnesisError::limit(limit, format!("{}: {message}", quoted(&path.to_string_lossy())))
            }
            other => other,
        };
        let mut budget = Budget::new(limits);
        let mut checkpoint = Self::read(Box::new(source), limits, &mut budget).map_err(in_file)?;
        checkpoint.beside = Beside::read(path, &mut budget)?;
        checkpoint.paths = vec![path.to_path_buf()];
        Ok(checkpoint)
    }

    /// Takes the bytes of one file. There is nothing beside them, so configuration is not known.
    ///
    /// # Errors
    /// As [`open`](Self::open); the whole input counts as one buffer.
    pub fn from_bytes(bytes: Vec<u8>, limits: &ParseLimits) -> Result<Self> {
        let mut budget = Budget::new(limits);
        budget.buffer(bytes.len() as u64, "the input")?;
        require_safetensors(detect_format_from_bytes(&bytes))?;
        Self::read(Box::new(BytesSource(bytes)), limits, &mut budget)
    }

    /// Takes any reader that can seek. Only what is needed is read, when it is needed; workers take turns.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_reader<R: Read + Seek + Send + 'static>(reader: R, limits: &ParseLimits) -> Result<Self> {
        let source = ReaderSource::new(reader)?;
        require_safetensors(format::detect(None, &source)?)?;
        Self::read(Box::new(source), limits, &mut Budget::new(limits))
    }

    fn read(source: Box<dyn Source>, limits: &ParseLimits, budget: &mut Budget) -> Result<Self> {
        let catalog = Safetensors.catalog(&*source, 0, budget)?;
        Ok(Self {
            sources: vec![source],
            paths: Vec::new(),
            catalog,
            limits: limits.clone(),
            beside: Beside::default(),
        })
    }

    /// Lets the schemes claim the catalog.
    pub(crate) fn claim(&self) -> Claimed {
        let mut claimed = scheme::claim(&self.catalog, self.beside.config(), &|name| self.beside.elsewhere(name));
        claimed.problems.splice(0..0, self.beside.problem());
        claimed
    }

    /// How many tensors are stored.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.catalog.len()
    }

    /// The stored bytes of a tensor, borrowed from memory or from a memory map of the file. `None` where there is no such
    /// tensor.
    ///
    /// # Errors
    /// `Io` where the file cannot be mapped.
    pub fn tensor_data(&self, name: &str) -> Result<Option<std::borrow::Cow<'_, [u8]>>> {
        let Some(id) = self.catalog.find(name) else { return Ok(None) };
        let extent = self.catalog.get(id).extent;
        let source = &self.sources[extent.file as usize];
        source.view(extent.offset..extent.offset + extent.bytes).map(Some)
    }
}

fn require_safetensors(format: Format) -> Result<()> {
    match format {
        Format::Safetensors => Ok(()),
        other => Err(AnamnesisError::unsupported(other.name(), "files of this format are recognised but not read yet")),
    }
}
