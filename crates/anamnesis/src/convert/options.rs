//! What is asked of a conversion.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use super::rules::Rules;
use super::split::Split;
use crate::cancel::CancelToken;
use crate::catalog::{Dtype, MetadataValue, NamePatterns, Selection, TargetDtype};
use crate::cpu::CpuLevel;
use crate::error::{AnamnesisError, Result};
use crate::io::output::Existing;
use crate::limits::ParseLimits;
use crate::pipeline::RememberOptions;
use crate::scheme::{BnbOptions, QuantiseOptions};

/// What is asked of a conversion, and how it runs. The defaults decode to BF16 and keep everything that needs no change.
///
/// ```
/// use anamnesis::{ConvertOptions, Dtype};
/// let options = ConvertOptions::new().with_threads(2).with_output_dtype(Dtype::F32);
/// assert_eq!(options.output_dtype, Some(Dtype::F32));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// What the input may cost.
    pub limits: ParseLimits,
    /// How it runs; its members are read and set as if they were members of these options.
    pub run: RememberOptions,
    /// Metadata for a GGUF file, over what the input has.
    pub gguf_metadata: HashMap<String, MetadataValue>,
    /// Keys of the input's metadata that a GGUF file shall not get.
    pub gguf_removed: Vec<String>,
    /// What quantised weights are decoded to: BF16, F32 or F16. `None` means BF16, and that blocks stay as they are where
    /// the target can hold them. Where a checkpoint of a known architecture becomes GGUF, it is the type of all its matrices,
    /// which may be Q8_0 too, and `None` means the type of the first that has BF16 or F16.
    pub output_dtype: Option<Dtype>,
    /// Whether tensors keep their names on the way from a checkpoint to GGUF, although llama.cpp knows them by others.
    pub keep_names: bool,
    /// How a GGUF model is cut into files.
    pub split: Split,
    /// Which tensors are converted beyond what the target needs.
    pub cast: Cast,
    /// Which tensors are written, and their names.
    pub selection: Selection,
    /// How weights are quantised, where the target quantises.
    pub quantise: QuantiseOptions,
    /// Whether NaN is quantised as zero and infinities as the largest value under their scale, and weights are written that do
    /// not decode to finite numbers, instead of being refused.
    pub allow_nonfinite: bool,
    /// Whether the error that quantising makes is measured.
    pub measure: bool,
    pub(crate) quantised: NamePatterns,
    pub(crate) rules: Rules,
}

/// Which tensors are converted to the output type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cast {
    /// Quantised weights only; what is stored as plain floats keeps its type.
    #[default]
    Quantized,
    /// Plain floats too.
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

    /// Sets the CPU instructions to use.
    #[must_use]
    pub fn with_cpu_level(mut self, cpu: CpuLevel) -> Self {
        self.run = self.run.with_cpu_level(cpu);
        self
    }

    /// Sets what quantised weights are decoded to; other types than BF16, F32 and F16 are refused when converting.
    #[must_use]
    pub const fn with_output_dtype(mut self, dtype: Dtype) -> Self {
        self.output_dtype = Some(dtype);
        self
    }

    /// Lets `cancel` stop the conversion.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancelToken) -> Self {
        self.run = self.run.with_cancel(cancel);
        self
    }

    /// Keeps names on the way from a checkpoint to GGUF, or lets the architecture change them where it is known.
    #[must_use]
    pub const fn with_keep_names(mut self, keep: bool) -> Self {
        self.keep_names = keep;
        self
    }

    /// Decides about a file that is already there.
    #[must_use]
    pub fn with_existing(mut self, existing: Existing) -> Self {
        self.run = self.run.with_existing(existing);
        self
    }

    /// Cuts a GGUF model into files.
    #[must_use]
    pub const fn with_split(mut self, split: Split) -> Self {
        self.split = split;
        self
    }

    /// Decides which tensors get the output type.
    #[must_use]
    pub const fn with_cast(mut self, cast: Cast) -> Self {
        self.cast = cast;
        self
    }

    /// Chooses and renames tensors.
    #[must_use]
    pub fn with_selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Sets how weights become BitsAndBytes.
    #[must_use]
    pub fn with_bnb(mut self, bnb: BnbOptions) -> Self {
        self.quantise.bnb = bnb;
        self
    }

    /// Sets how many values share a scale of BitsAndBytes.
    #[must_use]
    pub fn with_block_size(mut self, values: usize) -> Self {
        self.quantise.bnb = self.quantise.bnb.with_block_size(values);
        self
    }

    /// Quantises scales of BitsAndBytes too, or not.
    #[must_use]
    pub fn with_double_quant(mut self, double_quant: bool) -> Self {
        self.quantise.bnb = self.quantise.bnb.with_double_quant(double_quant);
        self
    }

    /// Quantises NaN as zero and infinities as the largest value under their scale, and writes what does not decode to finite
    /// numbers; or refuses all that.
    #[must_use]
    pub const fn with_allow_nonfinite(mut self, allow: bool) -> Self {
        self.allow_nonfinite = allow;
        self
    }

    /// Measures the error that quantising makes, or not.
    #[must_use]
    pub const fn with_measure(mut self, measure: bool) -> Self {
        self.measure = measure;
        self
    }

    /// Quantises the weights that fit this pattern or another one given so, and no others.
    ///
    /// # Errors
    /// `Request` where it is no pattern.
    pub fn with_quantized(mut self, pattern: &str) -> Result<Self> {
        self.quantised.include(pattern)?;
        Ok(self)
    }

    /// Keeps the weights that fit this pattern unquantised.
    ///
    /// # Errors
    /// `Request` where it is no pattern.
    pub fn with_kept(mut self, pattern: &str) -> Result<Self> {
        self.quantised.exclude(pattern)?;
        Ok(self)
    }

    /// Quantises the weights that fit this pattern, by their names in the input or in the output, otherwise than the others:
    /// to the encoding of this name, which the target's configuration must be able to tell of beside its own, or not at all
    /// (`keep`). Of several rules the first that fits counts.
    ///
    /// ```
    /// use anamnesis::ConvertOptions;
    /// let options = ConvertOptions::new().with_rule("*.down_proj.weight", "w8a16")?.with_rule("lm_head.weight", "keep")?;
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Request` where it is no pattern, or where nothing is quantised by that name.
    pub fn with_rule(mut self, pattern: &str, spec: &str) -> Result<Self> {
        self.rules.add(pattern, spec)?;
        Ok(self)
    }

    /// The output type, where one is given.
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
