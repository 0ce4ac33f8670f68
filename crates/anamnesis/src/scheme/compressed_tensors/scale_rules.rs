//! How compressed-tensors finds the scales of a weight from the extremes of its groups.
//!
//! | rule | scale | zero point |
//! |---|---|---|
//! | [`Rule::Middle`] | magnitude / half of the codes' range | |
//! | [`Rule::Sided`] | (highest − lowest) / the codes' range, zero being among them | lowest code − lowest / scale |
//! | [`Rule::Power`] | the power of two nearest to the magnitude, over the largest power of the codes | |
//! | [`Rule::Nvfp4`] | magnitude / 6 × the global scale, to E4M3; the global scale is 448 × 6 / the magnitude of all | |
//!
//! The first two are calculated in F32 and rounded to the type of the weight, in which values are divided by them. A scale of
//! zero becomes 2⁻²³, or 1/8 in E4M3. A magnitude is nearer to the next power of two from 1.75 of its own on.

use anamnesis_kernels::float::{bf16, f16};
use anamnesis_kernels::{E4m3, Format8};

use crate::catalog::TargetDtype;
use crate::scheme::grouped::{Extremes, Group, Groups, ScaleRule};

/// What stands in for a scale of zero.
const NOT_ZERO: f32 = f32::EPSILON;
/// The same among E4M3 scales.
const NOT_ZERO_E4M3: f32 = 0.125;
/// The largest E4M3 and the largest E2M1.
const LARGEST_E4M3: f32 = 448.0;
const LARGEST_E2M1: f32 = 6.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// Codes on both sides of zero, from the lowest to the highest so many steps.
    Middle {
        range: u16,
        dtype: TargetDtype,
    },
    /// Codes of so many bits, with a zero point.
    Sided {
        bits: u8,
        dtype: TargetDtype,
    },
    /// Floats whose largest power of two is this one.
    Power {
        largest: u8,
    },
    Nvfp4,
}

impl ScaleRule for Rule {
    fn is_sided(&self) -> bool {
        matches!(self, Self::Sided { .. })
    }

    fn whole(&self, all: Extremes) -> Option<f32> {
        if *self != Self::Nvfp4 {
            return None;
        }
        // A number over a tensor is the number times the tensor's inverse, as torch has it.
        let whole = (1.0 / all.magnitude().max(f32::MIN_POSITIVE)) * (LARGEST_E4M3 * LARGEST_E2M1);
        Some(if whole.is_finite() { whole } else { 1.0 })
    }

    fn group(&self, extremes: Extremes, whole: f32) -> Group {
        match *self {
            Self::Middle { range, dtype } => Group::of(stored(extremes.magnitude() / (f32::from(range) / 2.0), dtype)),
            Self::Sided { bits, dtype } => {
                let Extremes { low, high } = extremes.with(Extremes { low: 0.0, high: 0.0 });
                let (lowest, range) = (-f32::from(1u16 << (bits - 1)), f32::from((1u16 << bits) - 1));
                let scale = (high - low) / range;
                // Without values but zero there is nothing to divide by, and the zero point is zero.
                let zero_point = if scale == 0.0 { 0.0 } else { lowest - low / scale };
                let zero_point = nearest(zero_point.clamp(lowest, lowest + range));
                Group { offset: zero_point, shift: zero_point, ..Group::of(stored(scale, dtype)) }
            }
            Self::Power { largest } => {
                let nearest = (extremes.magnitude().to_bits() + (1 << 21)) >> 23;
                Group::of(match nearest.saturating_sub(largest.into()) {
                    0 => f32::from_bits(1 << 22),
                    exponent => f32::from_bits(exponent << 23),
                })
            }
            Self::Nvfp4 => nvfp4(extremes, whole),
        }
    }

    fn groups(&self, whole: f32, groups: &mut Groups<'_>) {
        match self {
            Self::Nvfp4 => groups.each(|extremes| nvfp4(extremes, whole)),
            _ => groups.each(|extremes| self.group(extremes, whole)),
        }
    }
}

#[inline(always)]
fn nvfp4(extremes: Extremes, whole: f32) -> Group {
    let scale = E4m3::decode(E4m3::encode(extremes.magnitude() / LARGEST_E2M1 * whole));
    let scale = if scale == 0.0 { NOT_ZERO_E4M3 } else { scale };
    Group { factor: scale / whole, ..Group::of(scale) }
}

/// The nearest whole number of a small one, halves to even: beside so large a number there is no room for a fraction.
fn nearest(number: f32) -> f32 {
    const LARGE: f32 = 1.5 * (1 << 23) as f32;
    (number + LARGE) - LARGE
}

/// A scale as its type holds it, never zero.
fn stored(scale: f32, dtype: TargetDtype) -> f32 {
    let scale = match dtype {
        TargetDtype::F32 => scale,
        TargetDtype::BF16 => bf16::decode(bf16::encode(scale)),
        TargetDtype::F16 => f16::decode(f16::encode(scale)),
    };
    if scale == 0.0 { NOT_ZERO } else { scale }
}
