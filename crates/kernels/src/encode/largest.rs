//! The largest magnitude of each block.

use super::Input;
use crate::base::GROUP;
use crate::base::group::pad;
use crate::base::level::Level;
use crate::base::simd::Simd;

/// Values of half a group.
const HALF: usize = GROUP / 2;

/// Whether NaN takes part in the comparison.
trait NanRule: Copy + Send + Sync + 'static {
    /// The largest magnitude bits that count; bits above those of infinity are NaN.
    const MAX_BITS: i32;
}

#[derive(Clone, Copy)]
struct NanIsLargest;

#[derive(Clone, Copy)]
struct IgnoreNan;

impl NanRule for NanIsLargest {
    const MAX_BITS: i32 = i32::MAX;
}

impl NanRule for IgnoreNan {
    const MAX_BITS: i32 = f32::INFINITY.to_bits() as i32;
}

/// Finds the largest magnitude of each block of `values`.
///
/// NaN is larger than every number, so the result is finite only if the whole block is. The last block may be short; a
/// `block` of zero counts as one.
///
/// ```
/// use anamnesis_kernels::{F32, Level, block_largest};
///
/// let mut largest = [0.0; 2];
/// block_largest::<F32>(Level::detect(), &[1.0, -3.0, 0.5], 2, &mut largest);
/// assert_eq!(largest, [3.0, 0.5]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn block_largest<I: Input>(level: Level, values: &[I::Element], block: usize, out: &mut [f32]) -> usize {
    by_blocks::<I, NanIsLargest>(level, values, block, out)
}

/// [`block_largest`] ignoring NaN.
///
/// ```
/// use anamnesis_kernels::{F32, Level, block_largest_number};
///
/// let mut largest = [0.0; 2];
/// block_largest_number::<F32>(Level::detect(), &[1.0, -3.0, f32::NAN], 2, &mut largest);
/// assert_eq!(largest, [3.0, 0.0]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn block_largest_number<I: Input>(level: Level, values: &[I::Element], block: usize, out: &mut [f32]) -> usize {
    by_blocks::<I, IgnoreNan>(level, values, block, out)
}

/// Blocks of whole or half groups are processed together, others one by one.
fn by_blocks<I: Input, K: NanRule>(level: Level, values: &[I::Element], block: usize, out: &mut [f32]) -> usize {
    let block = block.max(1);
    let all = (values.len() / block).min(out.len());
    let whole = match block {
        HALF => all - all % 2,
        block if block.is_multiple_of(GROUP) => all,
        _ => 0,
    };
    let (blocks, rest) = values.split_at(whole * block);
    let (largest, others) = out.split_at_mut(whole);
    let mut written = match block {
        HALF => largest_of_halves::<I, K>(level, blocks, largest),
        _ => largest_of_blocks::<I, K>(level, blocks, block, largest),
    };
    for (block, largest) in rest.chunks(block).zip(others) {
        written += largest_of::<I, K>(level, block, largest);
    }
    written
}

kernel! {
    fn largest_of_blocks<I: Input, K: NanRule>(values: &[I::Element], block: usize, out: &mut [f32]) = blocks_body
}

kernel! {
    fn largest_of_halves<I: Input, K: NanRule>(values: &[I::Element], out: &mut [f32]) = halves_body
}

kernel! {
    fn largest_of<I: Input, K: NanRule>(values: &[I::Element], out: &mut f32) = body
}

#[inline(always)]
fn blocks_body<S: Simd, I: Input, K: NanRule>(simd: S, values: &[I::Element], block: usize, out: &mut [f32]) -> usize {
    let written = (values.len() / block).min(out.len());
    for (block, out) in values.chunks_exact(block).zip(out) {
        let mut largest = [0; GROUP];
        for group in block.as_chunks::<GROUP>().0 {
            largest = simd.larger(&largest, &magnitudes::<K>(&I::widen(simd, group)));
        }
        *out = largest_lane(largest);
    }
    written
}

#[inline(always)]
fn halves_body<S: Simd, I: Input, K: NanRule>(simd: S, values: &[I::Element], out: &mut [f32]) -> usize {
    let written = 2 * (values.len() / GROUP).min(out.len() / 2);
    for (group, out) in values.as_chunks::<GROUP>().0.iter().zip(out.as_chunks_mut::<2>().0) {
        let [first, second] = simd.largest_of_halves(&magnitudes::<K>(&I::widen(simd, group)));
        *out = [f32::from_bits(first.cast_unsigned()), f32::from_bits(second.cast_unsigned())];
    }
    written
}

#[inline(always)]
fn body<S: Simd, I: Input, K: NanRule>(simd: S, values: &[I::Element], out: &mut f32) -> usize {
    let mut largest = [0; GROUP];
    let (groups, rest) = values.as_chunks::<GROUP>();
    for group in groups {
        largest = simd.larger(&largest, &magnitudes::<K>(&I::widen(simd, group)));
    }
    largest = simd.larger(&largest, &magnitudes::<K>(&I::widen(simd, &pad(rest))));
    *out = largest_lane(largest);
    1
}

/// The bits of magnitudes, by which they are compared.
#[inline(always)]
fn magnitudes<K: NanRule>(values: &[f32; GROUP]) -> [i32; GROUP] {
    map!(value in values => {
        let bits = (value.to_bits() & 0x7FFF_FFFF) as i32;
        if bits > K::MAX_BITS { 0 } else { bits }
    })
}

#[inline(always)]
fn largest_lane(mut largest: [i32; GROUP]) -> f32 {
    let mut width = GROUP / 2;
    while width > 0 {
        for i in 0..width {
            largest[i] = largest[i].max(largest[i + width]);
        }
        width /= 2;
    }
    f32::from_bits(largest[0] as u32)
}
