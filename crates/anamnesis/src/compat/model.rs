//! One safetensors file: its header, and the operations on it.

use std::io::Read;
use std::path::Path;

use crate::checkpoint::Checkpoint;
use crate::compat::parse::SafetensorsHeader;
use crate::container::{Format, OpenOptions, detect_format, detect_format_from_bytes_with_limits};
use crate::convert::{ConvertOptions, ConvertTarget};
use crate::error::{AnamnesisError, Result};
use crate::inspect::{InspectInfo, InspectOptions};
use crate::io::read_all;
use crate::limits::{Budget, ParseLimits};
pub use crate::pipeline::RememberOptions;
use crate::quant_config::GptqFormat;
use crate::scheme::QuantScheme;

pub use crate::catalog::TargetDtype;

/// Opens a safetensors file.
///
/// ```no_run
/// let model = anamnesis::parse("model-fp8.safetensors")?;
/// println!("{}", model.inspect());
/// model.remember("model-bf16.safetensors", anamnesis::TargetDtype::BF16)?;
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Io` if the file cannot be read, `Parse` if it is malformed, `Unsupported` if it has another format.
pub fn parse(path: impl AsRef<Path>) -> Result<ParsedModel> {
    parse_with_limits(path, &ParseLimits::default())
}

/// [`parse`] within limits.
///
/// # Errors
/// As [`parse`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_with_limits(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<ParsedModel> {
    parse_with_options(path, &OpenOptions::new().with_limits(limits.clone()))
}

/// [`parse`] with options: its configuration, the format of its GPTQ weights, limits.
///
/// ```no_run
/// use anamnesis::{GptqFormat, OpenOptions, parse_with_options};
/// let model = parse_with_options("model-gptq.safetensors", &OpenOptions::new().with_gptq_format(GptqFormat::V2))?;
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// As [`parse_with_limits`].
pub fn parse_with_options(path: impl AsRef<Path>, options: &OpenOptions) -> Result<ParsedModel> {
    check_format(detect_format(path.as_ref()).map_err(AnamnesisError::for_single_format)?)?;
    ParsedModel::new(Checkpoint::open_file_with(path, options).map_err(AnamnesisError::for_single_format)?)
}

/// Refuses other formats, which have entry points of their own; `Checkpoint::open` reads all of them.
fn check_format(format: Format) -> Result<()> {
    match format {
        Format::Safetensors => Ok(()),
        other => {
            let detail = format!("this is {}, not a safetensors file; Checkpoint::open reads it", other.about().file);
            Err(AnamnesisError::unsupported(other.name(), detail))
        }
    }
}

/// Parses a safetensors file in memory.
///
/// # Errors
/// `Parse` if they are malformed.
pub fn parse_bytes(bytes: Vec<u8>) -> Result<ParsedModel> {
    parse_bytes_with_limits(bytes, &ParseLimits::default())
}

/// [`parse_bytes`] within limits; the input as a whole counts as one buffer.
///
/// # Errors
/// As [`parse_bytes`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_bytes_with_limits(bytes: Vec<u8>, limits: &ParseLimits) -> Result<ParsedModel> {
    let format = detect_format_from_bytes_with_limits(&bytes, limits).map_err(AnamnesisError::for_single_format)?;
    check_format(format)?;
    ParsedModel::new(Checkpoint::from_bytes(bytes, limits).map_err(AnamnesisError::for_single_format)?)
}

/// Parses a safetensors file from a reader, which is read to its end.
///
/// # Errors
/// `Io` if reading fails, `Parse` if the bytes are malformed.
pub fn parse_from_reader<R: Read>(reader: R) -> Result<ParsedModel> {
    parse_from_reader_with_limits(reader, &ParseLimits::default())
}

