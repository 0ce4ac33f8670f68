//! Entries: the small tensors that store an HQQ weight's metadata.

use crate::error::{AnamnesisError, Result, quoted};

/// Entries that are read, by their names in the module, in the order of a weight's parts.
pub(super) const READ: [&str; 10] = [
    "shape",
    "nbits",
    "group_size",
    "axis",
    "packing",
    "view_as_float",
    "quant_scale",
    "quant_zero",
    "offload_meta",
    "channel_wise",
];

/// Entries that do not affect the values.
pub(super) const UNREAD: [&str; 6] =
    ["compute_dtype", "encoded_state_dict", "optimize", "round_zero", "stores_quant_config", "unpack_view_dtype"];

/// The largest entry that is read; names of packings are shorter.
pub(super) const MAX_BYTES: u64 = 64;

/// The name and contents of an entry.
pub(super) struct Entry<'a> {
    pub name: &'a str,
    pub bytes: Vec<u8>,
}

impl Entry<'_> {
    fn wrong(&self, needed: &str) -> AnamnesisError {
        AnamnesisError::parse(format!("tensor {} holds {:?}; {needed} is needed", quoted(self.name), self.bytes))
    }

    /// A 32-bit integer.
    pub(super) fn number(&self) -> Result<i64> {
        let bytes = <[u8; 4]>::try_from(&self.bytes[..]).map_err(|_| self.wrong("one I32"))?;
        Ok(i32::from_le_bytes(bytes).into())
    }

    /// Non-negative 64-bit integers.
    pub(super) fn sizes(&self) -> Result<Vec<usize>> {
        let (numbers, rest) = self.bytes.as_chunks::<8>();
        let sizes: Option<Vec<_>> =
            numbers.iter().map(|bytes| usize::try_from(i64::from_le_bytes(*bytes)).ok()).collect();
        sizes.filter(|_| rest.is_empty()).ok_or_else(|| self.wrong("a shape of I64"))
    }

    pub(super) fn flag(&self) -> Result<bool> {
        match self.bytes[..] {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(self.wrong("0 or 1")),
        }
    }

    pub(super) fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.bytes).map_err(|_| self.wrong("text"))
    }
}
