//! Integer codes packed into 32-bit words, with a scale and a zero point for each output and group of inputs, as GPTQ
//! and AWQ store them. `value = (code - zero) * scale`.
//!
//! | | GPTQ | AWQ |
//! |---|---|---|
//! | codes | `[in·bits/32, out]`, packed along the inputs | `[in, out/8]`, packed along the outputs |
//! | zero points | `[groups, out·bits/32]` | `[groups, out/8]` |
//! | scales | `[groups, out]` | `[groups, out]` |
//!
//! Stored matrices are `[in, out]`, decoded weights `[out, in]`: a tile is a strip of columns of the stored matrix,
//! which is transposed while it is decoded.

mod auto_round;
mod columns;
#[cfg(feature = "encode")]
mod encoder;
mod groups;
mod parts;
mod planar;
mod rows;
mod zeros;

use crate::scheme::coder::ScaleType;

pub(crate) use auto_round::{AutoRoundPacking, auto_round_packing};
pub(crate) use columns::{ColumnDecoder, Dialect};
#[cfg(feature = "encode")]
pub(crate) use encoder::{PackedEncoder, check_shape};
pub(crate) use groups::{InputGroups, check_group_index};
pub(crate) use parts::{PART_NAMES, Parts};
pub(crate) use planar::{BLOCK, has_two_packings, is_planar, unpack as unpack_planes};
pub(crate) use rows::{PackedBytes, RowDecoder};
pub(crate) use zeros::ZeroPoints;

/// How codes are packed into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Words {
    /// GPTQ, this many bits per code: 2, 3, 4 or 8, and in bit planes 3, 5, 6 or 7.
    Gptq(u8),
    /// AWQ, four bits in AWQ's order.
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
    /// The group of each input is stored in a group index (`g_idx`).
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

impl PackedMatrix {
    /// The inputs that share a word of the stored matrix.
    pub(crate) fn inputs_per_word(&self) -> usize {
        match self.words {
            Words::Gptq(bits) => 32 / usize::from(bits),
            Words::Awq => 1,
        }
    }
}
