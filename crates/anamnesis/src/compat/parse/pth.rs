//! PyTorch files: tensors in pickle order, and summaries.

use std::borrow::Cow;
use std::fmt;
use std::io::{Read, Seek};
use std::path::Path;

use crate::catalog::{Note, StoredTensor};
use crate::container::pth::{Front, PthFile, arrange};
use crate::container::{Format, OpenOptions, explain};
use crate::error::{AnamnesisError, FileKind, Result};
use crate::inspect::InspectOptions;
use crate::io::{BytesSource, FileSource, LocalReader, ReadAt, Source, read_all};
use crate::limits::{Budget, ParseLimits};

pub use super::pth_types::{PthDtype, PthInspectInfo, PthTensor, PthTensorInfo};

/// Opens a PyTorch file: a ZIP archive, a legacy stream or a TorchScript archive. Its pickle is interpreted as data; no
/// code is executed. Tensor data is mapped when needed.
///
/// ```no_run
/// let model = anamnesis::parse_pth("model.pth")?;
/// println!("{}", model.inspect());
/// model.to_safetensors("model.safetensors")?;
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Io` if the file cannot be read, `Parse` if it is malformed, `DisallowedGlobal` if its pickle refers to code,
/// `Unsupported` if it has tensors that are not supported, `LimitExceeded` if it exceeds a fixed limit.
pub fn parse_pth(path: impl AsRef<Path>) -> Result<ParsedPth> {
    parse_pth_with_limits(path, &ParseLimits::default())
}

/// [`parse_pth`] within limits.
///
/// # Errors
/// As [`parse_pth`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_pth_with_limits(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<ParsedPth> {
    ParsedPth::read(Box::new(FileSource::open(path.as_ref())?), limits, &mut Budget::new(limits))
}

/// Parses a PyTorch file in memory.
///
/// # Errors
/// As [`parse_pth`].
pub fn parse_pth_bytes(bytes: Vec<u8>) -> Result<ParsedPth> {
    parse_pth_bytes_with_limits(bytes, &ParseLimits::default())
}

/// [`parse_pth_bytes`] within limits; the input as a whole counts as one buffer.
///
/// # Errors
/// As [`parse_pth_bytes`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_pth_bytes_with_limits(bytes: Vec<u8>, limits: &ParseLimits) -> Result<ParsedPth> {
    let mut budget = Budget::new(limits);
    budget.buffer(bytes.len() as u64, "the input")?;
    ParsedPth::read(Box::new(BytesSource(bytes)), limits, &mut budget)
}

/// Parses a PyTorch file from a reader, which is read to its end.
///
/// # Errors
/// As [`parse_pth`].
pub fn parse_pth_from_reader<R: Read>(reader: R) -> Result<ParsedPth> {
    parse_pth_from_reader_with_limits(reader, &ParseLimits::default())
}

/// [`parse_pth_from_reader`] within limits; reading stops one byte after the limit.
///
/// # Errors
/// As [`parse_pth_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_pth_from_reader_with_limits<R: Read>(reader: R, limits: &ParseLimits) -> Result<ParsedPth> {
    let limit = limits.max_single_alloc_bytes().min(limits.max_total_bytes());
    let bytes = read_all(reader, &mut Budget::new(limits), limit)?;
    parse_pth_bytes_with_limits(bytes, limits)
}

/// Summarises a PyTorch file; no tensor data is read.
///
/// # Errors
/// As [`parse_pth`].
pub fn inspect_pth_from_reader<R: Read + Seek>(reader: R) -> Result<PthInspectInfo> {
    inspect_pth_from_reader_with_options(reader, &InspectOptions::new())
}

/// [`inspect_pth_from_reader`] for another output type, within limits.
///
/// # Errors
/// As [`inspect_pth_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn inspect_pth_from_reader_with_options<R: Read + Seek>(
    reader: R,
    options: &InspectOptions,
) -> Result<PthInspectInfo> {
    Ok(parse_pth_front_matter_from_reader_with_limits(reader, &options.limits)?.inspect_with_options(options))
}

/// Reads the list of tensors of a PyTorch file, no tensor data.
///
/// # Errors
/// As [`parse_pth`].
pub fn parse_pth_front_matter_from_reader<R: Read + Seek>(reader: R) -> Result<PthFrontMatter> {
    parse_pth_front_matter_from_reader_with_limits(reader, &ParseLimits::default())
}

/// [`parse_pth_front_matter_from_reader`] within limits.
///
/// # Errors
/// As [`parse_pth_front_matter_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_pth_front_matter_from_reader_with_limits<R: Read + Seek>(
    reader: R,
    limits: &ParseLimits,
) -> Result<PthFrontMatter> {
    let front = read_front(&LocalReader::new(reader)?, &mut Budget::new(limits))?;
    let info = |(name, shape, dtype, bytes): (&str, &[usize], _, u64)| {
        PthTensorInfo::new(name.to_owned(), shape.to_vec(), PthDtype::of(dtype)?, bytes)
    };
    let tensors = front.tensors().map(info).collect::<Result<_>>()?;
    Ok(PthFrontMatter { tensors, big_endian: front.big_endian })
}

