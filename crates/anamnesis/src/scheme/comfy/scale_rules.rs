//! How comfy-kitchen and convert_to_quant compute scales. `T` is the type of the weight, in which comfy-kitchen rounds.
//!
//! | rule | scale | factor |
//! |---|---|---|
//! | [`Rule::Fp8`] | T(magnitude / 448) | values are multiplied by T(1 / scale) |
//! | [`Rule::Fp8Row`] | 1 / factor | values are multiplied by (1 / magnitude) × 448; magnitudes are at least 1e-12 |
//! | [`Rule::Nvfp4`] | E4M3(magnitude / 6 / global scale); the global scale is T(the weight's magnitude / 2688) | values are divided by the product of both |
//! | [`Rule::Mxfp8`] | the smallest power of two that is at least magnitude / 448; zero for a block of zeros | values are divided by it |
//! | [`Rule::Int8`] | magnitude / 127, at least 1e-30 | values are divided by T(scale) |
//!
//! An FP8 weight of zeros, or of numbers so small that the factor would be infinite in its type, has a power of two as its
//! scale, and a weight of zeros the global scale 1 in NVFP4, where comfy-kitchen would write NaN or its largest codes.

use anamnesis_kernels::{E4m3, Format8};

use crate::catalog::TargetDtype;
use crate::scheme::coder::rounded_to;
use crate::scheme::grouped::{Extremes, Group, ScaleRule};

const LARGEST_E4M3: f32 = 448.0;
const LARGEST_E2M1: f32 = 6.0;
const LARGEST_INTEGER: f32 = 127.0;
/// The smallest magnitude of a row of FP8, and the smallest scale of INT8.
const SMALLEST_MAGNITUDE: f32 = 1e-12;
const SMALLEST_SCALE: f32 = 1e-30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    Fp8(TargetDtype),
    Fp8Row,
    Nvfp4(TargetDtype),
    Mxfp8,
    Int8(TargetDtype),
}

/// The smallest normal number of a type.
const fn smallest_normal(dtype: TargetDtype) -> f32 {
    match dtype {
        TargetDtype::F16 => 6.103_515_6e-5,
        TargetDtype::BF16 | TargetDtype::F32 => f32::MIN_POSITIVE,
    }
}

/// A power of two that is a factor of any type.
const fn largest_factor(dtype: TargetDtype) -> f32 {
    match dtype {
        TargetDtype::F16 => 32768.0,
        TargetDtype::BF16 | TargetDtype::F32 => f32::from_bits((127 + 120) << 23),
    }
}

impl ScaleRule for Rule {
    fn global_scale(&self, all: Extremes) -> Option<f32> {
        let Self::Nvfp4(dtype) = *self else { return None };
        let global = rounded_to(all.magnitude() / (LARGEST_E2M1 * LARGEST_E4M3), dtype);
        Some(if global == 0.0 { 1.0 } else { global })
    }

    fn group(&self, extremes: Extremes, global: f32) -> Group {
        let magnitude = extremes.magnitude();
        match *self {
            Self::Fp8(dtype) => {
                let scale = rounded_to(magnitude / LARGEST_E4M3, dtype);
                match rounded_to(1.0 / scale, dtype) {
                    factor if factor.is_finite() => Group { factor, ..Group::of(scale) },
                    _ => Group { factor: largest_factor(dtype), ..Group::of(1.0 / largest_factor(dtype)) },
                }
            }
            Self::Fp8Row => {
                let factor = (1.0 / magnitude.max(SMALLEST_MAGNITUDE)) * LARGEST_E4M3;
                Group { factor, ..Group::of(1.0 / factor) }
            }
            Self::Nvfp4(_) => {
                let scale = E4m3::decode(E4m3::encode((magnitude / LARGEST_E2M1 / global).min(LARGEST_E4M3)));
                let product = global * scale;
                // The codes of a block whose scales underflow are zero whatever they are divided by.
                Group { factor: if product == 0.0 { 1.0 } else { product }, ..Group::of(scale) }
            }
            Self::Mxfp8 => {
                // The logarithm is rounded to F32, so a value just above a power of two counts as that power.
                let least = f64::from((magnitude / LARGEST_E4M3).max(f32::from_bits(1 << 22)));
                let exponent = (least.log2() as f32).ceil() + 127.0;
                match (exponent.clamp(0.0, 254.0) as u32) << 23 {
                    0 => Group { factor: 1.0, ..Group::of(0.0) },
                    bits => Group::of(f32::from_bits(bits)),
                }
            }
            Self::Int8(dtype) => {
                let scale = (magnitude / LARGEST_INTEGER).max(SMALLEST_SCALE);
                let factor = match rounded_to(scale, dtype) {
                    0.0 => smallest_normal(dtype),
                    factor => factor,
                };
                Group { factor, ..Group::of(scale) }
            }
        }
    }
}
