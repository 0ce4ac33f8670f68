//! Rows to signed codes of eight bits.

use super::Input;
use crate::GROUP;
use crate::group::pad;
use crate::simd::Simd;

/// How many steps a value is from zero, where its row's scale is 127 steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steps {
    /// `value / (scale / 127)`, halves away from zero, at most 127 and at least −128; zero where the scale is zero.
    Divide,
    /// `value * ((1 / scale) * 127)`, each operation rounded, halves to even; what is no number becomes zero.
    Multiply,
}

kernel! {
    /// Encodes `values` in rows, one code each.
    ///
    /// Values past the last row of `scales` are left alone; a `row` of zero counts as one.
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
    pub fn row_codes<I: Input>(values: &[I::Element], scales: &[f32], row: usize, steps: Steps, out: &mut [u8]) = body
}

#[inline(always)]
fn body<S: Simd, I: Input>(simd: S, values: &[I::Element], scales: &[f32], row: usize, steps: Steps, out: &mut [u8]) {
    let row = row.max(1);
    for ((values, out), &scale) in values.chunks(row).zip(out.chunks_mut(row)).zip(scales) {
        match steps {
            Steps::Divide => one_row::<S, I, false>(simd, values, scale / 127.0, out),
            Steps::Multiply => one_row::<S, I, true>(simd, values, (1.0 / scale) * 127.0, out),
        }
    }
}

#[inline(always)]
fn one_row<S: Simd, I: Input, const MULTIPLY: bool>(simd: S, values: &[I::Element], step: f32, out: &mut [u8]) {
    let (groups, rest) = values.as_chunks::<GROUP>();
    let (whole, tail) = out.split_at_mut(out.len().min(groups.len() * GROUP));
    for (group, out) in groups.iter().zip(whole.as_chunks_mut::<GROUP>().0) {
        *out = group_codes::<MULTIPLY>(&I::widen(simd, group), step);
    }
    if !rest.is_empty() {
        for (to, from) in tail.iter_mut().zip(group_codes::<MULTIPLY>(&I::widen(simd, &pad(rest)), step)) {
            *to = from;
        }
    }
}

#[inline(always)]
fn group_codes<const MULTIPLY: bool>(values: &[f32; GROUP], step: f32) -> [u8; GROUP] {
    if MULTIPLY { map!(value in values => to_even(value * step)) } else { map!(value in values => away(value, step)) }
}

/// Added to a small number, this leaves no room for a fraction: the sum is rounded, halves to even, and its lowest bits
/// are the whole number.
const WHOLE: f32 = 1.5 * (1 << 23) as f32;

/// The nearest whole number, halves away from zero.
#[inline(always)]
fn away(value: f32, step: f32) -> u8 {
    let steps = if step == 0.0 { 0.0 } else { value / step };
    let steps = if steps.is_nan() { 0.0 } else { steps };
    let magnitude = if steps.abs() > 128.0 { 128.0 } else { steps.abs() };
    let sum = magnitude + WHOLE;
    let mut whole = (sum.to_bits() as i32).wrapping_sub(WHOLE.to_bits() as i32);
    // A half that went down to an even number.
    whole += i32::from(magnitude - (sum - WHOLE) == 0.5);
    let is_negative = steps < 0.0;
    let largest = if is_negative { 128 } else { 127 };
    let whole = if whole > largest { largest } else { whole };
    (if is_negative { -whole } else { whole }) as u8
}

/// The nearest whole number, halves to even.
#[inline(always)]
fn to_even(steps: f32) -> u8 {
    let steps = if steps.is_nan() { 0.0 } else { steps };
    let sum = steps.clamp(-128.0, 127.0) + WHOLE;
    (sum.to_bits() as i32).wrapping_sub(WHOLE.to_bits() as i32) as u8
}
