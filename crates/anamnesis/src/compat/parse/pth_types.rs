//! The tensors of PyTorch files as plain data.

use std::borrow::Cow;
use std::fmt;

use super::dtypes::format_dtypes;
use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};
use crate::inspect::{InspectOptions, InspectSummary, comma_list, format_bytes, sealed};

format_dtypes! {
    /// The type of a tensor's elements in a PyTorch file. `Display` is the spelling of safetensors.
    "pth", "tensors": PthDtype {
        F16 BF16 F32 F64 U8 I8 I16 I32 I64 Bool
        U16 U32 U64 C64 F8E4M3 F8E5M2 F8E4M3Fnuz F8E5M2Fnuz F8E8M0
    }
}

/// A tensor with its data: contiguous, in C order, little endian.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PthTensor<'a> {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its element type.
    pub dtype: PthDtype,
    /// Its data.
    pub data: Cow<'a, [u8]>,
}

impl<'a> PthTensor<'a> {
    /// A tensor of these fields.
    #[must_use]
    pub const fn new(name: String, shape: Vec<usize>, dtype: PthDtype, data: Cow<'a, [u8]>) -> Self {
        Self { name, shape, dtype, data }
    }
}

/// A tensor without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PthTensorInfo {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its element type.
    pub dtype: PthDtype,
    /// Size of its data in bytes.
    pub byte_len: usize,
}

impl PthTensorInfo {
    pub(crate) fn new(name: String, shape: Vec<usize>, dtype: PthDtype, bytes: u64) -> Result<Self> {
        let byte_len = usize::try_from(bytes)
            .map_err(|_| AnamnesisError::limit("address_space", format!("a tensor of {bytes} bytes")))?;
        Ok(Self { name, shape, dtype, byte_len })
    }
}

/// Counts and sizes of a PyTorch file.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct PthInspectInfo {
    /// Number of tensors.
    pub tensor_count: usize,
    /// Total size of all tensors.
    pub total_bytes: u64,
    /// The types, in order of first occurrence.
    pub dtypes: Vec<PthDtype>,
    /// Whether the file is big-endian.
    pub big_endian: bool,
    /// Total size of all tensors after conversion: the same, as their types are kept.
    pub dequantized_size: u64,
    /// The type assumed for decoded weights.
    pub output_dtype: TargetDtype,
}

impl PthInspectInfo {
    /// Summarises tensors by their types and sizes.
    pub(crate) fn of(
        tensors: impl Iterator<Item = (PthDtype, u64)>,
        big_endian: bool,
        options: &InspectOptions,
    ) -> Self {
        let (mut dtypes, mut total_bytes, mut tensor_count) = (Vec::new(), 0u64, 0);
        for (dtype, bytes) in tensors {
            if !dtypes.contains(&dtype) {
                dtypes.push(dtype);
            }
            total_bytes = total_bytes.saturating_add(bytes);
            tensor_count += 1;
        }
        let output_dtype = options.output_dtype;
        Self { tensor_count, total_bytes, dtypes, big_endian, dequantized_size: total_bytes, output_dtype }
    }
}

impl sealed::Sealed for PthInspectInfo {}

impl InspectSummary for PthInspectInfo {
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

impl fmt::Display for PthInspectInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Format:      PyTorch state_dict (.pth)")?;
        writeln!(f, "Tensors:     {}", self.tensor_count)?;
        writeln!(f, "Total size:  {}", format_bytes(self.total_bytes))?;
        writeln!(f, "Dtypes:      {}", comma_list(&self.dtypes))?;
        write!(f, "Byte order:  {}", if self.big_endian { "big-endian" } else { "little-endian" })
    }
}
