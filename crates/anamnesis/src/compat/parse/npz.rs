//! NPZ archives: arrays with their data, and summaries.

use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Seek};
use std::path::Path;

use super::dtypes::format_dtypes;
use super::explain::{explain_head, explained};
use crate::catalog::TargetDtype;
use crate::container::npy::{Npz, read_arrays};
use crate::container::{Container, Format, OpenOptions, Opened};
use crate::error::{AnamnesisError, Result, quoted};
use crate::inspect::{InspectOptions, InspectSummary, comma_list, format_bytes, sealed};
use crate::io::{BytesSource, FileSource, LocalReader, ReadAt, Source, read_all, zeroed};
use crate::limits::{Budget, ParseLimits};

/// Maximum size of an array that is read.
pub const NPZ_MAX_ARRAY_BYTES: u64 = 8 << 30;

/// Reads all arrays of an NPZ archive, in C order and little endian.
///
/// ```no_run
/// for (name, array) in anamnesis::parse_npz("weights.npz")? {
///     println!("{name} {} {:?}", array.dtype, array.shape);
/// }
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Io` if the file cannot be read, `Parse` if it is malformed or damaged, `Unsupported` if an array's type is not
/// numeric, `LimitExceeded` if it exceeds a fixed limit.
pub fn parse_npz(path: impl AsRef<Path>) -> Result<HashMap<String, NpzTensor>> {
    parse_npz_with_limits(path, &ParseLimits::default())
}

/// [`parse_npz`] within limits.
///
/// # Errors
/// As [`parse_npz`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_npz_with_limits(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<HashMap<String, NpzTensor>> {
    read(Box::new(FileSource::open(path.as_ref())?), limits, &mut Budget::new(limits))
}

/// [`parse_npz`] for a file in memory.
///
/// # Errors
/// As [`parse_npz`].
pub fn parse_npz_bytes(bytes: Vec<u8>) -> Result<HashMap<String, NpzTensor>> {
    parse_npz_bytes_with_limits(bytes, &ParseLimits::default())
}

/// [`parse_npz_bytes`] within limits; the input as a whole counts as one buffer.
///
/// # Errors
/// As [`parse_npz_bytes`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_npz_bytes_with_limits(bytes: Vec<u8>, limits: &ParseLimits) -> Result<HashMap<String, NpzTensor>> {
    let mut budget = Budget::new(limits);
    budget.buffer(bytes.len() as u64, "the input")?;
    read(Box::new(BytesSource(bytes)), limits, &mut budget)
}

/// [`parse_npz`] for a reader, which is read to its end.
///
/// # Errors
/// As [`parse_npz`].
pub fn parse_npz_from_reader<R: Read>(reader: R) -> Result<HashMap<String, NpzTensor>> {
    parse_npz_from_reader_with_limits(reader, &ParseLimits::default())
}

/// [`parse_npz_from_reader`] within limits; reading stops one byte after the limit.
///
/// # Errors
/// As [`parse_npz_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_npz_from_reader_with_limits<R: Read>(
    reader: R,
    limits: &ParseLimits,
) -> Result<HashMap<String, NpzTensor>> {
    let limit = limits.max_single_alloc_bytes().min(limits.max_total_bytes());
    let bytes = read_all(reader, &mut Budget::new(limits), limit)?;
    parse_npz_bytes_with_limits(bytes, limits)
}

fn read(source: Box<dyn Source>, limits: &ParseLimits, budget: &mut Budget) -> Result<HashMap<String, NpzTensor>> {
    let options = OpenOptions::new().with_limits(limits.clone());
    let head = source.head()?;
    let opened = Npz.open(source, 0, &options, budget);
    let Opened { source, catalog } = opened.map_err(|error| explain_head(error, Format::Npz, &head))?;
    // All memory is reserved in the budget before any array is read.
    for (_, tensor) in catalog.iter() {
        let what = format!("array {}", quoted(&tensor.name));
        if tensor.extent.bytes > NPZ_MAX_ARRAY_BYTES {
            let message = format!("{what} takes {} bytes, {NPZ_MAX_ARRAY_BYTES} are allowed", tensor.extent.bytes);
            return Err(AnamnesisError::limit("NPZ_MAX_ARRAY_BYTES", message));
        }
        budget.buffer(tensor.extent.bytes, &what)?;
    }
    let mut arrays = HashMap::with_capacity(catalog.len());
    for (_, tensor) in catalog.iter() {
        let mut data = zeroed_array(tensor.extent.bytes, &tensor.name)?;
        if !data.is_empty() {
            source.read_at(tensor.extent.offset, &mut data)?;
        }
        let dtype = NpzDtype::of(tensor.dtype)?;
        arrays.insert(tensor.name.clone(), NpzTensor::new(tensor.name.clone(), tensor.shape.clone(), dtype, data));
    }
    Ok(arrays)
}

