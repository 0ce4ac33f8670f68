//! The header of a safetensors file, with the role of every tensor.

use std::collections::HashMap;
use std::io::Read;

use super::explain::{explain_head, explained};
use crate::catalog::{Catalog, Metadata, Rounding, StoredTensor, TargetDtype, TensorId};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::container::safetensors::{Header, PREFIX_BYTES, parse_header_prefix, read_header};
use crate::error::{AnamnesisError, Result};
use crate::inspect::InspectInfo;
use crate::io::BytesSource;
use crate::limits::{Budget, ParseLimits};
use crate::quant_config::QuantConfig;
use crate::scheme::{self, Blocks, Claimed, ClaimedTensor};

pub use crate::catalog::Dtype;
pub use crate::container::safetensors::MAX_SAFETENSORS_HEADER_BYTES;
pub use crate::scheme::{QuantScheme, TensorRole};

/// A tensor of the header.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its first byte and the byte after its last, relative to the data section.
    pub data_offsets: (usize, usize),
    /// Its role.
    pub role: TensorRole,
    /// Number of values after decoding, if it can be decoded.
    values: Option<u64>,
}

impl TensorEntry {
    /// Number of stored elements.
    #[must_use]
    pub fn num_elements(&self) -> usize {
        self.shape.iter().fold(1, |product: usize, &dim| product.saturating_mul(dim))
    }

    /// Size of the stored data in bytes.
    #[must_use]
    pub const fn byte_len(&self) -> usize {
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
    /// Size of the JSON header in bytes; tensor data starts eight bytes later.
    pub header_size: usize,
    /// Bits and group size of the first GPTQ weight.
    pub gptq_config: Option<GptqConfig>,
    /// Bits and group size of the first AWQ weight.
    pub awq_config: Option<AwqConfig>,
    /// Block size of the first four-bit BitsAndBytes weight.
    pub bnb_config: Option<BnbConfig>,
}

/// Bits and group size of a GPTQ file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct GptqConfig {
    /// Bits per code.
    pub bits: u8,
    /// Inputs per group.
    pub group_size: usize,
}

/// Bits and group size of an AWQ file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AwqConfig {
    /// Bits per code.
    pub bits: u8,
    /// Inputs per group.
    pub group_size: usize,
}

/// Block size of a four-bit BitsAndBytes file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BnbConfig {
    /// Values per block.
    pub block_size: usize,
    /// Whether the scales are quantised too.
    pub double_quant: bool,
}

/// The companions of a GPTQ weight.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GptqCompanions<'a> {
    /// Its scales.
    pub scales: &'a TensorEntry,
    /// Its zero points.
    pub qzeros: &'a TensorEntry,
    /// Its group index.
    pub g_idx: Option<&'a TensorEntry>,
}

/// The companions of an AWQ weight.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AwqCompanions<'a> {
    /// Its scales.
    pub scales: &'a TensorEntry,
    /// Its zero points.
    pub qzeros: &'a TensorEntry,
}

/// The companions of a four-bit BitsAndBytes weight.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Bnb4Companions<'a> {
    /// Its scales.
    pub absmax: &'a TensorEntry,
    /// Its codebook.
    pub quant_map: &'a TensorEntry,
    /// The scales of its quantised scales.
    pub nested_absmax: Option<&'a TensorEntry>,
    /// The codebook of its quantised scales.
    pub nested_quant_map: Option<&'a TensorEntry>,
    /// Its description.
    pub quant_state: Option<&'a TensorEntry>,
}

