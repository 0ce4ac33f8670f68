//! One safetensors file: its header, and the operations on it.

use std::io::Read;
use std::path::Path;

use crate::checkpoint::Checkpoint;
use crate::compat::parse::SafetensorsHeader;
use crate::container::{Format, OpenOptions, detect_format, detect_format_from_bytes_with_limits};
use crate::error::{AnamnesisError, Result};
use crate::inspect::{InspectInfo, InspectOptions};
use crate::io::read_all;
use crate::limits::{Budget, ParseLimits};
pub use crate::pipeline::RememberOptions;
use crate::quant_config::GptqFormat;

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
