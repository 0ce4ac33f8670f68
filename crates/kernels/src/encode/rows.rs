//! The encoder of rows as signed eight-bit codes (bitsandbytes LLM.int8()).

use super::Input;
use crate::base::GROUP;
use crate::base::group::pad;
use crate::base::level::Level;
use crate::base::simd::Simd;

/// How a value is divided by 1/127 of the scale of its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steps {
    /// `value / (scale / 127)`, ties away from zero, at most 127 and at least −128; zero where the scale is zero.
    Divide,
    /// `value * ((1 / scale) * 127)`, each operation rounded, ties to even; NaN becomes zero.
    Multiply,
}

/// Encodes `values` in rows, one code each.
///
/// Values past the last row of `scales` are not written; a `row` of zero counts as one.
///
/// ```
/// use anamnesis_kernels::{F32, Level, Steps, row_codes};
///
/// let mut codes = [0; 3];
/// row_codes::<F32>(Level::detect(), &[127.0, -2.5, 2.5], &[127.0], 3, Steps::Divide, &mut codes);
/// assert_eq!(codes, [127, 253, 3]);
/// row_codes::<F32>(Level::detect(), &[127.0, -2.5, 2.5], &[127.0], 3, Steps::Multiply, &mut codes);
/// assert_eq!(codes, [127, 254, 2]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn row_codes<I: Input>(
    level: Level,
    values: &[I::Element],
    scales: &[f32],
    row: usize,
    steps: Steps,
    out: &mut [u8],
) -> usize {
    let row = row.max(1);
    let mut written = 0;
    for ((values, out), &scale) in values.chunks(row).zip(out.chunks_mut(row)).zip(scales) {
        written += match steps {
            Steps::Divide => divided_row::<I>(level, values, scale / 127.0, out),
            Steps::Multiply => multiplied_row::<I>(level, values, (1.0 / scale) * 127.0, out),
        };
    }
    written
}

kernel! {
    fn divided_row<I: Input>(values: &[I::Element], step: f32, out: &mut [u8]) = divide
}

kernel! {
    fn multiplied_row<I: Input>(values: &[I::Element], factor: f32, out: &mut [u8]) = multiply
}

/// `walk_row!(I, simd, value in values => code, out)`: the codes of all values.
macro_rules! walk_row {
    ($input:ident, $simd:ident, $value:ident in $values:ident => $code:expr, $out:ident) => {{
        let elements = $values.len().min($out.len());
        let (groups, rest) = $values[..elements].as_chunks::<GROUP>();
        let (whole, tail) = $out[..elements].as_chunks_mut::<GROUP>();
        for (group, out) in groups.iter().zip(whole) {
            *out = map!($value in $input::widen($simd, group) => $code);
        }
        if !rest.is_empty() {
            let codes = map!($value in $input::widen($simd, &pad(rest)) => $code);
            for (to, from) in tail.iter_mut().zip(&codes) {
                *to = *from;
            }
        }
        elements
    }};
}

#[inline(always)]
fn divide<S: Simd, I: Input>(simd: S, values: &[I::Element], step: f32, out: &mut [u8]) -> usize {
    // With a step of zero every code is zero.
    let mask = if step == 0.0 { 0 } else { u32::MAX };
    walk_row!(I, simd, value in values => round_half_away(f32::from_bits((value / step).to_bits() & mask)), out)
}

#[inline(always)]
fn multiply<S: Simd, I: Input>(simd: S, values: &[I::Element], factor: f32, out: &mut [u8]) -> usize {
    walk_row!(I, simd, value in values => round_half_even(value * factor), out)
}

/// Adding this to a small number rounds the sum to an integer, ties to even; the lowest bits of the sum are that
/// integer.
const ROUNDING_BIAS: f32 = 1.5 * (1 << 23) as f32;

/// The nearest integer, ties away from zero.
#[inline(always)]
fn round_half_away(steps: f32) -> u8 {
    let steps = if steps.is_nan() { 0.0 } else { steps };
    let magnitude = if steps.abs() > 128.0 { 128.0 } else { steps.abs() };
    let sum = magnitude + ROUNDING_BIAS;
    let mut whole = (sum.to_bits() as i32).wrapping_sub(ROUNDING_BIAS.to_bits() as i32);
    // A tie that was rounded down to an even integer.
    whole += i32::from(magnitude - (sum - ROUNDING_BIAS) == 0.5);
    let is_negative = steps < 0.0;
    let largest = if is_negative { 128 } else { 127 };
    let whole = if whole > largest { largest } else { whole };
    (if is_negative { -whole } else { whole }) as u8
}

/// The nearest integer, ties to even.
#[inline(always)]
fn round_half_even(steps: f32) -> u8 {
    let steps = if steps.is_nan() { 0.0 } else { steps };
    let sum = steps.clamp(-128.0, 127.0) + ROUNDING_BIAS;
    (sum.to_bits() as i32).wrapping_sub(ROUNDING_BIAS.to_bits() as i32) as u8
}