/// Iterators over the tensors of one role, and their counts.
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

    /// The companions of a GPTQ weight, by the name of its `.qweight`.
    #[must_use]
    pub fn find_gptq_companions(&self, qweight: &str) -> Option<GptqCompanions<'_>> {
        let module = qweight.strip_suffix("qweight")?;
        let find = |end: &str| self.find(&format!("{module}{end}"));
        Some(GptqCompanions { scales: find("scales")?, qzeros: find("qzeros")?, g_idx: find("g_idx") })
    }

    /// The companions of an AWQ weight, by the name of its `.qweight`.
    #[must_use]
    pub fn find_awq_companions(&self, qweight: &str) -> Option<AwqCompanions<'_>> {
        self.find_gptq_companions(qweight).map(|found| AwqCompanions { scales: found.scales, qzeros: found.qzeros })
    }

    /// The companions of a four-bit BitsAndBytes weight, by its name.
    #[must_use]
    pub fn find_bnb4_companions(&self, weight: &str) -> Option<Bnb4Companions<'_>> {
        let find = |end: &str| self.find(&format!("{weight}.{end}"));
        let state = format!("{weight}.quant_state.bitsandbytes__");
        let first = self.tensors.partition_point(|tensor| tensor.name.as_str() < state.as_str());
        Some(Bnb4Companions {
            absmax: find("absmax")?,
            quant_map: find("quant_map")?,
            nested_absmax: find("nested_absmax"),
            nested_quant_map: find("nested_quant_map"),
            quant_state: self.tensors.get(first).filter(|tensor| tensor.name.starts_with(&state)),
        })
    }

    /// The scale of an INT8 BitsAndBytes weight: `x.SCB` for `x.weight`.
    #[must_use]
    pub fn find_bnb_int8_scb(&self, weight: &str) -> Option<&TensorEntry> {
        self.find(&format!("{}SCB", weight.strip_suffix("weight")?))
    }

    fn find(&self, name: &str) -> Option<&TensorEntry> {
        let found = self.tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name));
        found.ok().map(|index| &self.tensors[index])
    }

    /// The header of an open safetensors checkpoint, with roles according to its configuration.
    pub(crate) fn of_checkpoint(checkpoint: &Checkpoint) -> Result<Self> {
        let mut prefix = [0; PREFIX_BYTES as usize];
        checkpoint.sources[0].read_at(0, &mut prefix)?;
        Self::new(&checkpoint.catalog, checkpoint.claimed(), u64::from_le_bytes(prefix))
    }

    fn unconfigured(header: Header) -> Result<Self> {
        let json_bytes = header.json_bytes;
        let catalog = header.into_catalog(0)?;
        let claimed = scheme::claim(&catalog, &QuantConfig::default(), &|_| None, false, Rounding::Once);
        Self::new(&catalog, &claimed, json_bytes)
    }

    fn new(catalog: &Catalog, claimed: &Claimed, json_bytes: u64) -> Result<Self> {
        let address = |value: u64| {
            usize::try_from(value).map_err(|_| AnamnesisError::limit("address_space", format!("offset {value}")))
        };
        let entry = |((_, tensor), row): ((TensorId, &StoredTensor), ClaimedTensor)| -> Result<TensorEntry> {
            // The header length is read again, and the file may have changed in between.
            let start = tensor.extent.offset.checked_sub(PREFIX_BYTES).and_then(|start| start.checked_sub(json_bytes));
            let start = start.ok_or_else(|| AnamnesisError::parse("the file changed while it was read"))?;
            Ok(TensorEntry {
                name: tensor.name.clone(),
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                data_offsets: (address(start)?, address(start + tensor.extent.bytes)?),
                role: row.role,
                values: row.values,
            })
        };
        let blocks = |scheme: QuantScheme| {
            let weight = claimed.weights.iter().find(|weight| weight.scheme == scheme)?;
            let blocks = weight.blocks?;
            Some((blocks, usize::try_from(blocks.size).ok()?))
        };
        Ok(Self {
            gptq_config: blocks(QuantScheme::Gptq)
                .map(|(Blocks { bits, .. }, group_size)| GptqConfig { bits, group_size }),
            awq_config: blocks(QuantScheme::Awq)
                .map(|(Blocks { bits, .. }, group_size)| AwqConfig { bits, group_size }),
            bnb_config: blocks(QuantScheme::Bnb4)
                .map(|(Blocks { nested, .. }, block_size)| BnbConfig { block_size, double_quant: nested }),
            tensors: catalog.iter().zip(claimed.rows(catalog)).map(entry).collect::<Result<_>>()?,
            scheme: claimed.dominant_scheme(catalog),
            metadata: catalog.metadata.as_ref().map(texts),
            header_size: address(json_bytes)?,
        })
    }
}

/// The metadata of a safetensors file, which has only strings.
fn texts(metadata: &Metadata) -> HashMap<String, String> {
    metadata.iter().filter_map(|(key, value)| Some((key.clone(), value.as_string()?.to_owned()))).collect()
}

impl From<&SafetensorsHeader> for InspectInfo {
    fn from(header: &SafetensorsHeader) -> Self {
        let rows = header.tensors.iter().map(|tensor| ClaimedTensor {
            role: tensor.role,
            dtype: tensor.dtype,
            bytes: tensor.byte_len() as u64,
            values: tensor.values,
        });
        Self::of_rows(header.scheme, rows, TargetDtype::BF16)
    }
}

/// Parses the header of a whole file in memory; the file must end with the last tensor.
///
/// # Errors
/// `Parse` if anything is malformed, `LimitExceeded` if the header is too long.
pub fn parse_safetensors_header(buffer: &[u8]) -> Result<SafetensorsHeader> {
    parse_safetensors_header_with_limits(buffer, &ParseLimits::default())
}

/// [`parse_safetensors_header`] within limits.
///
/// # Errors
/// As [`parse_safetensors_header`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_safetensors_header_with_limits(buffer: &[u8], limits: &ParseLimits) -> Result<SafetensorsHeader> {
    let source = BytesSource(buffer);
    let header = read_header(&source, &mut Budget::new(limits));
    SafetensorsHeader::unconfigured(explained(header, Format::Safetensors, &source)?)
}

/// Parses the header at the start of a stream; tensor data is neither read nor checked.
///
/// # Errors
/// As [`parse_safetensors_header`], and `Io` if the stream ends early.
pub fn parse_safetensors_header_from_reader<R: Read>(reader: R) -> Result<SafetensorsHeader> {
    parse_safetensors_header_from_reader_with_limits(reader, &ParseLimits::default())
}

/// [`parse_safetensors_header_from_reader`] within limits.
///
/// # Errors
/// As [`parse_safetensors_header_from_reader`], and `LimitExceeded` if a limit is exceeded.
pub fn parse_safetensors_header_from_reader_with_limits<R: Read>(
    reader: R,
    limits: &ParseLimits,
) -> Result<SafetensorsHeader> {
    let mut reader = RecordingReader { reader, head: Vec::new() };
    let header = parse_header_prefix(&mut reader, &mut Budget::new(limits));
    SafetensorsHeader::unconfigured(
        header.map_err(|error| explain_head(error, Format::Safetensors, &reader.into_head()))?,
    )
}

/// Number of bytes by which the format of a stream is recognised.
const HEAD_BYTES: usize = 512;

/// A reader that records its first bytes.
struct RecordingReader<R> {
    reader: R,
    head: Vec<u8>,
}

impl<R: Read> RecordingReader<R> {
    /// The first bytes, reading more of them if necessary. If reading fails, the bytes so far have to do.
    fn into_head(self) -> Vec<u8> {
        let Self { reader, mut head } = self;
        let more = HEAD_BYTES.saturating_sub(head.len());
        let _ = reader.take(more as u64).read_to_end(&mut head);
        head
    }
}

impl<R: Read> Read for RecordingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.reader.read(buffer)?;
        let more = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend(buffer.iter().take(bytes.min(more)));
        Ok(bytes)
    }
}
