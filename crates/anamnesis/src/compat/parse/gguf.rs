//! GGUF files: metadata, stored tensors, and summaries.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::LazyLock;

use super::explain::explained;
use crate::catalog::{Catalog, TargetDtype};
use crate::container::Format;
use crate::container::gguf::{self, ARCHITECTURE_KEY, GgufHeader, Keep, LazyMetadata};
use crate::error::{AnamnesisError, Result, printable};
use crate::inspect::{InspectOptions, InspectSummary, comma_list, format_bytes, sealed};
use crate::io::{BytesSource, FileSource, LocalReader, Source, read_all};
use crate::limits::{Budget, ParseLimits};

pub use crate::container::gguf::{GgufMetadataArray, GgufMetadataValue, GgufTensorInfo, GgufType};

/// Opens a GGUF file. Tensor data is mapped when needed.
///
/// ```no_run
/// let model = anamnesis::parse_gguf("model.gguf")?;
/// println!("{}", model.inspect());
/// for tensor in model.tensors() {
///     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
/// }
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Io` if the file cannot be read, `Parse` if it is malformed, `Unsupported` if its version is not read,
/// `LimitExceeded` if it exceeds a fixed limit.
pub fn parse_gguf(path: impl AsRef<Path>) -> Result<ParsedGguf> {
    parse_gguf_with_limits(path, &ParseLimits::default())
}

/// [`parse_gguf`] within limits.
///
/// # Errors
/// As [`parse_gguf`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_gguf_with_limits(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<ParsedGguf> {
    ParsedGguf::read(Box::new(FileSource::open(path.as_ref())?), limits, &mut Budget::new(limits))
}

/// Parses a GGUF file in memory.
///
/// # Errors
/// As [`parse_gguf`].
pub fn parse_gguf_bytes(bytes: Vec<u8>) -> Result<ParsedGguf> {
    parse_gguf_bytes_with_limits(bytes, &ParseLimits::default())
}

/// [`parse_gguf_bytes`] within limits; the input as a whole counts as one buffer.
///
/// # Errors
/// As [`parse_gguf_bytes`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_gguf_bytes_with_limits(bytes: Vec<u8>, limits: &ParseLimits) -> Result<ParsedGguf> {
    let mut budget = Budget::new(limits);
    budget.buffer(bytes.len() as u64, "the input")?;
    ParsedGguf::read(Box::new(BytesSource(bytes)), limits, &mut budget)
}

/// Parses a GGUF file from a reader, which is read to its end.
///
/// # Errors
/// As [`parse_gguf`].
pub fn parse_gguf_from_reader<R: Read>(reader: R) -> Result<ParsedGguf> {
    parse_gguf_from_reader_with_limits(reader, &ParseLimits::default())
}

/// [`parse_gguf_from_reader`] within limits; reading stops one byte after the limit.
///
/// # Errors
/// As [`parse_gguf_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_gguf_from_reader_with_limits<R: Read>(reader: R, limits: &ParseLimits) -> Result<ParsedGguf> {
    let limit = limits.max_single_alloc_bytes().min(limits.max_total_bytes());
    let bytes = read_all(reader, &mut Budget::new(limits), limit)?;
    parse_gguf_bytes_with_limits(bytes, limits)
}

/// Summarises a GGUF file; only its header is read.
///
/// # Errors
/// As [`parse_gguf`].
pub fn inspect_gguf_from_reader<R: Read + Seek>(reader: R) -> Result<GgufInspectInfo> {
    inspect_gguf_from_reader_with_options(reader, &InspectOptions::new())
}

/// [`inspect_gguf_from_reader`] for another output type, within limits.
///
/// # Errors
/// As [`inspect_gguf_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn inspect_gguf_from_reader_with_options<R: Read + Seek>(
    reader: R,
    options: &InspectOptions,
) -> Result<GgufInspectInfo> {
    Ok(read_header(reader, Keep::Scalars, &options.limits)?.inspect(options))
}

/// Reads the front matter of a GGUF file: metadata and the list of tensors, no tensor data.
///
/// # Errors
/// As [`parse_gguf`].
pub fn parse_gguf_front_matter_from_reader<R: Read + Seek>(reader: R) -> Result<GgufFrontMatter> {
    parse_gguf_front_matter_from_reader_with_limits(reader, &ParseLimits::default())
}

/// [`parse_gguf_front_matter_from_reader`] within limits.
///
/// # Errors
/// As [`parse_gguf_front_matter_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_gguf_front_matter_from_reader_with_limits<R: Read + Seek>(
    reader: R,
    limits: &ParseLimits,
) -> Result<GgufFrontMatter> {
    read_header(reader, Keep::All, limits).map(GgufFrontMatter::from)
}

fn read_header<R: Read + Seek>(mut reader: R, keep: Keep, limits: &ParseLimits) -> Result<GgufHeader> {
    let header = gguf::read_header_from(&mut reader, keep, &mut Budget::new(limits));
    if header.is_ok() { header } else { explained(header, Format::Gguf, &LocalReader::new(reader)?) }
}

