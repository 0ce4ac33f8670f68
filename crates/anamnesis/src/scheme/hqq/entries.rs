//! What the small tensors beside the codes say, once they are read.

use crate::error::{AnamnesisError, Result, quoted};

/// Entries that are read, by their names after the module's; the parts of a weight follow in this order.
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

/// Entries that say nothing about the numbers.
pub(super) const UNREAD: [&str; 6] =
    ["compute_dtype", "encoded_state_dict", "optimize", "round_zero", "stores_quant_config", "unpack_view_dtype"];

/// Bytes of the longest entry that is read: names of packings are shorter.
pub(super) const MAX_BYTES: u64 = 64;

/// An entry, or why it is not there.
pub(super) struct Entry<'a> {
    pub name: &'a str,
    pub bytes: Vec<u8>,
}

impl Entry<'_> {
    fn wrong(&self, needed: &str) -> AnamnesisError {
        AnamnesisError::parse(format!("tensor {} holds {:?}; {needed} is needed", quoted(self.name), self.bytes))
    }

    /// A whole number of 32 bits.
    pub(super) fn number(&self) -> Result<i64> {
        let bytes = <[u8; 4]>::try_from(&self.bytes[..]).map_err(|_| self.wrong("one I32"))?;
        Ok(i32::from_le_bytes(bytes).into())
    }

    /// Integers of 64 bits, none of them negative.
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
