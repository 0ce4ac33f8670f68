//! How llm-compressor computes scales and zero points from the extremes of each group.
//!
//! | rule | scale | zero point |
//! |---|---|---|
//! | [`Rule::Middle`] | magnitude / half of the codes' range | |
//! | [`Rule::Sided`] | (highest − lowest) / the codes' range, where highest ≥ 0 and lowest ≤ 0 | lowest code − lowest / scale |
//! | [`Rule::Power`] | the power of two nearest to the magnitude / the largest power of two of the codes | |
//! | [`Rule::Nvfp4`] | magnitude / 6 × the global scale, to E4M3; the global scale is 448 × 6 / the magnitude of all | |
//!
//! Extremes have the type of the weight, and every operation on them is rounded to it; only the product with the global
//! scale is F32. A scale of zero becomes the epsilon of its type: 2⁻²³, 2⁻⁷ in BF16, 2⁻¹⁰ in F16, 1/8 in E4M3; for
//! power-of-two scales it becomes 1. A magnitude rounds up to the next power of two from 1.75 times its own power of
//! two on.
//!
//! Powers of two beyond F16 overflow in the library: it writes other scales than it calculates with. Magnitudes of
//! 57344 and more, for which that would leave no valid code, are calculated in F32 here.

use anamnesis_kernels::{E4m3, Format8};

use crate::catalog::TargetDtype;
use crate::scheme::coder::rounded_to;
use crate::scheme::grouped::{Extremes, Group, Groups, ScaleRule};

/// The epsilon of E4M3, which replaces a scale of zero.
const EPSILON_E4M3: f32 = 0.125;
/// The largest E4M3 and the largest E2M1.
const LARGEST_E4M3: f32 = 448.0;
const LARGEST_E2M1: f32 = 6.0;
/// The smallest normal number of F16.
const SMALLEST_F16: f32 = 1.0 / 16384.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// Codes symmetric about zero, with `range` steps from the lowest to the highest.
    Middle {
        range: u16,
        dtype: TargetDtype,
    },
    /// Codes of `bits` bits with a zero point.
    Sided {
        bits: u8,
        dtype: TargetDtype,
    },
    /// Float codes whose largest power of two is 2^`largest`.
    Power {
        largest: u8,
        dtype: TargetDtype,
    },
    Nvfp4(TargetDtype),
}

impl ScaleRule for Rule {
    fn needs_extremes(&self) -> bool {
        matches!(self, Self::Sided { .. })
    }

    fn global_scale(&self, all: Extremes) -> Option<f32> {
        let Self::Nvfp4(dtype) = *self else { return None };
        let smallest = if dtype == TargetDtype::F16 { SMALLEST_F16 } else { f32::MIN_POSITIVE };
        // torch divides a number by a tensor as number × (1 / tensor).
        let inverse = rounded_to(1.0 / all.magnitude().max(smallest), dtype);
        let global = rounded_to(inverse * (LARGEST_E4M3 * LARGEST_E2M1), dtype);
        Some(if global.is_finite() { global } else { 1.0 })
    }

    fn group(&self, extremes: Extremes, global: f32) -> Group {
        match *self {
            Self::Middle { range, dtype } => Group::of(stored(extremes.magnitude() / (f32::from(range) / 2.0), dtype)),
            Self::Sided { bits, dtype } => {
                let Extremes { low, high } = extremes.with(Extremes { low: 0.0, high: 0.0 });
                let (lowest, range) = (-f32::from(1u16 << (bits - 1)), f32::from((1u16 << bits) - 1));
                let scale = rounded_to(rounded_to(high - low, dtype) / range, dtype);
                // If all values are zero, the scale is zero too, and so is the zero point.
                let zero_point = match scale {
                    0.0 if low == 0.0 => 0.0,
                    scale => rounded_to(lowest - rounded_to(low / scale, dtype), dtype),
                };
                let zero_point = nearest(zero_point.clamp(lowest, lowest + range));
                Group { offset: zero_point, shift: zero_point, ..Group::of(stored(scale, dtype)) }
            }
            Self::Power { largest, dtype } => Group::of(power(extremes.magnitude(), largest, dtype)),
            Self::Nvfp4(dtype) => nvfp4(extremes, global, dtype),
        }
    }

    fn groups(&self, global: f32, groups: &mut Groups<'_>) {
        match self {
            Self::Nvfp4(TargetDtype::F32) => groups.each(|extremes| nvfp4(extremes, global, TargetDtype::F32)),
            Self::Nvfp4(TargetDtype::BF16) => groups.each(|extremes| nvfp4(extremes, global, TargetDtype::BF16)),
            _ => groups.each(|extremes| self.group(extremes, global)),
        }
    }
}

#[inline(always)]
fn nvfp4(extremes: Extremes, global: f32, dtype: TargetDtype) -> Group {
    let scale = E4m3::decode(E4m3::encode(rounded_to(extremes.magnitude() / LARGEST_E2M1, dtype) * global));
    let scale = if scale == 0.0 { EPSILON_E4M3 } else { scale };
    Group { factor: scale / global, ..Group::of(scale) }
}

/// The power-of-two scale of float codes whose largest power of two is 2^`largest`.
fn power(magnitude: f32, largest: u8, dtype: TargetDtype) -> f32 {
    let nearest = (magnitude.to_bits() + (1 << 21)) >> 23;
    let is_subnormal = dtype == TargetDtype::F16 && f32::from_bits(nearest << 23) < SMALLEST_F16;
    match nearest.saturating_sub(largest.into()) {
        _ if is_subnormal => 1.0,
        0 => f32::from_bits(1 << 22),
        exponent => f32::from_bits(exponent << 23),
    }
}

/// A small number rounded half to even: adding 1.5 × 2²³ leaves no bits for a fraction.
fn nearest(number: f32) -> f32 {
    const LARGE: f32 = 1.5 * (1 << 23) as f32;
    (number + LARGE) - LARGE
}

/// A scale rounded to its type; zero becomes the epsilon of the type.
fn stored(scale: f32, dtype: TargetDtype) -> f32 {
    match rounded_to(scale, dtype) {
        0.0 => match dtype {
            TargetDtype::F32 => f32::EPSILON,
            TargetDtype::BF16 => 1.0 / 128.0,
            TargetDtype::F16 => 1.0 / 1024.0,
        },
        scale => scale,
    }
}
