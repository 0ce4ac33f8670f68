//! Values to codes, under a scale and where there is one an offset for every group of them.
//!
//! | ratio | | who |
//! |---|---|---|
//! | [`Ratio::Quotient`] | `value / scale` | compressed-tensors, ModelOpt |
//! | [`Ratio::QuotientPlus`] | `value / scale + offset` | compressed-tensors with zero points |
//! | [`Ratio::Product`] | `value * scale` | transformers' FP8, MLX's floats |
//! | [`Ratio::ProductPlus`] | `value * scale + offset` | HQQ |
//! | [`Ratio::Difference`] | `(value - offset) / scale` | MLX, GPTQ |
//! | [`Ratio::RoundedPlus`] | `whole(value / scale) + offset` | AWQ |
//!
//! Every operation is rounded to its [`Step`], as the libraries do that calculate in the type of the weight; the result goes to
//! the nearest code, halves to even unless the goal says otherwise.

use crate::base::GROUP;
use crate::base::float::{E4m3, E5m2, Format8, bf16, e2m1};
use crate::base::group::pad;
use crate::base::level::Level;
use crate::base::simd::Simd;
use crate::decode::Step;

/// What a value is brought to before it is rounded to a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ratio {
    /// `value / scale`.
    Quotient(Step),
    /// `value / scale + offset`, in two steps.
    QuotientPlus(Step),
    /// `value * scale`, in `f32`.
    Product,
    /// `value * scale + offset`, in `f32`, in two steps.
    ProductPlus,
    /// `(value - offset) / scale`, in `f32`.
    Difference,
    /// `value / scale`, that to the nearest whole number `+ offset`, in two steps.
    RoundedPlus(Step),
}

/// What codes stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// The eight-bit float E4M3, which ends at 448.
    E4m3,
    /// The four-bit float E2M1, which ends at 6. −0 becomes +0.
    E2m1,
    /// The same, halves towards zero; what becomes zero loses its sign.
    E2m1Inwards,
    /// The same, halves towards zero; a zero becomes −0, and what is rounded to zero keeps its sign.
    E2m1Below,
    /// The eight-bit float E5M2, up to 57344: what is larger becomes that.
    E5m2,
    /// Whole numbers within limits; a code is the lowest byte of its number `plus` something.
    Whole {
        /// The lowest number.
        low: i16,
        /// The highest number.
        high: i16,
        /// What is added to make a code of it.
        plus: u8,
    },
}

/// Encodes `values`, one byte each: groups of `group` of them, each with its scale and, where the ratio has one, its offset. The
/// last group may be short; a `group` of zero counts as one. Values past the last scale are left alone.
///
/// ```
/// use anamnesis_kernels::{Goal, Level, Ratio, Step, group_codes};
///
/// let (goal, mut codes) = (Goal::Whole { low: -8, high: 7, plus: 8 }, [0; 4]);
/// group_codes(Level::detect(), Ratio::Quotient(Step::F32), goal, &[1.0, -9.0, 3.0, 5.0], 2, &[1.0, 2.0], &[], &mut codes);
/// assert_eq!(codes, [9, 0, 10, 10]);
/// ```
#[allow(clippy::too_many_arguments, reason = "slices stay apart for the compiler's sake")]
pub fn group_codes(
    level: Level,
    ratio: Ratio,
    goal: Goal,
    values: &[f32],
    group: usize,
    scales: &[f32],
    offsets: &[f32],
    out: &mut [u8],
) {
    macro_rules! run {
        ($operation:ty, $grain:ty) => {
            match goal {
                Goal::E4m3 => coded::<$operation, $grain, ToE4m3>(level, values, group, scales, offsets, ToE4m3, out),
                Goal::E2m1 => coded::<$operation, $grain, ToE2m1>(level, values, group, scales, offsets, ToE2m1, out),
                Goal::E2m1Inwards => {
                    coded::<$operation, $grain, ToE2m1Inwards>(
                        level,
                        values,
                        group,
                        scales,
                        offsets,
                        ToE2m1Inwards,
                        out,
                    );
                }
                Goal::E2m1Below => {
                    coded::<$operation, $grain, ToE2m1Below>(level, values, group, scales, offsets, ToE2m1Below, out);
                }
                Goal::E5m2 => coded::<$operation, $grain, ToE5m2>(level, values, group, scales, offsets, ToE5m2, out),
                Goal::Whole { low, high, plus } => {
                    let whole = ToWhole { low: low.into(), high: high.into(), plus };
                    coded::<$operation, $grain, ToWhole>(level, values, group, scales, offsets, whole, out);
                }
            }
        };
    }
    match ratio {
        Ratio::Quotient(Step::F32) => run!(Quotient, Unrounded),
        Ratio::Quotient(Step::Bf16) => run!(Quotient, InBf16),
        Ratio::Quotient(Step::F16) => run!(Quotient, InF16),
        Ratio::QuotientPlus(Step::F32) => run!(QuotientPlus, Unrounded),
        Ratio::QuotientPlus(Step::Bf16) => run!(QuotientPlus, InBf16),
        Ratio::QuotientPlus(Step::F16) => run!(QuotientPlus, InF16),
        Ratio::Product => run!(Product, Unrounded),
        Ratio::ProductPlus => run!(ProductPlus, Unrounded),
        Ratio::Difference => run!(Difference, Unrounded),
        Ratio::RoundedPlus(Step::F32) => run!(RoundedPlus, Unrounded),
        Ratio::RoundedPlus(Step::Bf16) => run!(RoundedPlus, InBf16),
        Ratio::RoundedPlus(Step::F16) => run!(RoundedPlus, InF16),
    }
}

