//! The header of a safetensors file with the role of every tensor.

use std::collections::HashMap;
use std::io::Read;

use crate::catalog::config::QuantConfig;
use crate::catalog::{Catalog, StoredTensor, TargetDtype, TensorId};
use crate::checkpoint::Checkpoint;
use crate::container::safetensors::{Header, PREFIX_BYTES, parse_header_prefix, read_header};
use crate::error::{AnamnesisError, Result};
use crate::inspect::InspectInfo;
use crate::io::BytesSource;
use crate::limits::{Budget, ParseLimits};
use crate::scheme::{self, Claimed, Row};

pub use crate::catalog::Dtype;
pub use crate::container::safetensors::MAX_SAFETENSORS_HEADER_BYTES;
pub use crate::scheme::{QuantScheme, TensorRole};

/// A tensor of the header.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its first byte and the byte after its last, relative to the data section.
    pub data_offsets: (usize, usize),
    /// The part it plays.
    pub role: TensorRole,
    /// How many values it stands for once decoded.
    values: u64,
}

impl TensorEntry {
    /// Elements as stored.
    #[must_use]
    pub fn num_elements(&self) -> usize {
        self.shape.iter().fold(1, |product: usize, &dim| product.saturating_mul(dim))
    }

    /// Bytes as stored.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.data_offsets.1.saturating_sub(self.data_offsets.0)
    }
}

/// A parsed and classified safetensors header.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SafetensorsHeader {
    /// All tensors, sorted by name.
    pub tensors: Vec<TensorEntry>,
    /// The scheme of most quantised values.
    pub scheme: QuantScheme,
    /// The file's `__metadata__`.
    pub metadata: Option<HashMap<String, String>>,
    /// Bytes of the JSON; data starts eight bytes later.
    pub header_size: usize,
}

/// Iterators over the tensors of one role, and their numbers.
macro_rules! roles {
    ($($role:ident: $iterator:ident, $count:ident, $what:literal;)*) => {
        $(
            #[doc = concat!("The ", $what, ".")]
            pub fn $iterator(&self) -> impl Iterator<Item = &TensorEntry> {
                self.tensors.iter().filter(|tensor| tensor.role == TensorRole::$role)
            }

            #[doc = concat!("How many ", $what, " there are.")]
            #[must_use]
            pub fn $count(&self) -> usize {
                self.$iterator().count()
            }
        )*
    };
}

impl SafetensorsHeader {
    roles! {
        Quantized: quantized_tensors, quantized_count, "quantised weights";
        Scale: scale_tensors, scale_count, "scales";
        Passthrough: passthrough_tensors, passthrough_count, "tensors kept as they are";
        ZeroPoint: zeropoint_tensors, zeropoint_count, "zero points";
        GroupIndex: group_index_tensors, group_index_count, "group indices";
        QuantMap: quant_map_tensors, quant_map_count, "look-up tables";
        NestedScale: nested_scale_tensors, nested_scale_count, "scales of scales";
    }

    /// The scale of a weight: `{name}_scale_inv`, else `{name}_scale`.
    #[must_use]
    pub fn find_scale_for(&self, weight: &str) -> Option<&TensorEntry> {
        ["_scale_inv", "_scale"].iter().find_map(|end| self.find(&format!("{weight}{end}")))
    }

    fn find(&self, name: &str) -> Option<&TensorEntry> {
        let found = self.tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name));
        found.ok().map(|index| &self.tensors[index])
    }

    /// The header of an open safetensors checkpoint, classified with its configuration.
    pub(crate) fn of_checkpoint(checkpoint: &Checkpoint) -> Result<Self> {
        let mut prefix = [0; PREFIX_BYTES as usize];
        checkpoint.sources[0].read_at(0, &mut prefix)?;
        Self::new(&checkpoint.catalog, &checkpoint.claim(), u64::from_le_bytes(prefix))
    }

    fn unconfigured(header: Header) -> Result<Self> {
        let json_bytes = header.json_bytes;
        let catalog = header.into_catalog(0)?;
        let claimed = scheme::claim(&catalog, &QuantConfig::default(), &|_| None);
        Self::new(&catalog, &claimed, json_bytes)
    }

    fn new(catalog: &Catalog, claimed: &Claimed, json_bytes: u64) -> Result<Self> {
        let address = |value: u64| {
            usize::try_from(value).map_err(|_| AnamnesisError::limit("address_space", format!("offset {value}")))
        };
        let entry = |((_, tensor), row): ((TensorId, &StoredTensor), Row)| -> Result<TensorEntry> {
            let start = tensor.extent.offset - PREFIX_BYTES - json_bytes;
            Ok(TensorEntry {
                name: tensor.name.clone(),
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                data_offsets: (address(start)?, address(start + tensor.extent.bytes)?),
                role: row.role,
                values: row.values,
            })
        };
        Ok(Self {
            tensors: catalog.iter().zip(claimed.rows(catalog)).map(entry).collect::<Result<_>>()?,
            scheme: claimed.dominant_scheme(),
            metadata: catalog.metadata.clone().map(|metadata| metadata.into_iter().collect()),
            header_size: address(json_bytes)?,
        })
    }
}

impl From<&SafetensorsHeader> for InspectInfo {
    fn from(header: &SafetensorsHeader) -> Self {
        let rows = header.tensors.iter().map(|tensor| Row {
            role: tensor.role,
            dtype: tensor.dtype,
            bytes: tensor.byte_len() as u64,
            values: tensor.values,
        });
        Self::of_rows(header.scheme, rows, TargetDtype::BF16)
    }
}

/// Parses the header of a whole file in memory; its length must be exactly what the tensors need.
///
/// # Errors
/// `Parse` where anything is malformed, `LimitExceeded` where the header is too long.
pub fn parse_safetensors_header(buffer: &[u8]) -> Result<SafetensorsHeader> {
    parse_safetensors_header_with_limits(buffer, &ParseLimits::default())
}

/// [`parse_safetensors_header`] within limits.
///
/// # Errors
/// As [`parse_safetensors_header`], and `LimitExceeded` where a limit is passed.
pub fn parse_safetensors_header_with_limits(buffer: &[u8], limits: &ParseLimits) -> Result<SafetensorsHeader> {
    SafetensorsHeader::unconfigured(read_header(&BytesSource(buffer), &mut Budget::new(limits))?)
}

/// Parses the header from the start of a stream; the data behind it is neither read nor checked.
///
/// # Errors
/// As [`parse_safetensors_header`], and `Io` where the stream ends early.
pub fn parse_safetensors_header_from_reader<R: Read>(reader: R) -> Result<SafetensorsHeader> {
    parse_safetensors_header_from_reader_with_limits(reader, &ParseLimits::default())
}

/// [`parse_safetensors_header_from_reader`] within limits.
///
/// # Errors
/// As [`parse_safetensors_header_from_reader`], and `LimitExceeded` where a limit is passed.
pub fn parse_safetensors_header_from_reader_with_limits<R: Read>(
    reader: R,
    limits: &ParseLimits,
) -> Result<SafetensorsHeader> {
    SafetensorsHeader::unconfigured(parse_header_prefix(reader, &mut Budget::new(limits))?)
}