/// Zeroed memory for an array. It is reserved fallibly first, since a failed allocation of a zeroed vector aborts.
fn zeroed_array(bytes: u64, name: &str) -> Result<Vec<u8>> {
    let none = || AnamnesisError::limit("available_memory", format!("array {} takes {bytes} bytes", quoted(name)));
    let bytes = usize::try_from(bytes).map_err(|_| none())?;
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| none())?;
    Ok(zeroed(bytes))
}

/// Summarises an NPZ archive; only headers are read.
///
/// # Errors
/// As [`parse_npz`].
pub fn inspect_npz(path: impl AsRef<Path>) -> Result<NpzInspectInfo> {
    inspect_npz_with_options(path, &InspectOptions::new())
}

/// [`inspect_npz`] for another output type, within limits.
///
/// # Errors
/// As [`inspect_npz`], and `LimitExceeded` if a limit is exceeded.
pub fn inspect_npz_with_options(path: impl AsRef<Path>, options: &InspectOptions) -> Result<NpzInspectInfo> {
    inspect(&FileSource::open(path.as_ref())?, options)
}

/// [`inspect_npz`] for a reader with `Seek`.
///
/// # Errors
/// As [`inspect_npz`].
pub fn inspect_npz_from_reader<R: Read + Seek>(reader: R) -> Result<NpzInspectInfo> {
    inspect_npz_from_reader_with_options(reader, &InspectOptions::new())
}

/// [`inspect_npz_from_reader`] for another output type, within limits.
///
/// # Errors
/// As [`inspect_npz_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn inspect_npz_from_reader_with_options<R: Read + Seek>(
    reader: R,
    options: &InspectOptions,
) -> Result<NpzInspectInfo> {
    inspect(&LocalReader::new(reader)?, options)
}

fn inspect(source: &(impl ReadAt + ?Sized), options: &InspectOptions) -> Result<NpzInspectInfo> {
    let limits = OpenOptions::new().with_limits(options.limits.clone());
    let arrays = read_arrays(source, &limits, &mut Budget::new(&options.limits));
    let arrays = explained(arrays, Format::Npz, source)?.arrays;
    let mut info = NpzInspectInfo {
        tensors: Vec::with_capacity(arrays.len()),
        total_bytes: 0,
        dtypes: Vec::new(),
        dequantized_size: 0,
        output_dtype: options.output_dtype,
    };
    for array in arrays {
        let (stored, bytes) = (array.header.element.dtype, array.header.data_bytes);
        let dtype = NpzDtype::of(stored)?;
        let decoded = if stored.is_quantized() {
            (bytes / stored.byte_size() as u64).saturating_mul(options.output_dtype.byte_size() as u64)
        } else {
            bytes
        };
        info.total_bytes = info.total_bytes.saturating_add(bytes);
        info.dequantized_size = info.dequantized_size.saturating_add(decoded);
        if !info.dtypes.contains(&dtype) {
            info.dtypes.push(dtype);
        }
        let byte_len = usize::try_from(bytes).unwrap_or(usize::MAX);
        info.tensors.push(NpzTensorInfo { name: array.name, shape: array.header.shape, dtype, byte_len });
    }
    Ok(info)
}

format_dtypes! {
    /// The type of an array's elements. `Display` is that of [`Dtype`](crate::Dtype).
    "NPZ", "arrays": NpzDtype { Bool U8 I8 U16 I16 U32 I32 U64 I64 F16 BF16 F32 F64 F8E5M2 F8E4M3 C64 }
}

/// An array with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpzTensor {
    /// Its name, without `.npy`.
    pub name: String,
    /// Its shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Its element type.
    pub dtype: NpzDtype,
    /// Its data, C order, little endian.
    pub data: Vec<u8>,
}

impl NpzTensor {
    /// An array of these fields.
    #[must_use]
    pub const fn new(name: String, shape: Vec<usize>, dtype: NpzDtype, data: Vec<u8>) -> Self {
        Self { name, shape, dtype, data }
    }
}

/// An array without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NpzTensorInfo {
    /// Its name, without `.npy`.
    pub name: String,
    /// Its shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Its element type.
    pub dtype: NpzDtype,
    /// Size of its data in bytes.
    pub byte_len: usize,
}

/// Counts and sizes of an NPZ archive.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct NpzInspectInfo {
    /// The arrays, in archive order.
    pub tensors: Vec<NpzTensorInfo>,
    /// Total size of all arrays.
    pub total_bytes: u64,
    /// The types, in order of first occurrence.
    pub dtypes: Vec<NpzDtype>,
    /// Total size of all arrays after decoding.
    pub dequantized_size: u64,
    /// The type assumed for decoded weights.
    pub output_dtype: TargetDtype,
}

impl sealed::Sealed for NpzInspectInfo {}

impl InspectSummary for NpzInspectInfo {
    fn tensor_count(&self) -> usize {
        self.tensors.len()
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

impl fmt::Display for NpzInspectInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Format:      NPZ archive")?;
        writeln!(f, "Tensors:     {}", self.tensors.len())?;
        writeln!(f, "Total size:  {}", format_bytes(self.total_bytes))?;
        write!(f, "Dtypes:      {}", comma_list(&self.dtypes))
    }
}
