//! Reading and validating the front matter: metadata, tensor infos, tensor offsets.

use super::GgufMetadataValue;
use super::caps::{ALIGNMENT, KV_COUNT, NAME_BYTES, TENSOR_COUNT, TENSOR_DIMS, TENSOR_ELEMENTS};
use super::lazy::LazyMetadata;
use super::metadata::{ENTRY_BYTES, Keep, first_repeated, read_entries};
use super::{ALIGNMENT_KEY, ARCHITECTURE_KEY, DEFAULT_ALIGNMENT, byte_order};
use crate::catalog::{Catalog, Dtype, Extent, Facts, SplitPart, StoredTensor, Subject, Unreadable};
use crate::container::cursor::Cursor;
use crate::container::ggml_types::{GgufType, describe_unknown};
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// The magic of files of both byte orders.
pub(super) const MAGIC: &[u8; 4] = b"GGUF";
/// Minimum bytes of a tensor info: name length, rank, one dimension, type and offset.
const TENSOR_BYTES: u64 = 8 + 4 + 8 + 4 + 8;

/// The validated front matter of a file: names are unique, and tensors are aligned, contiguous, and inside the file.
/// Tensors of unknown type are included.
#[derive(Debug)]
pub(crate) struct GgufHeader {
    pub version: u32,
    pub big_endian: bool,
    pub alignment: u32,
    /// In file order, with unique keys.
    pub metadata: Vec<(String, GgufMetadataValue)>,
    /// In file order.
    pub tensors: Vec<GgufTensorInfo>,
}

/// A tensor of a GGUF file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GgufTensorInfo {
    /// Its name.
    pub name: String,
    /// Its shape in file order: the fastest-varying dimension first.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: GgufType,
    /// Its absolute offset in the file.
    pub data_offset: u64,
    /// Its size in bytes, if the type is known.
    pub byte_len: Option<u64>,
    /// The id of its type.
    pub type_id: u32,
}

impl GgufTensorInfo {
    /// The number of elements.
    #[must_use]
    pub fn num_elements(&self) -> u64 {
        // The product was checked while parsing.
        self.shape.iter().fold(1, |product: u64, &dim| product.saturating_mul(dim as u64))
    }

    /// Its type and size, if it can be decoded.
    ///
    /// # Errors
    /// `Unreadable` if the type is unknown, or undefined in a big-endian file.
    pub(crate) fn stored_as(&self, big_endian: bool) -> std::result::Result<(Dtype, u64), Unreadable> {
        let name = quoted(&self.name);
        let why = match (self.dtype.dtype(), self.byte_len) {
            (Some(dtype), Some(_)) if big_endian && !byte_order::has_big_endian_layout(dtype) => {
                format!("tensor {name} has type {dtype}, whose big-endian layout is not defined")
            }
            (Some(dtype), Some(bytes)) => return Ok((dtype, bytes)),
            _ => format!("tensor {name} has {}", describe_unknown(self.type_id)),
        };
        Err(Unreadable { format: "GGUF", why })
    }
}

impl GgufHeader {
    pub(super) fn read(cursor: &mut Cursor<'_>, keep: Keep, budget: &mut Budget) -> Result<Self> {
        Self::read_with(cursor, budget, |cursor, count, budget| read_entries(cursor, count, keep, budget))
    }

    /// Reads the front matter, and defers the arrays of the metadata.
    pub(super) fn read_lazily(cursor: &mut Cursor<'_>, budget: &mut Budget) -> Result<(Self, LazyMetadata)> {
        let mut lazy = LazyMetadata::default();
        let header = Self::read_with(cursor, budget, |cursor, count, budget| {
            cursor.record();
            let entries = read_entries(cursor, count, Keep::Scalars, budget)?;
            lazy = LazyMetadata::new(cursor.take_recorded(), count, cursor.big_endian);
            Ok(entries)
        })?;
        Ok((header, lazy))
    }

