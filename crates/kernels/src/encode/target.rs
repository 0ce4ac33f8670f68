//! Numbers to their nearest codes, known when the kernel is compiled.

use crate::base::float::{E4m3, E5m2, Format8, e2m1};

/// Added to a small number, this leaves no room for a fraction: the sum is rounded, ties to even, and its lowest bits
/// are the whole number.
pub(super) const WHOLE: f32 = 1.5 * (1 << 23) as f32;

/// Codes of a kind, known when the kernel is compiled.
pub(super) trait Target: Copy + Send + Sync + 'static {
    fn code(self, value: f32) -> u8;
}

#[derive(Clone, Copy)]
pub(super) struct ToE4m3;

#[derive(Clone, Copy)]
pub(super) struct ToE2m1;

#[derive(Clone, Copy)]
pub(super) struct ToE2m1Inwards;

#[derive(Clone, Copy)]
pub(super) struct ToE2m1Below;

#[derive(Clone, Copy)]
pub(super) struct ToE5m2;

#[derive(Clone, Copy)]
pub(super) struct ToWhole {
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
        // A zero of either sign becomes +0; a negative number that is rounded to zero keeps its sign.
        e2m1::encode(value + 0.0)
    }
}

impl Target for ToE2m1Inwards {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        let code = inwards(value);
        let sign = if code > 0 { value.to_bits() >> 28 & 8 } else { 0 };
        (sign | code) as u8
    }
}

impl Target for ToE2m1Below {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        (u32::from(value <= 0.0) << 3 | inwards(value)) as u8
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

/// The code of the nearest magnitude of E2M1, halves towards zero.
#[inline(always)]
fn inwards(value: f32) -> u32 {
    const HALFWAY: [f32; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    let magnitude = value.abs();
    let mut code = 0;
    for limit in HALFWAY {
        code += u32::from(magnitude > limit);
    }
    code
}

impl Target for ToWhole {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        let value = if value > self.low { value } else { self.low };
        let value = if value < self.high { value } else { self.high };
        let sum = value + WHOLE;
        (sum.to_bits() as i32).wrapping_sub(WHOLE.to_bits() as i32).wrapping_add(self.plus.into()) as u8
    }
}
