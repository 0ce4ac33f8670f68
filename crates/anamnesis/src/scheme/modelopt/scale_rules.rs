//! How ModelOpt computes scales.
//!
//! | rule | scale |
//! |---|---|
//! | [`Rule::Fp8`] | the weight's magnitude / 448, in F32; values are divided by it in the type of the weight |
//! | [`Rule::Mxfp8`] | the smallest power of two that is at least magnitude / 448 |
//! | [`Rule::Nvfp4`] | magnitude / (6 × the global scale), at least 2⁻⁹, rounded to E4M3; the global scale is the weight's magnitude / (448 × 6) |
//!
//! A group of zeros has the scale 1, and so has a weight of zeros, which ModelOpt itself would encode to NaN.

use anamnesis_kernels::{E4m3, Format8};

use crate::scheme::grouped::{Extremes, Group, Groups, ScaleRule};

const LARGEST_E4M3: f32 = 448.0;
const LARGEST_E2M1: f32 = 6.0;
/// The smallest scale of NVFP4: the smallest positive E4M3.
const SMALLEST_SCALE: f32 = 1.0 / 512.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    Fp8,
    Mxfp8,
    Nvfp4,
}

impl ScaleRule for Rule {
    fn global_scale(&self, all: Extremes) -> Option<f32> {
        let global = all.magnitude() / (LARGEST_E2M1 * LARGEST_E4M3);
        (*self == Self::Nvfp4).then_some(if global == 0.0 { 1.0 } else { global })
    }

    fn group(&self, extremes: Extremes, global: f32) -> Group {
        let magnitude = extremes.magnitude();
        match *self {
            Self::Fp8 => match magnitude / LARGEST_E4M3 {
                0.0 => Group::of(1.0),
                scale => Group::of(scale),
            },
            Self::Mxfp8 => {
                // The logarithm is rounded to F32, so a value just above a power of two counts as that power.
                let exponent = match magnitude / LARGEST_E4M3 {
                    0.0 => -127.0,
                    scale => (f64::from(scale).log2() as f32).ceil().clamp(-127.0, 127.0),
                };
                let power = |exponent: f32| f64::from(exponent).exp2() as f32;
                Group { factor: power(-exponent), ..Group::of(power(exponent)) }
            }
            Self::Nvfp4 => nvfp4(extremes, global),
        }
    }

    fn groups(&self, global: f32, groups: &mut Groups<'_>) {
        match self {
            Self::Nvfp4 => groups.each(|extremes| nvfp4(extremes, global)),
            _ => groups.each(|extremes| self.group(extremes, global)),
        }
    }
}

#[inline(always)]
fn nvfp4(extremes: Extremes, global: f32) -> Group {
    let scale = extremes.magnitude() / (LARGEST_E2M1 * global);
    let scale = if scale == 0.0 { 1.0 } else { scale.max(SMALLEST_SCALE) };
    let scale = E4m3::decode(E4m3::encode(scale));
    // If the product of both scales underflows, all values of the group become zero anyway.
    let underflows = scale * global == 0.0;
    let factor = if underflows { 1.0 } else { scale * global };
    Group { factor, ..Group::of(if underflows { 1.0 } else { scale }) }
}
