//! Models of any format and quantisation for candle.
//!
//! A [`CheckpointBackend`] gives a `VarBuilder` the tensors of a [`Checkpoint`]: decoded when they are asked for, to the
//! type and device asked for. A [`ShardedBackend`] decodes the share of one rank, [`CheckpointBackend::quantized`] keeps
//! the blocks of GGUF files.
//!
//! ```no_run
//! use anamnesis_candle::CheckpointBackend;
//! use candle_core::{DType, Device};
//!
//! let backend = CheckpointBackend::open("Llama-3.1-8B-GPTQ")?;
//! let weights = backend.var_builder(DType::BF16, &Device::Cpu);
//! # Ok::<(), anamnesis::AnamnesisError>(())
//! ```

mod quantized;
mod sharded;
mod tensors;

pub use quantized::{Blocks, Quantized};
pub use sharded::ShardedBackend;
pub use tensors::Tensors;

use std::path::Path;
use std::sync::Arc;

use anamnesis::{Checkpoint, Format, ParseLimits};
use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::Init;
use candle_nn::var_builder::{SimpleBackend, VarBuilder};

/// The tensors of a checkpoint as the backend of a `VarBuilder`.
#[derive(Clone)]
pub struct CheckpointBackend {
    tensors: Arc<Tensors>,
}

impl CheckpointBackend {
    /// Opens a file, a directory, or a model in a local store. A GGUF file of a known architecture gets the names of
    /// Hugging Face, which the models of candle ask for.
    ///
    /// # Errors
    /// As [`Checkpoint::open`] and [`Checkpoint::as_hugging_face`].
    pub fn open(path: impl AsRef<Path>) -> anamnesis::Result<Self> {
        let checkpoint = Checkpoint::open(path, &ParseLimits::default())?;
        match checkpoint.format() {
            Format::Gguf => Self::hugging_face(checkpoint),
            _ => Ok(Self::new(checkpoint)),
        }
    }

    /// The tensors under their own names.
    #[must_use]
    pub fn new(checkpoint: Checkpoint) -> Self {
        Self { tensors: Arc::new(Tensors::own_names(checkpoint)) }
    }

    /// The tensors of a GGUF file under the names of Hugging Face.
    ///
    /// # Errors
    /// As [`Checkpoint::as_hugging_face`].
    pub fn hugging_face(checkpoint: Checkpoint) -> anamnesis::Result<Self> {
        Ok(Self { tensors: Arc::new(Tensors::hugging_face(checkpoint)?) })
    }

    /// The tensors it decodes.
    #[must_use]
    pub fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// A `VarBuilder` of this type and device.
    #[must_use]
    pub fn var_builder(self, dtype: DType, device: &Device) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(self), dtype, device.clone())
    }

    /// The same tensors in shares of ranks.
    #[must_use]
    pub fn sharded(&self) -> ShardedBackend {
        ShardedBackend::new(Arc::clone(&self.tensors))
    }

    /// A weight of a GGUF file by its own name, as blocks.
    ///
    /// # Errors
    /// If the tensor does not exist or cannot be read.
    pub fn quantized(&self, name: &str, device: &Device) -> Result<Quantized> {
        quantized::load(self.tensors.checkpoint(), name, device)
    }
}

impl SimpleBackend for CheckpointBackend {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        self.tensors.check_shape(name, &shape)?;
        self.get_unchecked(name, dtype, device)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        self.tensors.get(name, dtype, device)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.tensors.shape(name).is_some()
    }
}
