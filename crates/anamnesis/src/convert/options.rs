//! Options of a conversion.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use super::rules::Rules;
use super::split::Split;
use super::target::ConvertTarget;
use crate::cancel::CancelToken;
use crate::catalog::{Dtype, MetadataValue, NamePatterns, Selection, TargetDtype};
use crate::container::Container;
use crate::cpu::CpuLevel;
use crate::error::{AnamnesisError, Request, Result};
use crate::io::Existing;
use crate::limits::ParseLimits;
use crate::pipeline::RememberOptions;
use crate::scheme::{BnbOptions, QuantiseOptions};

/// The options of a conversion. By default quantised weights are decoded to BF16 and everything else is kept.
///
/// ```
/// use anamnesis::{ConvertOptions, Dtype};
/// let options = ConvertOptions::new().with_threads(2).with_output_dtype(Dtype::F32);
/// assert_eq!(options.output_dtype, Some(Dtype::F32));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Limits for parsing the input.
    pub limits: ParseLimits,
    /// Options of the run: threads, CPU level, cancellation. `ConvertOptions` dereferences to them.
    pub run: RememberOptions,
    /// Metadata for a GGUF file; takes precedence over that of the input.
    pub gguf_metadata: HashMap<String, MetadataValue>,
    /// Metadata keys of the input to leave out of a GGUF file.
    pub gguf_removed: Vec<String>,
    /// The type that quantised weights are decoded to: BF16, F32 or F16. `None` means BF16, and keeps blocks that the
    /// target can hold. If a checkpoint of a known architecture is converted to GGUF, it is the type of all its
    /// matrices, may also be Q8_0, and `None` means the type of the first matrix of BF16 or F16.
    pub output_dtype: Option<Dtype>,
    /// Whether a checkpoint converted to GGUF keeps its tensor names instead of getting those of llama.cpp.
    pub keep_names: bool,
    /// A model class of transformers whose names and keys a checkpoint converted to GGUF gets, whatever class its
    /// configuration names: for fine-tuned models with a class of their own. From GGUF, the class of the restored checkpoint.
    pub like: Option<String>,
    /// Whether a checkpoint converted to GGUF loses its layers for multi-token prediction.
    pub without_mtp: bool,
    /// Whether a checkpoint converted to GGUF becomes a draft model: its layers for multi-token prediction with the
    /// embedding, the last norm and the head.
    pub only_mtp: bool,
    /// Whether a GGUF file made from a checkpoint has the metadata and the vocabulary only, without tensors.
    pub vocab_only: bool,
    /// Whether matrices that a checkpoint stores as FP8 become Q8_0 in GGUF.
    pub fp8_as_q8: bool,
    /// Whether the dense modules of sentence-transformers become tensors of a GGUF file.
    pub dense_modules: bool,
    /// The directory of the model that a draft model (EAGLE 3, DFlash, DSpark) predicts for: its configuration and its vocabulary are read.
    pub target_model: Option<PathBuf>,
    /// Whether the input is described by Mistral's `params.json`, even if there is a `config.json`.
    pub mistral_format: bool,
    /// Whether a GGUF file is big-endian, for machines of that byte order.
    pub big_endian: bool,
    /// Whether the vision and audio towers of a multimodal model are written instead of its language model.
    pub projector: bool,
    /// The directory of the model that an adapter (LoRA) was trained for. Only its configuration is read.
    pub base: Option<PathBuf>,
    /// How a GGUF model is split into files.
    pub split: Split,
    /// Which tensors are cast to the output type.
    pub cast: Cast,
    /// Which tensors are written, and under which names.
    pub selection: Selection,
    /// How weights are quantised, if the target quantises.
    pub quantise: QuantiseOptions,
    /// Whether non-finite values are accepted instead of refused: NaN is quantised as zero, infinities as the largest
    /// value of their scale, and weights that decode to non-finite values are written.
    pub allow_nonfinite: bool,
    /// Whether quantisation errors are measured.
    pub measure: bool,
    pub(crate) quantised: NamePatterns,
    pub(crate) rules: Rules,
}

/// Which tensors are cast to the output type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cast {
    /// Quantised weights only; plain floats keep their type.
    #[default]
    Quantized,
    /// Plain floats as well.
    All,
}