/// The part of a GGUF file before its tensor data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GgufFrontMatter {
    /// The version of the format.
    pub version: u32,
    /// The alignment of tensor offsets.
    pub alignment: u32,
    /// The metadata.
    pub metadata: HashMap<String, GgufMetadataValue>,
    /// The tensors in file order.
    pub tensor_infos: Vec<GgufTensorInfo>,
    /// Whether the file is big-endian.
    pub big_endian: bool,
}

impl From<GgufHeader> for GgufFrontMatter {
    fn from(header: GgufHeader) -> Self {
        let GgufHeader { version, big_endian, alignment, metadata, tensors, .. } = header;
        Self { version, alignment, metadata: metadata.into_iter().collect(), tensor_infos: tensors, big_endian }
    }
}

impl GgufFrontMatter {
    /// Counts and sizes, for BF16 output.
    pub fn inspect(&self) -> GgufInspectInfo {
        self.inspect_with_options(&InspectOptions::new())
    }

    /// Counts and sizes, for the output type of `options`.
    pub fn inspect_with_options(&self, options: &InspectOptions) -> GgufInspectInfo {
        let architecture = self.metadata.get(ARCHITECTURE_KEY);
        GgufInspectInfo::new(self.version, self.alignment, architecture, &self.tensor_infos, options)
    }
}

impl GgufHeader {
    fn inspect(&self, options: &InspectOptions) -> GgufInspectInfo {
        GgufInspectInfo::new(self.version, self.alignment, self.get(ARCHITECTURE_KEY), &self.tensors, options)
    }
}

impl GgufInspectInfo {
    fn new(
        version: u32,
        alignment: u32,
        architecture: Option<&GgufMetadataValue>,
        tensors: &[GgufTensorInfo],
        options: &InspectOptions,
    ) -> Self {
        let mut info = Self {
            version,
            architecture: architecture.and_then(GgufMetadataValue::as_string).map(str::to_owned),
            tensor_count: tensors.len(),
            total_bytes: 0,
            unknown_size_tensors: 0,
            dtypes: Vec::new(),
            alignment,
            dequantized_size: 0,
            output_dtype: options.output_dtype,
        };
        let output_bytes = options.output_dtype.byte_size() as u64;
        for tensor in tensors {
            if !info.dtypes.contains(&tensor.dtype) {
                info.dtypes.push(tensor.dtype);
            }
            let Some(bytes) = tensor.byte_len else {
                info.unknown_size_tensors += 1;
                continue;
            };
            info.total_bytes = info.total_bytes.saturating_add(bytes);
            let decoded =
                if tensor.dtype.is_quantized() { tensor.num_elements().saturating_mul(output_bytes) } else { bytes };
            info.dequantized_size = info.dequantized_size.saturating_add(decoded);
        }
        info
    }
}

/// A parsed GGUF file. Its metadata has been checked, but arrays such as a vocabulary only become values when
/// [`metadata`](Self::metadata) is called.
pub struct ParsedGguf {
    /// The header, in which metadata arrays are empty.
    header: GgufHeader,
    metadata: LazyMetadata,
    /// The source position that the header's offsets are relative to.
    base: u64,
    file_bytes: u64,
    pub(crate) source: Box<dyn Source>,
    pub(crate) limits: ParseLimits,
}

impl ParsedGguf {
    fn read(source: Box<dyn Source>, limits: &ParseLimits, budget: &mut Budget) -> Result<Self> {
        let (header, metadata) = explained(gguf::read_header_lazily(&*source, budget), Format::Gguf, &*source)?;
        let file_bytes = source.len();
        let (source, base) = gguf::arrange(source, &header)?;
        Ok(Self { header, metadata, base, file_bytes, source, limits: limits.clone() })
    }