/// [`parse_from_reader`] within limits; reading stops one byte after the limit.
///
/// # Errors
/// As [`parse_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_from_reader_with_limits<R: Read>(reader: R, limits: &ParseLimits) -> Result<ParsedModel> {
    let limit = limits.max_single_alloc_bytes().min(limits.max_total_bytes());
    let bytes = read_all(reader, &mut Budget::new(limits), limit)?;
    parse_bytes_with_limits(bytes, limits)
}

/// A parsed safetensors file.
pub struct ParsedModel {
    /// Its header, with the role of every tensor.
    pub header: SafetensorsHeader,
    checkpoint: Checkpoint,
}

impl ParsedModel {
    fn new(checkpoint: Checkpoint) -> Result<Self> {
        Ok(Self { header: SafetensorsHeader::of_checkpoint(&checkpoint)?, checkpoint })
    }

    /// Reads the GPTQ weights of this model in the given format, regardless of its configuration: the files do not
    /// determine the format with certainty.
    ///
    /// ```no_run
    /// use anamnesis::{GptqFormat, TargetDtype, parse};
    /// let model = parse("model-gptq.safetensors")?.with_gptq_format(GptqFormat::V2)?;
    /// model.remember("model-bf16.safetensors", TargetDtype::BF16)?;
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Parse` if the header cannot be described.
    pub fn with_gptq_format(self, format: GptqFormat) -> Result<Self> {
        Self::new(self.checkpoint.with_gptq_format(format))
    }

    /// The checkpoint of this model.
    #[must_use]
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Counts, sizes and schemes, for BF16 output.
    pub fn inspect(&self) -> InspectInfo {
        self.inspect_with_options(&InspectOptions::new())
    }

    /// Counts, sizes and schemes, for the output type of `options`.
    pub fn inspect_with_options(&self, options: &InspectOptions) -> InspectInfo {
        self.checkpoint.inspect(options)
    }

    /// Writes the model with all quantised weights decoded to `target`.
    ///
    /// # Errors
    /// `Parse` or `Unsupported` where a tensor cannot be decoded, `Io` if a file cannot be read or written. No output
    /// is left behind then.
    pub fn remember(&self, output: impl AsRef<Path>, target: TargetDtype) -> Result<()> {
        self.remember_with_options(output, target, RememberOptions::new())
    }

    /// [`remember`](Self::remember) with options.
    ///
    /// # Errors
    /// As [`remember`](Self::remember), and `Cancelled`.
    pub fn remember_with_options(
        &self,
        output: impl AsRef<Path>,
        target: TargetDtype,
        options: RememberOptions,
    ) -> Result<()> {
        self.remember_with_progress_and_options(output, target, options, || {})
    }

    /// [`remember`](Self::remember), calling `progress` once per decoded tensor.
    ///
    /// # Errors
    /// As [`remember`](Self::remember).
    pub fn remember_with_progress<F: FnMut()>(
        &self,
        output: impl AsRef<Path>,
        target: TargetDtype,
        progress: F,
    ) -> Result<()> {
        self.remember_with_progress_and_options(output, target, RememberOptions::new(), progress)
    }

    /// [`remember_with_progress`](Self::remember_with_progress) with options.
    ///
    /// # Errors
    /// As [`remember_with_options`](Self::remember_with_options).
    pub fn remember_with_progress_and_options<F: FnMut()>(
        &self,
        output: impl AsRef<Path>,
        target: TargetDtype,
        options: RememberOptions,
        mut progress: F,
    ) -> Result<()> {
        let mut reported = 0;
        self.checkpoint.plan(target)?.write(output, &options, |now| {
            while reported < now.decoded {
                reported += 1;
                progress();
            }
        })
    }

    /// Writes the model with its matrices quantised to a scheme: FP8 in blocks of 128×128, BitsAndBytes NF4 or INT8, GPTQ,
    /// AWQ, or NVFP4. [`Checkpoint::plan_convert`] has more targets, and options.
    ///
    /// ```no_run
    /// use anamnesis::lethe::QuantScheme;
    /// let model = anamnesis::parse("model-bf16.safetensors")?;
    /// model.forget("model-fp8.safetensors", QuantScheme::FineGrainedFp8)?;
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` if no encoder has the scheme; otherwise as [`remember`](Self::remember).
    pub fn forget(&self, output: impl AsRef<Path>, scheme: QuantScheme) -> Result<()> {
        let target = match scheme {
            QuantScheme::FineGrainedFp8 => "fp8",
            QuantScheme::Gptq => "gptq-4bit",
            QuantScheme::Awq => "awq-4bit",
            QuantScheme::Bnb4 => "bnb-nf4",
            QuantScheme::BnbInt8 => "bnb-int8",
            QuantScheme::Nvfp4 => "modelopt-nvfp4",
            other => {
                let detail = "nothing is quantised to it by this name; Checkpoint::plan_convert has all targets";
                return Err(AnamnesisError::unsupported(other.to_string(), detail));
            }
        };
        let plan = self.checkpoint.plan_convert(ConvertTarget::parse(target)?, &ConvertOptions::new())?;
        plan.write(output, |_| {}).map(drop)
    }

    /// The bytes that [`remember`](Self::remember) would write.
    ///
    /// # Errors
    /// As [`remember`](Self::remember), and `LimitExceeded` if the output exceeds the limits given at parsing.
    pub fn remember_to_bytes(&self, target: TargetDtype) -> Result<Vec<u8>> {
        self.remember_to_bytes_with_options(target, RememberOptions::new())
    }

    /// [`remember_to_bytes`](Self::remember_to_bytes) with options.
    ///
    /// # Errors
    /// As [`remember_to_bytes`](Self::remember_to_bytes), and `Cancelled`.
    pub fn remember_to_bytes_with_options(&self, target: TargetDtype, options: RememberOptions) -> Result<Vec<u8>> {
        self.checkpoint.plan(target)?.to_bytes(&options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Dtype;
    use crate::checkpoint::{MemoryTensor, MemoryTensors};

    #[test]
    fn a_model_is_quantised_by_the_name_of_a_scheme() {
        let data: Vec<u8> = (0..256 * 256).flat_map(|index| ((index % 251) as f32 / 100.0).to_le_bytes()).collect();
        let tensor = MemoryTensor { name: "a.weight".to_owned(), dtype: Dtype::F32, shape: vec![256, 256], data };
        let tensors = MemoryTensors::new(vec![tensor], &[].into()).unwrap();
        let plain = Checkpoint::from_positioned(tensors, &OpenOptions::new()).unwrap();
        let model = ParsedModel::new(plain).unwrap();
        let directory = tempfile::tempdir().unwrap();
        for (scheme, target) in [
            (QuantScheme::FineGrainedFp8, "fp8-fine-grained"),
            (QuantScheme::Gptq, "gptq-4bit"),
            (QuantScheme::Awq, "awq-4bit"),
            (QuantScheme::Bnb4, "nf4"),
            (QuantScheme::BnbInt8, "bnb-int8"),
            (QuantScheme::Nvfp4, "modelopt-nvfp4"),
        ] {
            let path = directory.path().join(target);
            model.forget(&path, scheme).unwrap();
            let target = ConvertTarget::parse(target).unwrap();
            let plan = model.checkpoint().plan_convert(target, &ConvertOptions::new()).unwrap();
            assert!(std::fs::read(path).unwrap() == plan.to_bytes(|_| {}).unwrap().0, "{scheme}");
        }
        let path = directory.path().join("fp8-fine-grained");
        let found = Checkpoint::open_file(path, &ParseLimits::default()).unwrap();
        assert_eq!(found.weights()[0].family, QuantScheme::FineGrainedFp8);
        let error = model.forget(directory.path().join("other"), QuantScheme::Unquantized).unwrap_err();
        assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
        assert!(!directory.path().join("other").exists());
    }
}
