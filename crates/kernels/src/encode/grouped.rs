//! The encoder of values in groups with a scale and optionally an offset per group.
//!
//! | goal | arithmetic | libraries |
//! |---|---|---|
//! | [`Factor::Divided`], [`Ratio::Quotient`] | `value / scale` | compressed-tensors, ModelOpt, quanto |
//! | [`Factor::Times`], [`Factor::TimesRounded`] | `value * scale` | transformers' FP8, ModelOpt's MXFP8, ComfyUI's FP8 |
//! | [`Ratio::QuotientAway`] | `value / scale`, ties away from zero | EETQ |
//! | [`Ratio::QuotientPlus`] | `value / scale + offset` | compressed-tensors with zero points |
//! | [`Ratio::ProductPlus`] | `value * scale + offset` | HQQ |
//! | [`Ratio::Difference`] | `(value - offset) / scale` | MLX |
//! | [`Ratio::RoundedPlusF16`], [`Ratio::RoundedPlusF32`] | `round(value / scale) + offset` | AWQ, GPTQ |
//!
//! Every operation is rounded to its [`Step`], as in libraries that compute in the type of the weight; the result is
//! rounded to the nearest code, ties to even unless the [`Goal`] differs. A [`Goal`] exists only for arithmetic that
//! some library uses, because each is compiled for every CPU level.

use super::ratio::{
    Difference, InBf16, InF16, Operation, Plus, Product, Quotient, QuotientAway, RoundTo, RoundedPlus, Unrounded,
};
use super::target::{Target, ToE2m1, ToE2m1KeepsZero, ToE2m1SignedZero, ToE2m1TiesToZero, ToE4m3, ToE5m2, ToInteger};
use crate::base::GROUP;
use crate::base::group::pad;
use crate::base::level::Level;
use crate::base::simd::Simd;
use crate::decode::Step;

/// The operation before a value is rounded to an eight-bit float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Factor {
    /// `value / scale`.
    Divided(Step),
    /// `value * scale`, in `f32`.
    Times,
    /// `value * scale`, rounded.
    TimesRounded(Step),
}

/// The operations before a value is rounded to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ratio {
    /// `value / scale`.
    Quotient(Step),
    /// `value / scale` in `f32`, with ties away from zero.
    QuotientAway,
    /// `value / scale + offset`, in two steps.
    QuotientPlus(Step),
    /// `value * scale + offset`, in `f32`, in two steps.
    ProductPlus,
    /// `(value - offset) / scale`, in `f32`.
    Difference,
    /// `round(value / scale) + offset`, in two steps of half precision.
    RoundedPlusF16,
    /// `round(value / scale) + offset`, in two steps of `f32`.
    RoundedPlusF32,
}

/// The type of the codes, and the arithmetic from a value to its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// The eight-bit float E4M3, saturated at 448.
    E4m3(Factor),
    /// The eight-bit float E5M2, saturated at 57344.
    E5m2(Factor),
    /// The four-bit float E2M1 of `value / scale`, saturated at 6. −0 becomes +0.
    E2m1,
    /// E2M1 of `value / scale`, saturated at 6; zeros keep their sign.
    E2m1KeepsZero,
    /// E2M1 with ties towards zero; a result of zero is +0.
    E2m1TiesToZero,
    /// E2M1 with ties towards zero; zero becomes −0, and a value rounded to zero keeps its sign.
    E2m1SignedZero,
    /// Integers within limits; a code is the lowest byte of the integer plus an offset.
    Integer {
        /// The operations before rounding.
        ratio: Ratio,
        /// The smallest integer.
        low: i16,
        /// The largest integer.
        high: i16,
        /// The offset from the integer to its code.
        plus: u8,
    },
}