    /// The version of the format.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.header.version
    }

    /// The alignment of tensor offsets.
    #[must_use]
    pub const fn alignment(&self) -> u32 {
        self.header.alignment
    }

    /// Whether the file is big-endian; tensor data is converted to little endian when read.
    #[must_use]
    pub const fn is_big_endian(&self) -> bool {
        self.header.big_endian
    }

    /// The number of tensors.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.header.tensors.len()
    }

    /// Whether there are no tensors.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.header.tensors.is_empty()
    }

    /// The metadata.
    #[must_use]
    pub fn metadata(&self) -> &HashMap<String, GgufMetadataValue> {
        static NONE: LazyLock<HashMap<String, GgufMetadataValue>> = LazyLock::new(HashMap::new);
        self.try_metadata().unwrap_or(&NONE)
    }

    /// [`metadata`](Self::metadata), but with an error where that would return an empty map.
    ///
    /// # Errors
    /// None that depend on the file: its metadata was read and checked when it was opened.
    pub fn try_metadata(&self) -> Result<&HashMap<String, GgufMetadataValue>> {
        self.metadata.map()
    }

    /// The tensors in file order.
    #[must_use]
    pub fn tensor_info(&self) -> &[GgufTensorInfo] {
        &self.header.tensors
    }

    /// The tensors with their data, borrowed from memory or from a memory map of the file, in file order. Data of a
    /// big-endian file is owned and converted to little endian. Tensors of unsupported types are left out.
    pub fn tensors(&self) -> impl Iterator<Item = GgufTensor<'_>> {
        self.tensor_info().iter().filter_map(|info| {
            let data = self.tensor_data(info).ok()?;
            Some(GgufTensor { name: &info.name, shape: &info.shape, dtype: info.dtype, data })
        })
    }

    /// The stored bytes of one of this file's tensors.
    ///
    /// # Errors
    /// `Unsupported` if its type is unknown or not defined in a big-endian file, `Parse` if it is not a tensor of this
    /// file, `Io` if the file cannot be mapped.
    pub(crate) fn tensor_data(&self, info: &GgufTensorInfo) -> Result<Cow<'_, [u8]>> {
        let (_, bytes) = info.stored_as(self.is_big_endian()).map_err(|why| why.error())?;
        let end = info.data_offset.checked_add(bytes).filter(|&end| end <= self.file_bytes);
        let end = end.ok_or_else(|| AnamnesisError::parse("the tensor is not one of this file's"))?;
        self.source.view(self.base + info.data_offset..self.base + end)
    }

    /// The catalog of the tensors, for conversion.
    ///
    /// # Errors
    /// `Unsupported` if a tensor's type is unknown or not defined in a big-endian file.
    pub(crate) fn catalog(&self) -> Result<Catalog> {
        self.header.catalog(0, self.base)
    }

    /// Counts and sizes, for BF16 output.
    pub fn inspect(&self) -> GgufInspectInfo {
        self.inspect_with_options(&InspectOptions::new())
    }

    /// Counts and sizes, for the output type of `options`.
    pub fn inspect_with_options(&self, options: &InspectOptions) -> GgufInspectInfo {
        self.header.inspect(options)
    }
}

impl fmt::Debug for ParsedGguf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParsedGguf")
            .field("version", &self.version())
            .field("alignment", &self.alignment())
            .field("metadata_entries", &self.metadata.len())
            .field("tensors", &self.len())
            .field("file_bytes", &self.file_bytes)
            .finish_non_exhaustive()
    }
}

/// A tensor with its stored data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GgufTensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its shape in file order: the fastest-varying dimension first.
    pub shape: &'a [usize],
    /// Its element type.
    pub dtype: GgufType,
    /// Its bytes.
    pub data: Cow<'a, [u8]>,
}

/// Counts and sizes of a GGUF file.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct GgufInspectInfo {
    /// The version of the format.
    pub version: u32,
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// Stored tensors.
    pub tensor_count: usize,
    /// Total size of all tensors of known size.
    pub total_bytes: u64,
    /// Number of tensors of unknown type, and therefore unknown size.
    pub unknown_size_tensors: usize,
    /// The types, in order of first occurrence.
    pub dtypes: Vec<GgufType>,
    /// The alignment of tensor offsets.
    pub alignment: u32,
    /// Total size of all tensors of known size after decoding.
    pub dequantized_size: u64,
    /// The type assumed for decoded weights.
    pub output_dtype: TargetDtype,
}

impl sealed::Sealed for GgufInspectInfo {}

impl InspectSummary for GgufInspectInfo {
    fn tensor_count(&self) -> usize {
        self.tensor_count
    }

    fn current_size(&self) -> u64 {
        self.total_bytes
    }

    fn dequantized_size(&self) -> u64 {
        self.dequantized_size
    }

    fn output_dtype(&self) -> TargetDtype {
        self.output_dtype
    }
}

impl fmt::Display for GgufInspectInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Format:      GGUF v{}", self.version)?;
        if let Some(architecture) = &self.architecture {
            writeln!(f, "Arch:        {}", printable(architecture, MAX_ARCHITECTURE_CHARS))?;
        }
        writeln!(f, "Tensors:     {}", self.tensor_count)?;
        write!(f, "Total size:  {}", format_bytes(self.total_bytes))?;
        if self.unknown_size_tensors > 0 {
            write!(f, " (+{} tensors with dtype of unknown size)", self.unknown_size_tensors)?;
        }
        // If nothing is quantised, every tensor keeps its type.
        let types = match self.dtypes.iter().any(|dtype| dtype.is_quantized()) || self.dtypes.is_empty() {
            true => self.output_dtype.to_string(),
            false => comma_list(&self.dtypes),
        };
        writeln!(f, "\nDequantized: {} ({types})", format_bytes(self.dequantized_size))?;
        writeln!(f, "Dtypes:      {}", comma_list(&self.dtypes))?;
        write!(f, "Alignment:   {} bytes", self.alignment)
    }
}

/// Maximum length of a printed architecture name, in characters.
const MAX_ARCHITECTURE_CHARS: usize = 160;
