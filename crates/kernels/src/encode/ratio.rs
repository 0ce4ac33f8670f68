//! The operations that bring a value to its code, and what each is rounded to: known when the kernel is compiled.

use std::marker::PhantomData;

use super::target::WHOLE;
use crate::base::GROUP;
use crate::base::float::{bf16, times};
use crate::base::simd::Simd;

/// One operation, or two.
pub(super) trait Operation: Copy + Send + Sync + 'static {
    /// Whether there is a second one.
    const TWICE: bool = false;

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
    const TWICE: bool = true;

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
    const TWICE: bool = true;

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
    const TWICE: bool = true;

    #[inline(always)]
    fn first(value: f32, scale: f32, _offset: f32) -> f32 {
        value / scale
    }

    #[inline(always)]
    fn second(value: f32, _scale: f32, offset: f32) -> f32 {
        whole(value) + offset
    }
}

/// The type that the result of each operation is rounded to.
pub(super) trait RoundTo: Copy + Send + Sync + 'static {
    /// Whether a value is rounded without regard to the others of its group, so that one loop does all operations.
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
        bf16::round_number(value)
    }
}

impl RoundTo for InF16 {
    const ELEMENTWISE: bool = false;

    #[inline(always)]
    fn round<S: Simd>(simd: S, values: [f32; GROUP]) -> [f32; GROUP] {
        simd.widen_f16(&simd.narrow_f16(&values))
    }
}

/// The nearest integer, ties to even. Magnitudes from 2²² on are clamped: no code is as large.
#[inline(always)]
fn whole(value: f32) -> f32 {
    let limit = (1 << 22) as f32;
    let value = if value > -limit { value } else { -limit };
    let value = if value < limit { value } else { limit };
    (value + WHOLE) - WHOLE
}
