//! Group-wise quantised matrices: rows of codes with a grid of scales. This is shared by the schemes that store a
//! weight in its own orientation, `[out, in]`.
//!
//! A weight is described by six values that its scheme fills in:
//!
//! | property | type | |
//! |---|---|---|
//! | layout of codes | [`Layout`] | consecutive, in words with gaps, or in bit planes |
//! | value of a code | [`Meaning`] | an unsigned or signed integer, or a four-bit float |
//! | scale of a code | [`Grid`] | one for all, per row, per group, per block; or by a group index |
//! | scales | [`Scales`] | their type, and a global scale |
//! | offsets | [`Offsets`] | none, the same for all, stored like the scales, or packed down the columns |
//! | arithmetic | [`Arithmetic`] | `(code - offset) * scale` and its variants, and the type each step is rounded to |
//!
//! The parts of a weight are, in this order: codes, scales, offsets if they are stored, the global scale, the group
//! index.
//!
//! [`GroupedEncoder`] encodes such weights, by the arithmetic of the scheme's library.

mod companions;
mod decoder;
#[cfg(feature = "encode")]
mod encoder;
mod layout;
#[cfg(feature = "encode")]
mod scaling;
#[cfg(test)]
mod tests;

use crate::catalog::TargetDtype;
use anamnesis_kernels::float::{e2m1, f16};
pub(crate) use anamnesis_kernels::{Arithmetic, Formula, Step};
#[cfg(feature = "encode")]
pub(crate) use anamnesis_kernels::{Factor, Goal, Ratio};

use crate::scheme::bnb::NF4_MAP;
use crate::scheme::coder::{Grid, ScaleOp, ScaleType};

#[cfg(feature = "encode")]
pub(crate) use encoder::{GroupedEncoder, ZeroPointStorage};
pub(crate) use layout::{Layout, Order, Unit};
#[cfg(feature = "encode")]
pub(crate) use scaling::{Extremes, Group, Groups, ScaleRule};

/// The value of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    /// An unsigned integer.
    Unsigned,
    /// An eight-bit integer in two's complement.
    Signed,
    /// A four-bit integer in two's complement.
    SignedNibble,
    /// A four-bit integer that is stored plus 8.
    CentredNibble,
    /// An entry of the NF4 table, in half precision.
    HalfNf4,
    /// An entry of SINQ's NF3 table, in half precision.
    HalfNf3,
    /// A four-bit float; code 8 is −0.
    E2m1,
    /// A four-bit float; code 8 is +0.
    E2m1NoMinusZero,
}

impl Meaning {
    /// The values of codes of up to four bits.
    fn map(self) -> [f32; 16] {
        let mut map = [0.0; 16];
        for (value, code) in map.iter_mut().zip(0u8..) {
            *value = match self {
                Self::Unsigned | Self::Signed => code.into(),
                Self::SignedNibble => f32::from(code) - if code < 8 { 0.0 } else { 16.0 },
                Self::CentredNibble => f32::from(code) - 8.0,
                Self::HalfNf4 => half(NF4_MAP[usize::from(code)]),
                Self::HalfNf3 => half(NF3[usize::from(code % 8)]),
                Self::E2m1NoMinusZero if code == 8 => 0.0,
                Self::E2m1 | Self::E2m1NoMinusZero => e2m1::decode(code),
            };
        }
        map
    }
}

/// SINQ's NF3 table.
const NF3: [f32; 8] = [-1.0, -0.535_022_74, -0.246_931_4, 0.0, 0.183_337_52, 0.381_993_95, 0.622_985_66, 1.0];

/// The nearest number of half precision.
fn half(value: f32) -> f32 {
    f16::decode(f16::encode(value))
}

/// The scales of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Scales {
    pub kind: ScaleType,
    pub global: Option<GlobalScale>,
}

/// The global scale: an F32 that every scale is multiplied or divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GlobalScale {
    pub op: ScaleOp,
    /// Whether every matrix of a stack has its own global scale.
    pub per_matrix: bool,
    /// The type that the result is rounded to.
    pub step: Step,
    /// The type that the scheme's own library rounds the result to.
    pub library: Step,
}

impl GlobalScale {
    /// A global scale that scales are multiplied by in F32.
    pub(crate) const fn times(per_matrix: bool) -> Self {
        Self { op: ScaleOp::Multiply, per_matrix, step: Step::F32, library: Step::F32 }
    }
}

/// The offsets (zero points) of a weight, one per scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Offsets {
    None,
    /// The same for all.
    Constant(u8),
    /// Stored like the scales; `plus` is added.
    Stored {
        kind: ScaleType,
        plus: u8,
    },
    /// Stored like the scales, with the opposite sign.
    Negated {
        kind: ScaleType,
    },
    /// Codes of `bits` bits in 32-bit words, packed down the columns of each matrix: without gaps if `dense`, otherwise
    /// only whole codes in a word.
    PackedDown {
        bits: u8,
        dense: bool,
    },
}

/// A group-wise quantised weight, and its decoder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Grouped {
    pub layout: Layout,
    pub meaning: Meaning,
    /// The grid of scales. With a group index, its columns are groups.
    pub grid: Grid,
    pub scales: Scales,
    pub offsets: Offsets,
    /// Whether a group index (`g_idx`) stores the group of every column as an I32.
    pub is_indexed: bool,
    pub arithmetic: Arithmetic,
    /// A human-readable description of the format.
    pub description: String,
}

/// The rounding of operations in a library that calculates in the type of the weight.
pub(crate) const fn step_of(dtype: TargetDtype) -> Step {
    match dtype {
        TargetDtype::F32 => Step::F32,
        TargetDtype::BF16 => Step::Bf16,
        TargetDtype::F16 => Step::F16,
    }
}