impl Deref for ConvertOptions {
    type Target = RememberOptions;

    fn deref(&self) -> &RememberOptions {
        &self.run
    }
}

impl DerefMut for ConvertOptions {
    fn deref_mut(&mut self) -> &mut RememberOptions {
        &mut self.run
    }
}

impl ConvertOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: ParseLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets metadata for a GGUF file.
    #[must_use]
    pub fn with_gguf_metadata(mut self, metadata: HashMap<String, MetadataValue>) -> Self {
        self.gguf_metadata = metadata;
        self
    }

    /// Leaves a key of the input's metadata out of a GGUF file.
    #[must_use]
    pub fn with_gguf_removed(mut self, key: impl Into<String>) -> Self {
        self.gguf_removed.push(key.into());
        self
    }

    /// Sets the number of worker threads, at least one.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.run = self.run.with_threads(threads);
        self
    }

    /// Sets the CPU level.
    #[must_use]
    pub fn with_cpu_level(mut self, cpu: CpuLevel) -> Self {
        self.run = self.run.with_cpu_level(cpu);
        self
    }

    /// Sets the type that quantised weights are decoded to; types other than BF16, F32 and F16 are refused
    /// when converting.
    #[must_use]
    pub const fn with_output_dtype(mut self, dtype: Dtype) -> Self {
        self.output_dtype = Some(dtype);
        self
    }

    /// Sets the token that cancels the conversion.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancelToken) -> Self {
        self.run = self.run.with_cancel(cancel);
        self
    }

    /// Sets whether a checkpoint converted to GGUF keeps its tensor names; otherwise a known architecture changes them.
    #[must_use]
    pub const fn with_keep_names(mut self, keep: bool) -> Self {
        self.keep_names = keep;
        self
    }

    /// Sets the model class that a checkpoint converted to GGUF, or restored from it, is taken for.
    #[must_use]
    pub fn with_like(mut self, class: impl Into<String>) -> Self {
        self.like = Some(class.into());
        self
    }

    /// Sets whether a checkpoint converted to GGUF loses its layers for multi-token prediction.
    #[must_use]
    pub const fn with_without_mtp(mut self, without: bool) -> Self {
        self.without_mtp = without;
        self
    }

    /// Sets whether a checkpoint converted to GGUF becomes a draft model of its layers for multi-token prediction.
    #[must_use]
    pub const fn with_only_mtp(mut self, only: bool) -> Self {
        self.only_mtp = only;
        self
    }

    /// Sets whether a GGUF file made from a checkpoint has no tensors.
    #[must_use]
    pub const fn with_vocab_only(mut self, only: bool) -> Self {
        self.vocab_only = only;
        self
    }

    /// Sets whether matrices that a checkpoint stores as FP8 become Q8_0 in GGUF.
    #[must_use]
    pub const fn with_fp8_as_q8(mut self, as_q8: bool) -> Self {
        self.fp8_as_q8 = as_q8;
        self
    }

    /// Sets whether the dense modules of sentence-transformers become tensors of a GGUF file.
    #[must_use]
    pub const fn with_dense_modules(mut self, written: bool) -> Self {
        self.dense_modules = written;
        self
    }

    /// Sets the directory of the model that a draft model predicts for.
    #[must_use]
    pub fn with_target_model(mut self, directory: impl Into<PathBuf>) -> Self {
        self.target_model = Some(directory.into());
        self
    }

    /// Sets whether the input is in Mistral's own format.
    #[must_use]
    pub const fn with_mistral_format(mut self, is_mistral: bool) -> Self {
        self.mistral_format = is_mistral;
        self
    }

    /// Sets whether a GGUF file is big-endian.
    #[must_use]
    pub const fn with_big_endian(mut self, big: bool) -> Self {
        self.big_endian = big;
        self
    }

    /// Sets whether the towers of a multimodal model are written instead of its language model.
    #[must_use]
    pub const fn with_projector(mut self, projector: bool) -> Self {
        self.projector = projector;
        self
    }

    /// Sets the directory of the model that an adapter was trained for.
    #[must_use]
    pub fn with_base(mut self, directory: impl Into<PathBuf>) -> Self {
        self.base = Some(directory.into());
        self
    }

    /// Sets what happens if the output file exists.
    #[must_use]
    pub fn with_existing(mut self, existing: Existing) -> Self {
        self.run = self.run.with_existing(existing);
        self
    }

    /// Sets how a GGUF model is split into files.
    #[must_use]
    pub const fn with_split(mut self, split: Split) -> Self {
        self.split = split;
        self
    }

    /// Sets which tensors are cast to the output type.
    #[must_use]
    pub const fn with_cast(mut self, cast: Cast) -> Self {
        self.cast = cast;
        self
    }

    /// Sets which tensors are written, and under which names.
    #[must_use]
    pub fn with_selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Sets the options of BitsAndBytes quantisation.
    #[must_use]
    pub fn with_bnb(mut self, bnb: BnbOptions) -> Self {
        self.quantise.bnb = bnb;
        self
    }

    /// Sets the block size of BitsAndBytes: the number of values per scale.
    #[must_use]
    pub fn with_block_size(mut self, values: usize) -> Self {
        self.quantise.bnb = self.quantise.bnb.with_block_size(values);
        self
    }

    /// Sets whether the scales of BitsAndBytes are quantised too.
    #[must_use]
    pub fn with_double_quant(mut self, double_quant: bool) -> Self {
        self.quantise.bnb = self.quantise.bnb.with_double_quant(double_quant);
        self
    }

    /// Sets whether non-finite values are accepted: NaN quantised as zero, infinities as the largest value of their
    /// scale, and weights written that decode to non-finite values.
    #[must_use]
    pub const fn with_allow_nonfinite(mut self, allow: bool) -> Self {
        self.allow_nonfinite = allow;
        self
    }

    /// Sets whether quantisation errors are measured.
    #[must_use]
    pub const fn with_measure(mut self, measure: bool) -> Self {
        self.measure = measure;
        self
    }

    /// Adds a pattern of weights to quantise; weights that match none of them are kept.
    ///
    /// # Errors
    /// `Request` if it is not a valid pattern.
    pub fn with_quantized(mut self, pattern: &str) -> Result<Self> {
        self.quantised.include(pattern)?;
        Ok(self)
    }

    /// Adds a pattern of weights to keep unquantised.
    ///
    /// # Errors
    /// `Request` if it is not a valid pattern.
    pub fn with_kept(mut self, pattern: &str) -> Result<Self> {
        self.quantised.exclude(pattern)?;
        Ok(self)
    }

    /// Adds a rule for the weights whose input or output name matches the pattern: quantise them to the encoding named
    /// by `spec`, which the target must be able to mix with its own, or keep them unquantised (`keep`). The first
    /// matching rule applies.
    ///
    /// ```
    /// use anamnesis::ConvertOptions;
    /// let options = ConvertOptions::new().with_rule("*.down_proj.weight", "w8a16")?;
    /// let options = options.with_rule("lm_head.weight", "keep")?;
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Request` if the pattern is not valid or `spec` is not an encoding.
    pub fn with_rule(mut self, pattern: &str, spec: &str) -> Result<Self> {
        self.rules.add(pattern, spec)?;
        Ok(self)
    }

    /// The container of a target, in the requested byte order.
    pub(crate) fn container(&self, target: ConvertTarget) -> Result<&'static dyn Container> {
        let container = target.container()?;
        match self.big_endian {
            false => Ok(container),
            true => container.big_endian().ok_or_else(|| {
                let (what, why) = ("a big-endian file", "only GGUF has a byte order");
                Request::Contradiction { what: what.to_owned(), why: why.to_owned() }.into()
            }),
        }
    }

    /// The output type, if one is set.
    pub(crate) fn target_dtype(&self) -> Result<Option<TargetDtype>> {
        match self.output_dtype {
            None => Ok(None),
            Some(Dtype::BF16) => Ok(Some(TargetDtype::BF16)),
            Some(Dtype::F16) => Ok(Some(TargetDtype::F16)),
            Some(Dtype::F32) => Ok(Some(TargetDtype::F32)),
            Some(other) => {
                let why = "weights are decoded to BF16, F16 or F32";
                Err(AnamnesisError::unsupported(other.to_string(), why))
            }
        }
    }
}
