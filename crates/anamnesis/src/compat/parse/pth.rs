//! PyTorch files: their tensors in the order of the pickle, and summaries.

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

/// Opens a PyTorch file: an archive, a legacy stream or a TorchScript archive. Its pickle is read as data; nothing in it is
/// run. Tensor data is mapped when it is asked for.
///
/// ```no_run
/// let model = anamnesis::parse_pth("model.pth")?;
/// println!("{}", model.inspect());
/// model.to_safetensors("model.safetensors")?;
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Io` where the file cannot be read, `Parse` where it is malformed, `DisallowedGlobal` where its pickle refers to code,
/// `Unsupported` where it holds tensors that are not read, `LimitExceeded` where it passes a permanent cap.
pub fn parse_pth(path: impl AsRef<Path>) -> Result<ParsedPth> {
    parse_pth_with_limits(path, &ParseLimits::default())
}

/// [`parse_pth`] within limits.
///
/// # Errors
/// As [`parse_pth`], and `LimitExceeded` where a limit is passed.
pub fn parse_pth_with_limits(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<ParsedPth> {
    ParsedPth::read(Box::new(FileSource::open(path.as_ref())?), limits, &mut Budget::new(limits))
}

/// Takes the bytes of a PyTorch file.
///
/// # Errors
/// As [`parse_pth`].
pub fn parse_pth_bytes(bytes: Vec<u8>) -> Result<ParsedPth> {
    parse_pth_bytes_with_limits(bytes, &ParseLimits::default())
}

/// [`parse_pth_bytes`] within limits; the whole input counts as one buffer.
///
/// # Errors
/// As [`parse_pth_bytes`], and `LimitExceeded` where a limit is passed.
pub fn parse_pth_bytes_with_limits(bytes: Vec<u8>, limits: &ParseLimits) -> Result<ParsedPth> {
    let mut budget = Budget::new(limits);
    budget.buffer(bytes.len() as u64, "the input")?;
    ParsedPth::read(Box::new(BytesSource(bytes)), limits, &mut budget)
}

/// Reads a PyTorch file to its end.
///
/// # Errors
/// As [`parse_pth`].
pub fn parse_pth_from_reader<R: Read>(reader: R) -> Result<ParsedPth> {
    parse_pth_from_reader_with_limits(reader, &ParseLimits::default())
}

/// [`parse_pth_from_reader`] within limits; reading stops one byte after the limit.
///
/// # Errors
/// As [`parse_pth_from_reader`], and `LimitExceeded` where a limit is passed.
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
/// As [`inspect_pth_from_reader`], and `LimitExceeded` where a limit is passed.
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
/// As [`parse_pth_front_matter_from_reader`], and `LimitExceeded` where a limit is passed.
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

/// A pickle or an archive of another kind is a format that is not read; text is malformed.
fn read_front(source: &(impl ReadAt + ?Sized), budget: &mut Budget) -> Result<Front> {
    let front = Front::read(source, &OpenOptions::new(), budget);
    front.map_err(|error| match source.head().map(|head| explain(error, Format::Pth, &head, "")) {
        Ok(AnamnesisError::NotAModel { kind, detail }) if kind == FileKind::Pickle || kind.is_packed() => {
            AnamnesisError::unsupported("pth", detail)
        }
        Ok(error) | Err(error) => error.for_single_format(),
    })
}

/// What a PyTorch file says before its tensor data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PthFrontMatter {
    /// The tensors in the order of the pickle.
    pub tensors: Vec<PthTensorInfo>,
    /// Whether numbers are stored with their highest byte first.
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
    /// Where the extents of the tensors lead.
    pub(crate) source: Box<dyn Source>,
    /// In the order of the pickle.
    pub(crate) stored: Vec<StoredTensor>,
    big_endian: bool,
    notes: Vec<Note>,
    pub(crate) limits: ParseLimits,
}

impl ParsedPth {
    fn read(source: Box<dyn Source>, limits: &ParseLimits, budget: &mut Budget) -> Result<Self> {
        let front = read_front(&*source, budget)?;
        let PthFile { source, tensors: stored, notes, big_endian } = arrange(front, source)?;
        // Asked here, so that nothing is left to fail later.
        for tensor in &stored {
            PthTensorInfo::new(String::new(), Vec::new(), PthDtype::of(tensor.dtype)?, tensor.extent.bytes)?;
        }
        Ok(Self { source, stored, big_endian, notes, limits: limits.clone() })
    }

    /// How many tensors there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.stored.len()
    }

    /// Whether there are no tensors.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// What is worth knowing about how the file was read, such as what was left out.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The tensors in the order of the pickle.
    #[must_use]
    pub fn tensor_info(&self) -> Vec<PthTensorInfo> {
        let info = |tensor: &StoredTensor| {
            let dtype = PthDtype::of(tensor.dtype)?;
            PthTensorInfo::new(tensor.name.clone(), tensor.shape.clone(), dtype, tensor.extent.bytes)
        };
        self.stored.iter().filter_map(|tensor| info(tensor).ok()).collect()
    }

    /// The tensors with their bytes, in the order of the pickle. Bytes are borrowed where they lie in the file as they should
    /// be: contiguous and little endian. They are held against the checksums of the archive, once.
    ///
    /// # Errors
    /// `Io` where the file cannot be mapped, `Parse` where a checksum is not that of the bytes, `LimitExceeded` where the tensors that have to be put together pass the limits
    /// given at parsing.
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
        // What is not in the file as it is gets put together in memory.
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
