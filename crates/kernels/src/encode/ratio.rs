//! The operations between a value and its code and the type each is rounded to, as type parameters of the kernel.

use std::marker::PhantomData;

use super::target::ROUNDING_BIAS;
use crate::base::GROUP;
use crate::base::float::{away, bf16, times};
use crate::base::simd::Simd;

/// The bit that makes a NaN quiet.
const QUIET: u32 = 0x0040_0000;

/// One or two arithmetic operations.
pub(super) trait Operation: Copy + Send + Sync + 'static {
    /// Whether there is a second operation.
    const HAS_SECOND: bool = false;

    fn first(value: f32, scale: f32, offset: f32) -> f32;

    #[inline(always)]
    fn second(value: f32, _scale: f32, _offset: f32) -> f32 {
        value
    }
}

#[derive(Clone, Copy)]
pub(super) struct Quotient;

impl Operation for Quotient {
    #[inline(always)]
    fn first(value: f32, scale: f32, _offset: f32) -> f32 {
        value / scale
    }
}

/// The quotient, rounded with ties away from zero.
#[derive(Clone, Copy)]
pub(super) struct QuotientAway;

impl Operation for QuotientAway {
    const HAS_SECOND: bool = true;

    #[inline(always)]
    fn first(value: f32, scale: f32, _offset: f32) -> f32 {
        value / scale
    }

    #[inline(always)]
    fn second(value: f32, _scale: f32, _offset: f32) -> f32 {
        away::round(value)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Product;

impl Operation for Product {
    #[inline(always)]
    fn first(value: f32, scale: f32, _offset: f32) -> f32 {
        times(value, scale)
    }
}

/// The result of another operation plus the offset.
#[derive(Clone, Copy)]
pub(super) struct Plus<R>(PhantomData<R>);

impl<R: Operation> Operation for Plus<R> {
    const HAS_SECOND: bool = true;

    #[inline(always)]
    fn first(value: f32, scale: f32, offset: f32) -> f32 {
        R::first(value, scale, offset)
    }

    #[inline(always)]
    fn second(value: f32, _scale: f32, offset: f32) -> f32 {
        value + offset
    }
}

#[derive(Clone, Copy)]
pub(super) struct Difference;

impl Operation for Difference {
    const HAS_SECOND: bool = true;

    #[inline(always)]
    fn first(value: f32, _scale: f32, offset: f32) -> f32 {
        value - offset
    }

    #[inline(always)]
    fn second(value: f32, scale: f32, _offset: f32) -> f32 {
        value / scale
    }
}

#[derive(Clone, Copy)]
pub(super) struct RoundedPlus;

impl Operation for RoundedPlus {
    const HAS_SECOND: bool = true;

    #[inline(always)]
    fn first(value: f32, scale: f32, _offset: f32) -> f32 {
        value / scale
    }

    #[inline(always)]
    fn second(value: f32, _scale: f32, offset: f32) -> f32 {
        round_half_even(value) + offset
    }
}

/// The type that the result of each operation is rounded to.
pub(super) trait RoundTo: Copy + Send + Sync + 'static {
    /// Whether [`round_one`](Self::round_one) rounds one value at a time, so that all operations fit in one loop.
    const ELEMENTWISE: bool = true;

    #[inline(always)]
    fn round_one(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn round<S: Simd>(_simd: S, values: [f32; GROUP]) -> [f32; GROUP] {
        map!(value in &values => Self::round_one(value))
    }
}

#[derive(Clone, Copy)]
pub(super) struct Unrounded;

#[derive(Clone, Copy)]
pub(super) struct InBf16;

#[derive(Clone, Copy)]
pub(super) struct InF16;

impl RoundTo for Unrounded {}

impl RoundTo for InBf16 {
    #[inline(always)]
    fn round_one(value: f32) -> f32 {
        // Rounding would carry an all-ones NaN into the sign and make it zero.
        let (number, quiet) = (bf16::round_number(value), f32::from_bits(value.to_bits() | QUIET));
        if value.is_nan() { quiet } else { number }
    }
}

impl RoundTo for InF16 {
    const ELEMENTWISE: bool = false;

    #[inline(always)]
    fn round<S: Simd>(simd: S, values: [f32; GROUP]) -> [f32; GROUP] {
        simd.widen_f16(&simd.narrow_f16(&values))
    }
}

/// The nearest integer, ties to even. Magnitudes from 2²² on are clamped: no code is that large.
#[inline(always)]
fn round_half_even(value: f32) -> f32 {
    let limit = (1 << 22) as f32;
    let value = if value > -limit { value } else { -limit };
    let value = if value < limit { value } else { limit };
    (value + ROUNDING_BIAS) - ROUNDING_BIAS
}
