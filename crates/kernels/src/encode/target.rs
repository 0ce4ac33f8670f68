//! The code formats of the encoder, as type parameters of the kernel.

use crate::base::float::{E4m3, E5m2, Format8, e2m1};

/// Adding this to a small number rounds the sum to an integer, ties to even; the lowest bits of the sum are that
/// integer.
pub(super) const ROUNDING_BIAS: f32 = 1.5 * (1 << 23) as f32;

/// A code format.
pub(super) trait Target: Copy + Send + Sync + 'static {
    fn code(self, value: f32) -> u8;
}

#[derive(Clone, Copy)]
pub(super) struct ToE4m3;

#[derive(Clone, Copy)]
pub(super) struct ToE2m1;

#[derive(Clone, Copy)]
pub(super) struct ToE2m1KeepsZero;

#[derive(Clone, Copy)]
pub(super) struct ToE2m1TiesToZero;

#[derive(Clone, Copy)]
pub(super) struct ToE2m1SignedZero;

#[derive(Clone, Copy)]
pub(super) struct ToE5m2;

#[derive(Clone, Copy)]
pub(super) struct ToInteger {
    pub low: f32,
    pub high: f32,
    pub plus: u8,
}

impl Target for ToE4m3 {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        E4m3::encode(value)
    }
}

impl Target for ToE2m1 {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        // A zero of either sign becomes +0; a negative value rounded to zero keeps its sign.
        e2m1::encode(value + 0.0)
    }
}

impl Target for ToE2m1KeepsZero {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        e2m1::encode(value)
    }
}

impl Target for ToE2m1TiesToZero {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        let code = magnitude_ties_to_zero(value);
        let sign = if code > 0 { value.to_bits() >> 28 & 8 } else { 0 };
        (sign | code) as u8
    }
}

impl Target for ToE2m1SignedZero {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        (u32::from(value <= 0.0) << 3 | magnitude_ties_to_zero(value)) as u8
    }
}

impl Target for ToE5m2 {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        const LARGEST: f32 = 57344.0;
        let value = if value > -LARGEST { value } else { -LARGEST };
        E5m2::encode(if value < LARGEST { value } else { LARGEST })
    }
}

/// The code of the nearest magnitude of E2M1, ties towards zero.
#[inline(always)]
fn magnitude_ties_to_zero(value: f32) -> u32 {
    const HALFWAY: [f32; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    let magnitude = value.abs();
    let mut code = 0;
    for limit in HALFWAY {
        code += u32::from(magnitude > limit);
    }
    code
}

impl Target for ToInteger {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        let value = if value > self.low { value } else { self.low };
        let value = if value < self.high { value } else { self.high };
        let sum = value + ROUNDING_BIAS;
        (sum.to_bits() as i32).wrapping_sub(ROUNDING_BIAS.to_bits() as i32).wrapping_add(self.plus.into()) as u8
    }
}