/// Encodes `values`, one byte each, in groups of `group` with a scale and, where the goal has one, an offset. The last
/// group may be short; a `group` of zero counts as one. Values past the last scale are not written.
///
/// ```
/// use anamnesis_kernels::{Goal, Level, Ratio, Step, group_codes};
///
/// let (goal, mut codes) = (Goal::Integer { ratio: Ratio::Quotient(Step::F32), low: -8, high: 7, plus: 8 }, [0; 4]);
/// group_codes(Level::detect(), goal, &[1.0, -9.0, 3.0, 5.0], 2, &[1.0, 2.0], &[], &mut codes);
/// assert_eq!(codes, [9, 0, 10, 10]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn group_codes(
    level: Level,
    goal: Goal,
    values: &[f32],
    group: usize,
    scales: &[f32],
    offsets: &[f32],
    out: &mut [u8],
) -> usize {
    macro_rules! run {
        ($operation:ty, $grain:ty, $target:expr) => {
            coded::<$operation, $grain, _>(level, values, group, scales, offsets, $target, out)
        };
        ($factor:expr, $target:expr) => {
            match $factor {
                Factor::Divided(Step::F32) => run!(Quotient, Unrounded, $target),
                Factor::Divided(Step::Bf16) => run!(Quotient, InBf16, $target),
                Factor::Divided(Step::F16) => run!(Quotient, InF16, $target),
                Factor::Times | Factor::TimesRounded(Step::F32) => run!(Product, Unrounded, $target),
                Factor::TimesRounded(Step::Bf16) => run!(Product, InBf16, $target),
                Factor::TimesRounded(Step::F16) => run!(Product, InF16, $target),
            }
        };
    }
    match goal {
        Goal::E4m3(factor) => run!(factor, ToE4m3),
        Goal::E5m2(factor) => run!(factor, ToE5m2),
        Goal::E2m1 => run!(Quotient, Unrounded, ToE2m1),
        Goal::E2m1KeepsZero => run!(Quotient, Unrounded, ToE2m1KeepsZero),
        Goal::E2m1TiesToZero => run!(Quotient, Unrounded, ToE2m1TiesToZero),
        Goal::E2m1SignedZero => run!(Quotient, Unrounded, ToE2m1SignedZero),
        Goal::Integer { ratio, low, high, plus } => {
            let integer = ToInteger { low: low.into(), high: high.into(), plus };
            match ratio {
                Ratio::Quotient(Step::F32) => run!(Quotient, Unrounded, integer),
                Ratio::Quotient(Step::Bf16) => run!(Quotient, InBf16, integer),
                Ratio::Quotient(Step::F16) => run!(Quotient, InF16, integer),
                Ratio::QuotientAway => run!(QuotientAway, Unrounded, integer),
                Ratio::QuotientPlus(Step::F32) => run!(Plus<Quotient>, Unrounded, integer),
                Ratio::QuotientPlus(Step::Bf16) => run!(Plus<Quotient>, InBf16, integer),
                Ratio::QuotientPlus(Step::F16) => run!(Plus<Quotient>, InF16, integer),
                Ratio::ProductPlus => run!(Plus<Product>, Unrounded, integer),
                Ratio::Difference => run!(Difference, Unrounded, integer),
                Ratio::RoundedPlusF16 => run!(RoundedPlus, InF16, integer),
                Ratio::RoundedPlusF32 => run!(RoundedPlus, Unrounded, integer),
            }
        }
    }
}

kernel! {
    fn coded<R: Operation, N: RoundTo, G: Target>(
        values: &[f32],
        group: usize,
        scales: &[f32],
        offsets: &[f32],
        goal: G,
        out: &mut [u8],
    ) = body
}

#[inline(always)]
fn body<S: Simd, R: Operation, N: RoundTo, G: Target>(
    simd: S,
    values: &[f32],
    group: usize,
    scales: &[f32],
    offsets: &[f32],
    goal: G,
    out: &mut [u8],
) -> usize {
    let group = group.max(1);
    let elements = values.len().min(out.len()).min(scales.len().saturating_mul(group));
    // Groups of half a vector group are encoded in pairs.
    let (run, second) = if group == GROUP / 2 { (GROUP, 1) } else { (group, 0) };
    let runs = values[..elements].chunks(run).zip(out[..elements].chunks_mut(run));
    for (index, (values, out)) in runs.enumerate() {
        let first = index * (1 + second);
        let two = |all: &[f32]| halves(all.get(first), all.get(first + second));
        let (scales, offsets) = (two(scales), two(offsets));
        let (groups, rest) = values.as_chunks::<GROUP>();
        let (whole, tail) = out.as_chunks_mut::<GROUP>();
        for (group, out) in groups.iter().zip(whole) {
            *out = code_group::<S, R, N, G>(simd, group, &scales, &offsets, goal);
        }
        if !rest.is_empty() {
            let codes = code_group::<S, R, N, G>(simd, &pad(rest), &scales, &offsets, goal);
            for (to, from) in tail.iter_mut().zip(&codes) {
                *to = *from;
            }
        }
    }
    elements
}

/// `first` for the first half of a group, `second` for the second; a missing value is zero.
#[inline(always)]
fn halves(first: Option<&f32>, second: Option<&f32>) -> [f32; GROUP] {
    let mut group = [first.copied().unwrap_or(0.0); GROUP];
    group[GROUP / 2..].fill(second.copied().unwrap_or(0.0));
    group
}

#[inline(always)]
fn code_group<S: Simd, R: Operation, N: RoundTo, G: Target>(
    simd: S,
    values: &[f32; GROUP],
    scales: &[f32; GROUP],
    offsets: &[f32; GROUP],
    goal: G,
) -> [u8; GROUP] {
    if N::ELEMENTWISE {
        let mut codes = [0; GROUP];
        for i in 0..GROUP {
            let mut ratio = N::round_one(R::first(values[i], scales[i], offsets[i]));
            if R::HAS_SECOND {
                ratio = N::round_one(R::second(ratio, scales[i], offsets[i]));
            }
            codes[i] = goal.code(ratio);
        }
        return codes;
    }
    let mut ratios = *values;
    for i in 0..GROUP {
        ratios[i] = R::first(ratios[i], scales[i], offsets[i]);
    }
    ratios = N::round(simd, ratios);
    if R::HAS_SECOND {
        for i in 0..GROUP {
            ratios[i] = R::second(ratios[i], scales[i], offsets[i]);
        }
        ratios = N::round(simd, ratios);
    }
    map!(ratio in ratios => goal.code(ratio))
}