    fn read_with(
        cursor: &mut Cursor<'_>,
        budget: &mut Budget,
        read_metadata: impl FnOnce(&mut Cursor<'_>, usize, &mut Budget) -> Result<Vec<(String, GgufMetadataValue)>>,
    ) -> Result<Self> {
        let version = read_version(cursor)?;
        let tensor_count = cursor.count(TENSOR_BYTES, TENSOR_COUNT, "tensors")?;
        budget.items(tensor_count as u64, "tensors")?;
        let entry_count = cursor.count(ENTRY_BYTES, KV_COUNT, "metadata entries")?;
        budget.items(entry_count as u64, "metadata entries")?;

        let metadata = read_metadata(cursor, entry_count, budget)?;
        let alignment = match metadata.iter().find(|(key, _)| key == ALIGNMENT_KEY) {
            Some((_, value)) => check_alignment(value).map_err(|why| why.into_error(AnamnesisError::parse))?,
            None => DEFAULT_ALIGNMENT,
        };

        let mut tensors = Cursor::with_reserved(tensor_count);
        for _ in 0..tensor_count {
            tensors.push(read_tensor(cursor, alignment, budget)?);
        }
        if let Some(name) = first_repeated(tensors.iter().map(|tensor| tensor.name.as_str())) {
            return Err(AnamnesisError::parse(format!("tensor {} occurs twice", quoted(name))));
        }
        let data = cursor.position().checked_next_multiple_of(u64::from(alignment));
        resolve_offsets(&mut tensors, data.unwrap_or(u64::MAX), alignment, cursor.file_bytes())?;
        Ok(Self { version, big_endian: cursor.big_endian, alignment, metadata, tensors })
    }

    /// The catalog of the tensors, with row-major shapes; offsets are relative to `base`.
    ///
    /// # Errors
    /// `Unsupported` if a type is unknown, or undefined in a big-endian file.
    pub(crate) fn catalog(&self, file: u32, base: u64) -> Result<Catalog> {
        let (mut tensors, mut unreadable) = (Vec::with_capacity(self.tensors.len()), Vec::new());
        for tensor in &self.tensors {
            let (dtype, bytes) = match tensor.stored_as(self.big_endian) {
                Ok(stored) => stored,
                Err(why) => {
                    unreadable.push(why);
                    continue;
                }
            };
            let shape = tensor.shape.iter().rev().copied().collect();
            // Cannot overflow: the source contains this range.
            let extent = Extent { file, offset: base + tensor.data_offset, bytes };
            tensors.push(StoredTensor { name: tensor.name.clone(), dtype, shape, extent });
        }
        let mut catalog = Catalog::new(tensors, None)?;
        catalog.unreadable = unreadable;
        catalog.part = self.split_part()?;
        catalog.unread_metadata = self.metadata.len();
        catalog.facts = Some(self.facts());
        Ok(catalog)
    }

    /// Facts about the file other than its tensors.
    fn facts(&self) -> Facts {
        let architecture = self.get(ARCHITECTURE_KEY).and_then(GgufMetadataValue::as_string);
        let mut facts = Facts::new(format!("GGUF v{}", self.version));
        if let Some(name) = architecture {
            facts = facts.with(Subject::Model, "Arch", name);
        }
        facts = facts.with(Subject::Layout, "Alignment", format!("{} bytes", self.alignment));
        match self.big_endian {
            true => facts.with(Subject::Layout, "Byte order", "big-endian"),
            false => facts,
        }
    }

    /// The position of this file in a split model, if it is part of one.
    fn split_part(&self) -> Result<Option<SplitPart>> {
        let number = |key: &str| {
            let Some(value) = self.get(key) else { return Ok(None) };
            let number = match *value {
                GgufMetadataValue::U8(number) => Some(u32::from(number)),
                GgufMetadataValue::U16(number) => Some(u32::from(number)),
                GgufMetadataValue::U32(number) => Some(number),
                GgufMetadataValue::U64(number) => u32::try_from(number).ok(),
                GgufMetadataValue::I32(number) => u32::try_from(number).ok(),
                GgufMetadataValue::I64(number) => u32::try_from(number).ok(),
                _ => None,
            };
            let wrong = || AnamnesisError::parse(format!("metadata key {} is not a count", quoted(key)));
            number.map(Some).ok_or_else(wrong)
        };
        let Some(count) = number("split.count")?.filter(|&count| count > 1) else { return Ok(None) };
        let missing =
            || AnamnesisError::parse(format!("one of {count} parts does not say which one: split.no is missing"));
        let index = number("split.no")?.ok_or_else(missing)?;
        if index >= count {
            return Err(AnamnesisError::parse(format!("split.no is {index}, there are {count} parts (split.count)")));
        }
        Ok(Some(SplitPart { index, count, tensors: number("split.tensors.count")? }))
    }

    /// The value of a metadata key.
    pub(crate) fn get(&self, key: &str) -> Option<&GgufMetadataValue> {
        self.metadata.iter().find(|(other, _)| other == key).map(|(_, value)| value)
    }
}

/// Reads magic and version; the version determines the byte order.
fn read_version(cursor: &mut Cursor<'_>) -> Result<u32> {
    let refuse = |detail: &str| Err(AnamnesisError::unsupported("GGUF", detail));
    match &cursor.array()? {
        MAGIC => {}
        b"FUGG" => return refuse("the magic is byte-swapped; GGUF files of either byte order start with \"GGUF\""),
        b"GGML" | b"LMGG" => return refuse("this is a GGML file, a format older than GGUF, which is not supported"),
        b"GGMF" | b"FMGG" => return refuse("this is a GGMF file, a format older than GGUF, which is not supported"),
        b"GGJT" | b"TJGG" => return refuse("this is a GGJT file, a format older than GGUF, which is not supported"),
        other => {
            let found = quoted(&String::from_utf8_lossy(other));
            return Err(AnamnesisError::parse(format!("a GGUF file starts with \"GGUF\", this one with {found}")));
        }
    }
    let version = cursor.u32()?;
    let swapped = version.swap_bytes();
    match (version, swapped) {
        (2 | 3, _) => Ok(version),
        (_, 3) => {
            cursor.big_endian = true;
            Ok(swapped)
        }
        (1, _) => refuse("version 1 is not read, versions 2 and 3 are"),
        _ if version.trailing_zeros() >= 16 && version != 0 => {
            refuse(&format!("big-endian version {swapped} is not read, big-endian version 3 is"))
        }
        _ => refuse(&format!("version {version} is not read, versions 2 and 3 are")),
    }
}

/// An invalid `general.alignment`.
pub(super) enum BadAlignment {
    Malformed(String),
    Large(AnamnesisError),
}

impl BadAlignment {
    pub(super) fn into_error(self, malformed: impl Fn(String) -> AnamnesisError) -> AnamnesisError {
        match self {
            Self::Malformed(why) => malformed(why),
            Self::Large(error) => error,
        }
    }
}

pub(super) fn check_alignment(value: &GgufMetadataValue) -> std::result::Result<u32, BadAlignment> {
    let malformed = |why: String| Err(BadAlignment::Malformed(format!("{ALIGNMENT_KEY} {why}")));
    let Some(alignment) = value.as_u32() else {
        return malformed("is not a U32".to_owned());
    };
    if !alignment.is_power_of_two() {
        return malformed(format!("is {alignment}, which is not a power of two"));
    }
    ALIGNMENT.check(u64::from(alignment), "bytes of alignment").map_err(BadAlignment::Large)?;
    Ok(alignment)
}

fn read_tensor(cursor: &mut Cursor<'_>, alignment: u32, budget: &mut Budget) -> Result<GgufTensorInfo> {
    budget.buffer(size_of::<GgufTensorInfo>() as u64, "a tensor's entry")?;
    let name = cursor.string(NAME_BYTES, budget)?.to_owned();
    match read_tensor_fields(cursor, alignment, budget) {
        Ok((shape, type_id, data_offset)) => {
            let dtype = GgufType::from_id(type_id).unwrap_or(GgufType::Unknown);
            let byte_len = check_size(&name, &shape, dtype)?;
            Ok(GgufTensorInfo { name, shape, dtype, data_offset, byte_len, type_id })
        }
        Err(error) => Err(error.within(format_args!("tensor {}", quoted(&name)))),
    }
}

/// Reads shape, type id and relative offset of a tensor.
fn read_tensor_fields(cursor: &mut Cursor<'_>, alignment: u32, budget: &mut Budget) -> Result<(Vec<usize>, u32, u64)> {
    let rank = cursor.u32()?;
    TENSOR_DIMS.check(u64::from(rank), "dimensions")?;
    if rank == 0 {
        return Err(AnamnesisError::parse("it has no dimensions"));
    }
    budget.buffer(u64::from(rank) * 8, "a shape")?;
    let mut shape = Vec::with_capacity(rank as usize);
    for _ in 0..rank {
        let dim = cursor.u64()?;
        let fits = usize::try_from(dim).ok().filter(|_| dim <= i64::MAX as u64);
        shape.push(fits.ok_or_else(|| AnamnesisError::parse(format!("its dimension {dim} is past 2^63")))?);
    }
    let type_id = cursor.u32()?;
    let offset = cursor.u64()?;
    if !offset.is_multiple_of(u64::from(alignment)) {
        return Err(AnamnesisError::parse(format!(
            "its offset {offset} is not a multiple of the alignment {alignment}"
        )));
    }
    Ok((shape, type_id, offset))
}

/// The size of a tensor in bytes, if its type is known. Rows must be whole blocks.
pub(super) fn check_size(name: &str, shape: &[usize], dtype: GgufType) -> Result<Option<u64>> {
    let fault = |what: &str| AnamnesisError::parse(format!("tensor {} of shape {shape:?} {what}", quoted(name)));
    if shape.contains(&0) {
        return Err(fault("has a dimension of 0"));
    }
    let elements = crate::catalog::dtype::elements(shape).ok_or_else(|| fault("has more than 2^64 elements"))?;
    TENSOR_ELEMENTS
        .check(elements, "elements")
        .map_err(|error| error.within(format_args!("tensor {}", quoted(name))))?;
    let Some(known) = dtype.dtype() else { return Ok(None) };
    let block = dtype.block_size();
    if shape.first().is_none_or(|row| row % block != 0) {
        return Err(fault(&format!("has rows that are not a whole number of {dtype} blocks of {block} elements")));
    }
    known.byte_len(elements).map(Some).ok_or_else(|| fault("has more than 2^64 bytes"))
}

/// Makes relative offsets absolute. As in ggml, each tensor must start directly after the padding of the preceding one,
/// and nothing may follow the padding of the last.
fn resolve_offsets(tensors: &mut [GgufTensorInfo], data: u64, alignment: u32, file_bytes: u64) -> Result<()> {
    let mut before: Option<(&str, u64)> = None;
    // The start of the next tensor; unknown after a tensor of unknown size.
    let mut expected = Some(data);
    for tensor in tensors {
        let name = || quoted(&tensor.name);
        let relative = tensor.data_offset;
        let start = data.checked_add(relative);
        // A tensor of unknown size takes at least its first byte.
        let end = start.and_then(|start| start.checked_add(tensor.byte_len.unwrap_or(1)));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(AnamnesisError::parse(format!("tensor {} at offset {relative} ends past 2^64 bytes", name())));
        };
        if end > file_bytes {
            let why = format!("tensor {} ends at byte {end}, past the end of the file ({file_bytes})", name());
            return Err(AnamnesisError::parse(why));
        }
        if let Some((other, other_end)) = before.filter(|&(_, other_end)| start < other_end) {
            let (name, other) = (name(), quoted(other));
            let why =
                format!("tensor {name} starts at byte {start}, inside or before {other}, which ends at {other_end}");
            return Err(AnamnesisError::parse(why));
        }
        if let Some(expected) = expected.filter(|&expected| expected != start) {
            let name = name();
            let why =
                format!("tensor {name} starts at byte {start} and leaves a hole before it: {expected} was expected");
            return Err(AnamnesisError::parse(why));
        }
        tensor.data_offset = start;
        expected = tensor.byte_len.and(end.checked_next_multiple_of(u64::from(alignment)));
        before = Some((&tensor.name, end));
    }
    match expected.filter(|&expected| file_bytes > expected) {
        None => Ok(()),
        Some(expected) => {
            let trailing_bytes = file_bytes - expected;
            Err(AnamnesisError::parse(format!("{trailing_bytes} bytes after the last tensor belong to nothing")))
        }
    }
}
