//! The types of values that are encoded: little-endian BF16 or F16, or `f32`.

use crate::base::GROUP;
use crate::base::float::bf16;
use crate::base::output::{Bf16, F16, F32};
use crate::base::simd::Simd;

/// The stored type of values to encode; widening to `f32` is exact.
pub trait Input: Copy + Send + Sync + 'static {
    /// One element as it is stored.
    type Element: Copy + Default + Send + Sync + 'static;

    /// Widens a group of values.
    fn widen<S: Simd>(simd: S, group: &[Self::Element; GROUP]) -> [f32; GROUP];
}

impl Input for Bf16 {
    type Element = [u8; 2];

    #[inline(always)]
    fn widen<S: Simd>(_simd: S, group: &[[u8; 2]; GROUP]) -> [f32; GROUP] {
        map!(pair in group => bf16::decode(u16::from_le_bytes(pair)))
    }
}

impl Input for F16 {
    type Element = [u8; 2];

    #[inline(always)]
    fn widen<S: Simd>(simd: S, group: &[[u8; 2]; GROUP]) -> [f32; GROUP] {
        simd.widen_f16(&map!(pair in group => u16::from_le_bytes(pair)))
    }
}

impl Input for F32 {
    type Element = f32;

    #[inline(always)]
    fn widen<S: Simd>(_simd: S, group: &[f32; GROUP]) -> [f32; GROUP] {
        *group
    }
}
