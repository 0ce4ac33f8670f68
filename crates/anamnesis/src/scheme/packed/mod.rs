//! Integer codes packed into 32-bit words, with a scale and a zero point per group of inputs and output: the common ground
//! of GPTQ and AWQ. `value = (code - zero) * scale`.
//!
//! | | GPTQ | AWQ |
//! |---|---|---|
//! | codes | `[in·bits/32, out]`, packed along the inputs | `[in, out/8]`, packed along the outputs |
//! | zero points | `[groups, out·bits/32]` | `[groups, out/8]` |
//! | scales | `[groups, out]` | `[groups, out]` |
//!
//! Stored matrices are `[in, out]`, models want `[out, in]`: tiles are columns of the stored matrix, turned on the way.

mod columns;
mod parts;
mod rows;
mod zeros;

use crate::error::Result;
use crate::scheme::ScaleType;

pub(crate) use columns::ColumnDecoder;
pub(crate) use parts::Parts;
pub(crate) use rows::{PackedBytes, decode_rows};
pub(crate) use zeros::ZeroPoints;

/// How codes are packed into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Words {
    /// GPTQ, this many bits per code: 2, 3, 4 or 8.
    Gptq(u8),
    /// AWQ, four bits in its own order.
    Awq,
}

impl Words {
    pub(crate) fn bits(self) -> u64 {
        match self {
            Self::Gptq(bits) => bits.into(),
            Self::Awq => 4,
        }
    }
}

/// Which group an input belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Grouping {
    /// Groups of this many inputs in order; the last may be short.
    Runs(u64),
    /// A group index per input stands beside the codes.
    Indexed,
}

/// A packed matrix of `inputs` × `outputs` codes.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct PackedMatrix {
    pub words: Words,
    pub inputs: u64,
    pub outputs: u64,
    pub groups: u64,
    pub grouping: Grouping,
    pub zeros: ZeroPoints,
    pub scale: ScaleType,
}

/// Group indices as the decoder uses them, little-endian I32 as they are stored; negative ones and those past the last
/// group are refused. Says whether they are the same as runs of `run` inputs.
pub(crate) fn check_group_index(bytes: &[u8], groups: u64, run: u64) -> Result<bool> {
    let mut is_runs = true;
    for (input, bytes) in bytes.as_chunks::<4>().0.iter().enumerate() {
        let group = i32::from_le_bytes(*bytes);
        if u64::try_from(group).ok().is_none_or(|group| group >= groups) {
            let why = format!("the group index of input {input} is {group}, there are {groups} groups");
            return Err(crate::error::AnamnesisError::parse(why));
        }
        is_runs &= group as u64 == input as u64 / run.max(1);
    }
    Ok(is_runs)
}
