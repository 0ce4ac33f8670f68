//! How MLX computes scales and biases on a CPU.
//!
//! | mode | scale | bias |
//! |---|---|---|
//! | `affine` | the range / the highest code, at least 10⁻⁷, adjusted so that the extreme farther from zero is a whole number of steps | that extreme; 0 if it is zero steps |
//! | `mxfp4`, `mxfp8` | the smallest power of two that is at least magnitude / 6 or / 448; 1 for a group of zeros | |
//! | `nvfp4` | magnitude / 6, rounded to E4M3 | |
//!
//! The scale is negative if the highest value is farther from zero than the lowest. Values are divided by the scale
//! before it is rounded to the type of the weight. A group whose scale underflows its type becomes zeros.

use anamnesis_kernels::{E4m3, Format8};

use crate::catalog::TargetDtype;
use crate::scheme::coder::rounded_to;
use crate::scheme::grouped::{Extremes, Group, ScaleRule};

/// The smallest scale of the mode `affine`.
const SMALLEST_SCALE: f32 = 1e-7;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    Affine {
        bits: u8,
    },
    /// Power-of-two scales; `largest` is the largest value of a code.
    Power {
        largest: u16,
        dtype: TargetDtype,
    },
    Nvfp4(TargetDtype),
}

impl ScaleRule for Rule {
    fn needs_extremes(&self) -> bool {
        matches!(self, Self::Affine { .. })
    }

    fn group(&self, extremes: Extremes, _global: f32) -> Group {
        match *self {
            Self::Affine { bits } => affine(extremes, f32::from((1u16 << bits) - 1)),
            Self::Power { largest, dtype } => {
                let scale = rounded_to(extremes.magnitude() / f32::from(largest), dtype);
                let (exponent, fraction) = (scale.to_bits() >> 23, scale.to_bits() & 0x7F_FFFF);
                Group::of(match exponent + u32::from(fraction > 0) {
                    _ if scale == 0.0 => 1.0,
                    // 2^-127 is the smallest power of two in a byte.
                    0 | 1 if scale < f32::MIN_POSITIVE => f32::from_bits(1 << 22),
                    exponent => f32::from_bits(exponent.min(254) << 23),
                })
            }
            Self::Nvfp4(dtype) => {
                let scale = rounded_to(extremes.magnitude() / 6.0, dtype);
                match E4m3::decode(E4m3::encode(scale)) {
                    // Divided by a huge factor, all values become zero.
                    0.0 => Group { factor: f32::MAX, ..Group::of(0.0) },
                    scale => Group::of(scale),
                }
            }
        }
    }
}

fn affine(Extremes { low, high }: Extremes, bins: f32) -> Group {
    let is_low = low.abs() > high.abs();
    let step = ((high - low) / bins).max(SMALLEST_SCALE);
    let step = if is_low { step } else { -step };
    let edge = if is_low { low } else { high };
    let steps = (edge / step).round_ties_even();
    let (scale, bias) = if steps == 0.0 { (step, 0.0) } else { (edge / steps, edge) };
    Group { offset: bias, shift: bias, ..Group::of(scale) }
}