kernel! {
    fn coded<R: Operation, N: Grain, G: Target>(
        values: &[f32],
        group: usize,
        scales: &[f32],
        offsets: &[f32],
        goal: G,
        out: &mut [u8],
    ) = body
}

#[inline(always)]
fn body<S: Simd, R: Operation, N: Grain, G: Target>(
    simd: S,
    values: &[f32],
    group: usize,
    scales: &[f32],
    offsets: &[f32],
    goal: G,
    out: &mut [u8],
) {
    let elements = values.len().min(out.len());
    let (mut values, mut out, mut first) = (&values[..elements], &mut out[..elements], 0);
    if group == GROUP / 2 {
        // Two groups go together.
        let scales = scales.as_chunks::<2>().0;
        let done = (elements / GROUP).min(scales.len());
        let (pairs, rest) = values.split_at(done * GROUP);
        let (whole, tail) = out.split_at_mut(done * GROUP);
        let pairs = pairs.as_chunks::<GROUP>().0.iter().zip(whole.as_chunks_mut::<GROUP>().0);
        for (index, ((pair, out), scales)) in pairs.zip(scales).enumerate() {
            let offsets = match offsets.get(2 * index..2 * index + 2) {
                Some(offsets) => [offsets[0], offsets[1]],
                None => [0.0; 2],
            };
            *out = code_group::<S, R, N, G>(simd, pair, &halves(*scales), &halves(offsets), goal);
        }
        (values, out, first) = (rest, tail, 2 * done);
    }
    let group = group.max(1);
    for (index, (values, out)) in values.chunks(group).zip(out.chunks_mut(group)).enumerate() {
        let Some(&scale) = scales.get(first + index) else { return };
        let offset = offsets.get(first + index).copied().unwrap_or(0.0);
        let (groups, rest) = values.as_chunks::<GROUP>();
        let (whole, tail) = out.as_chunks_mut::<GROUP>();
        for (group, out) in groups.iter().zip(whole) {
            *out = code_group::<S, R, N, G>(simd, group, &[scale; GROUP], &[offset; GROUP], goal);
        }
        if !rest.is_empty() {
            let codes = code_group::<S, R, N, G>(simd, &pad(rest), &[scale; GROUP], &[offset; GROUP], goal);
            for (to, from) in tail.iter_mut().zip(&codes) {
                *to = *from;
            }
        }
    }
}

#[inline(always)]
fn halves([first, second]: [f32; 2]) -> [f32; GROUP] {
    let mut group = [first; GROUP];
    for value in &mut group[GROUP / 2..] {
        *value = second;
    }
    group
}