/// Reads the front matter. A pickle or archive of another kind is `Unsupported`; text is malformed.
fn read_front(source: &(impl ReadAt + ?Sized), budget: &mut Budget) -> Result<Front> {
    let front = Front::read(source, &OpenOptions::new(), budget);
    front.map_err(|error| match source.head().map(|head| explain(error, Format::Pth, &head)) {
        Ok(AnamnesisError::NotAModel { kind, detail }) if kind == FileKind::Pickle || kind.is_packed() => {
            AnamnesisError::unsupported("pth", detail)
        }
        Ok(error) | Err(error) => error.for_single_format(),
    })
}

/// The part of a PyTorch file before its tensor data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PthFrontMatter {
    /// The tensors in pickle order.
    pub tensors: Vec<PthTensorInfo>,
    /// Whether the file is big-endian.
    pub big_endian: bool,
}

impl PthFrontMatter {
    /// Counts and sizes, for BF16 output.
    pub fn inspect(&self) -> PthInspectInfo {
        self.inspect_with_options(&InspectOptions::new())
    }

    /// Counts and sizes, for the output type of `options`.
    pub fn inspect_with_options(&self, options: &InspectOptions) -> PthInspectInfo {
        let types = self.tensors.iter().map(|tensor| (tensor.dtype, tensor.byte_len as u64));
        PthInspectInfo::of(types, self.big_endian, options)
    }
}

/// A parsed PyTorch file.
pub struct ParsedPth {
    /// The source that the extents of the tensors refer to.
    pub(crate) source: Box<dyn Source>,
    /// The tensors in pickle order.
    pub(crate) stored: Vec<StoredTensor>,
    big_endian: bool,
    notes: Vec<Note>,
    pub(crate) limits: ParseLimits,
}

impl ParsedPth {
    fn read(source: Box<dyn Source>, limits: &ParseLimits, budget: &mut Budget) -> Result<Self> {
        let front = read_front(&*source, budget)?;
        let PthFile { source, tensors: stored, notes, big_endian } = arrange(front, source)?;
        // Checked here, so that later methods cannot fail.
        for tensor in &stored {
            PthTensorInfo::new(String::new(), Vec::new(), PthDtype::of(tensor.dtype)?, tensor.extent.bytes)?;
        }
        Ok(Self { source, stored, big_endian, notes, limits: limits.clone() })
    }

    /// The number of tensors.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.stored.len()
    }

    /// Whether there are no tensors.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Notes on how the file was read, such as entries that were left out.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The tensors in pickle order.
    #[must_use]
    pub fn tensor_info(&self) -> Vec<PthTensorInfo> {
        let info = |tensor: &StoredTensor| {
            let dtype = PthDtype::of(tensor.dtype)?;
            PthTensorInfo::new(tensor.name.clone(), tensor.shape.clone(), dtype, tensor.extent.bytes)
        };
        self.stored.iter().filter_map(|tensor| info(tensor).ok()).collect()
    }

    /// The tensors with their data, in pickle order. Data is borrowed if it is contiguous and little endian in the
    /// file. It is checked against the checksums of the archive, once.
    ///
    /// # Errors
    /// `Io` if the file cannot be mapped, `Parse` if a checksum does not match, `LimitExceeded` if the tensors that
    /// have to be copied exceed the limits given at parsing.
    pub fn tensors(&self) -> Result<Vec<PthTensor<'_>>> {
        let mut budget = Budget::new(&self.limits);
        let tensor = |stored: &StoredTensor| {
            let data = self.data(stored, &mut budget)?;
            Ok(PthTensor::new(stored.name.clone(), stored.shape.clone(), PthDtype::of(stored.dtype)?, data))
        };
        self.stored.iter().map(tensor).collect()
    }

    fn data(&self, stored: &StoredTensor, budget: &mut Budget) -> Result<Cow<'_, [u8]>> {
        let range = stored.extent.offset..stored.extent.offset + stored.extent.bytes;
        if range.is_empty() {
            return Ok(Cow::Borrowed(&[]));
        }
        // Data that is not contiguous and little endian in the file is copied.
        if !self.source.is_stored(range.clone()) {
            budget.buffer(stored.extent.bytes, "a tensor")?;
            if usize::try_from(stored.extent.bytes).is_err() {
                return Err(AnamnesisError::limit("available_memory", format!("{} bytes", stored.extent.bytes)));
            }
        }
        self.source.view(range)
    }

    /// Counts and sizes, for BF16 output.
    pub fn inspect(&self) -> PthInspectInfo {
        self.inspect_with_options(&InspectOptions::new())
    }

    /// Counts and sizes, for the output type of `options`.
    pub fn inspect_with_options(&self, options: &InspectOptions) -> PthInspectInfo {
        let types =
            self.stored.iter().filter_map(|tensor| Some((PthDtype::of(tensor.dtype).ok()?, tensor.extent.bytes)));
        PthInspectInfo::of(types, self.big_endian, options)
    }
}

impl fmt::Debug for ParsedPth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParsedPth")
            .field("tensors", &self.len())
            .field("big_endian", &self.big_endian)
            .finish_non_exhaustive()
    }
}
