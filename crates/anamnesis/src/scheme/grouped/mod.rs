//! Codes in rows under a grid of scales: the common ground of the schemes that store a weight as it is used, `[out, in]`.
//!
//! A weight is told by six things, each a value that its scheme fills in:
//!
//! | what | as | |
//! |---|---|---|
//! | where codes lie | [`Layout`] | one after the other, in words with gaps, or in planes of bits |
//! | what a code means | [`Meaning`] | a number, a signed number, a four-bit float |
//! | which scale it has | [`Grid`] | one for all, per row, per group, per block; or the group that an index names |
//! | the scales | [`Scales`] | their type, and a scale of scales |
//! | the offsets | [`Offsets`] | none, the same for all, stored like the scales, or packed down their columns |
//! | the rule | [`Arithmetic`] | `(code - offset) * scale` and its kin, and what each step is rounded to |
//!
//! The parts of such a weight are, in this order: codes, scales, offsets where they are stored, the scale of scales, the group
//! index.
//!
//! [`GroupedEncoder`] makes such weights, by the arithmetic of their library.

mod companions;
mod decoder;
mod encoder;
mod layout;
mod scaling;
#[cfg(test)]
mod tests;

use crate::catalog::TargetDtype;
use anamnesis_kernels::float::e2m1;
pub(crate) use anamnesis_kernels::{Arithmetic, Factor, Formula, Goal, Ratio, Step};

use crate::scheme::coder::{Grid, ScaleOp, ScaleType};

pub(crate) use encoder::{GroupedEncoder, ZeroPointStorage};
pub(crate) use layout::{Layout, Order, Unit};
pub(crate) use scaling::{Extremes, Group, Groups, ScaleRule};

/// What a code stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    /// The number itself.
    Unsigned,
    /// A number of eight bits in two's complement.
    Signed,
    /// A number of four bits in two's complement.
    SignedNibble,
    /// A four-bit float, whose code 8 is −0.
    E2m1,
    /// A four-bit float, whose code 8 is +0.
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
                Self::E2m1NoMinusZero if code == 8 => 0.0,
                Self::E2m1 | Self::E2m1NoMinusZero => e2m1::decode(code),
            };
        }
        map
    }
}

/// The scales of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Scales {
    pub kind: ScaleType,
    pub whole: Option<GlobalScale>,
}

/// An F32 that all scales are taken by before they are used: the scale of scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GlobalScale {
    pub takes: ScaleOp,
    /// Whether every matrix of a stack has its own.
    pub per_matrix: bool,
    /// What the scale is rounded to by it, and what the scheme's own library rounds it to.
    pub step: Step,
    pub library: Step,
}

impl GlobalScale {
    /// One that multiplies in F32.
    pub(crate) const fn times(per_matrix: bool) -> Self {
        Self { takes: ScaleOp::Multiply, per_matrix, step: Step::F32, library: Step::F32 }
    }
}

/// The offsets of a weight, one to every scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Offsets {
    None,
    /// The same for all.
    Constant(u8),
    /// Stored as the scales are; `plus` is added.
    Stored {
        kind: ScaleType,
        plus: u8,
    },
    /// Stored as the scales are, with the other sign.
    Negated {
        kind: ScaleType,
    },
    /// Codes of so many bits in 32-bit words, packed down the columns of each matrix: without gaps, or as many in a word as fit
    /// whole.
    PackedDown {
        bits: u8,
        dense: bool,
    },
}

/// A weight whose codes lie in rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Grouped {
    pub layout: Layout,
    pub meaning: Meaning,
    /// Where groups are named by an index, the grid has their scales in the order of groups.
    pub grid: Grid,
    pub scales: Scales,
    pub offsets: Offsets,
    /// Whether an I32 for every column says which group it belongs to.
    pub is_indexed: bool,
    pub arithmetic: Arithmetic,
    /// The scheme in detail, for people.
    pub description: String,
}

/// What the operations of a library are rounded to that calculates in the type of a weight.
pub(crate) const fn step_of(dtype: TargetDtype) -> Step {
    match dtype {
        TargetDtype::F32 => Step::F32,
        TargetDtype::BF16 => Step::Bf16,
        TargetDtype::F16 => Step::F16,
    }
}