#[inline(always)]
fn code_group<S: Simd, R: Operation, N: Grain, G: Target>(
    simd: S,
    values: &[f32; GROUP],
    scales: &[f32; GROUP],
    offsets: &[f32; GROUP],
    goal: G,
) -> [u8; GROUP] {
    if N::IS_OF_LANES {
        let mut codes = [0; GROUP];
        for i in 0..GROUP {
            let mut ratio = N::round_one(R::first(values[i], scales[i], offsets[i]));
            if R::TWICE {
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
    if R::TWICE {
        for i in 0..GROUP {
            ratios[i] = R::second(ratios[i], scales[i], offsets[i]);
        }
        ratios = N::round(simd, ratios);
    }
    map!(ratio in ratios => goal.code(ratio))
}

/// The operations of a [`Ratio`], known when the kernel is compiled.
trait Operation: Copy + Send + Sync + 'static {
    /// Whether there is a second one.
    const TWICE: bool = false;

    fn first(value: f32, scale: f32, offset: f32) -> f32;

    #[inline(always)]
    fn second(value: f32, _scale: f32, _offset: f32) -> f32 {
        value
    }
}

#[derive(Clone, Copy)]
struct Quotient;

impl Operation for Quotient {
    #[inline(always)]
    fn first(value: f32, scale: f32, _offset: f32) -> f32 {
        value / scale
    }
}

#[derive(Clone, Copy)]
struct QuotientPlus;

impl Operation for QuotientPlus {
    const TWICE: bool = true;

    #[inline(always)]
    fn first(value: f32, scale: f32, _offset: f32) -> f32 {
        value / scale
    }

    #[inline(always)]
    fn second(value: f32, _scale: f32, offset: f32) -> f32 {
        value + offset
    }
}

#[derive(Clone, Copy)]
struct Product;

impl Operation for Product {
    #[inline(always)]
    fn first(value: f32, scale: f32, _offset: f32) -> f32 {
        value * scale
    }
}

#[derive(Clone, Copy)]
struct ProductPlus;

impl Operation for ProductPlus {
    const TWICE: bool = true;

    #[inline(always)]
    fn first(value: f32, scale: f32, _offset: f32) -> f32 {
        value * scale
    }

    #[inline(always)]
    fn second(value: f32, _scale: f32, offset: f32) -> f32 {
        value + offset
    }
}

#[derive(Clone, Copy)]
struct Difference;

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
struct RoundedPlus;

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

/// What operations are rounded to, known when the kernel is compiled.
trait Grain: Copy + Send + Sync + 'static {
    /// Whether a value is rounded by itself, so that all operations on it stay in its lane.
    const IS_OF_LANES: bool;

    fn round<S: Simd>(simd: S, values: [f32; GROUP]) -> [f32; GROUP];

    #[inline(always)]
    fn round_one(value: f32) -> f32 {
        value
    }
}

#[derive(Clone, Copy)]
struct Unrounded;

#[derive(Clone, Copy)]
struct InBf16;

#[derive(Clone, Copy)]
struct InF16;

impl Grain for Unrounded {
    const IS_OF_LANES: bool = true;

    #[inline(always)]
    fn round<S: Simd>(_simd: S, values: [f32; GROUP]) -> [f32; GROUP] {
        values
    }
}

impl Grain for InBf16 {
    const IS_OF_LANES: bool = true;

    #[inline(always)]
    fn round<S: Simd>(_simd: S, values: [f32; GROUP]) -> [f32; GROUP] {
        map!(value in &values => bf16::round_number(value))
    }

    #[inline(always)]
    fn round_one(value: f32) -> f32 {
        bf16::round_number(value)
    }
}

impl Grain for InF16 {
    const IS_OF_LANES: bool = false;

    #[inline(always)]
    fn round<S: Simd>(simd: S, values: [f32; GROUP]) -> [f32; GROUP] {
        simd.widen_f16(&simd.narrow_f16(&values))
    }
}

/// Codes of a kind, known when the kernel is compiled.
trait Target: Copy + Send + Sync + 'static {
    fn code(self, value: f32) -> u8;
}

#[derive(Clone, Copy)]
struct ToE4m3;

#[derive(Clone, Copy)]
struct ToE2m1;

#[derive(Clone, Copy)]
struct ToE2m1Inwards;

#[derive(Clone, Copy)]
struct ToE2m1Below;

#[derive(Clone, Copy)]
struct ToE5m2;

#[derive(Clone, Copy)]
struct ToWhole {
    low: f32,
    high: f32,
    plus: u8,
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

/// Added to a small number, this leaves no room for a fraction: the sum is rounded, halves to even, and its lowest bits
/// are the whole number.
const WHOLE: f32 = 1.5 * (1 << 23) as f32;

impl Target for ToWhole {
    #[inline(always)]
    fn code(self, value: f32) -> u8 {
        let value = if value > self.low { value } else { self.low };
        let value = if value < self.high { value } else { self.high };
        let sum = value + WHOLE;
        (sum.to_bits() as i32).wrapping_sub(WHOLE.to_bits() as i32).wrapping_add(self.plus.into()) as u8
    }
}

/// The nearest whole number, halves to even. From 2²² on there is no fraction worth a thought: no code is as large.
#[inline(always)]
fn whole(value: f32) -> f32 {
    let limit = (1 << 22) as f32;
    let value = if value > -limit { value } else { -limit };
    let value = if value < limit { value } else { limit };
    (value + WHOLE) - WHOLE
}
