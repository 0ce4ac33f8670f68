//! Eight-bit floats times scales that each cover a run of elements of one row.
//!
//! Element `i` is multiplied by `scales[i / run]`; the last run may be partial. Scales of runs of whole groups are
//! broadcast, others are first repeated for each element of a group.

use crate::base::GROUP;
use crate::base::float::{DEFAULT_NAN, Format8, canonical_nan};
use crate::base::level::Level;
use crate::base::output::Output;
use crate::base::simd::Simd;
use crate::decode::operands::count_nans;
use crate::decode::scaled::{group_words, scaled};

/// Runs of at least this length are decoded one by one, like whole tensors.
const LONG_RUN: usize = 4096;

/// Decodes `codes`, multiplies element `i` by `scales[i / run]` and rounds into `out`.
///
/// Elements past the last run of `scales` are not written; a `run` of zero counts as one.
///
/// ```
/// use anamnesis_kernels::{E4m3, F32, Level, scaled_runs};
///
/// let mut out = [0; 12];
/// scaled_runs::<E4m3, F32>(Level::detect(), &[0x38, 0x38, 0x38], &[1.0, 3.0], 2, &mut out);
/// assert_eq!(out[8..], 3f32.to_le_bytes());
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn scaled_runs<F: Format8, O: Output>(
    level: Level,
    codes: &[u8],
    scales: &[f32],
    run: usize,
    out: &mut [u8],
) -> usize {
    let run = run.max(1);
    if run >= LONG_RUN {
        let pieces = codes.chunks(run).zip(out.chunks_mut(run.saturating_mul(O::BYTES)));
        pieces.zip(scales).map(|((codes, out), scale)| scaled::<F, O>(level, codes, *scale, out)).sum()
    } else if run.is_multiple_of(GROUP) {
        whole_groups::<F, O>(level, codes, scales, run, out)
    } else {
        any_length::<F, O>(level, codes, scales, run, out)
    }
}

kernel! {
    fn whole_groups<F: Format8>(codes: &[u8], scales: &[f32], run: usize) -> O in out = broadcast
}

kernel! {
    fn any_length<F: Format8>(codes: &[u8], scales: &[f32], run: usize) -> O in out = spread
}

/// Multiplies each group by its scale.
#[inline(always)]
pub(crate) fn broadcast<S: Simd, F: Format8, O: Output>(
    simd: S,
    codes: &[u8],
    scales: &[f32],
    run: usize,
    out: &mut [u8],
) -> usize {
    if scales.is_empty() {
        return 0;
    }
    let codes = covered(codes, scales, run);
    let mut runs = Runs::new(scales, run);
    walk!(O, group in codes => {
        let scale = canonical_nan(*runs.next_group());
        // With a NaN scale the result does not depend on the code, not even on a NaN code.
        group_words::<S, F, O>(simd, if scale.is_nan() { &[0; GROUP] } else { group }, scale)
    }, out)
}

/// Multiplies each element by its own scale.
#[inline(always)]
fn spread<S: Simd, F: Format8, O: Output>(simd: S, codes: &[u8], scales: &[f32], run: usize, out: &mut [u8]) -> usize {
    let codes = covered(codes, scales, run);
    let has_nans = count_nans(simd, scales) > 0;
    let mut factors = Factors { scales, run, left: run };
    walk!(O, group in codes => {
        let factors = factors.next_group();
        let mut values = F::decode_group(simd, group);
        for (value, factor) in values.iter_mut().zip(&factors) {
            *value *= factor;
        }
        if has_nans {
            for (value, factor) in values.iter_mut().zip(&factors) {
                *value = if factor.is_nan() { DEFAULT_NAN } else { *value };
            }
        }
        O::round_products(simd, &values)
    }, out)
}

/// The codes that have a scale.
#[inline(always)]
fn covered<'a>(codes: &'a [u8], scales: &[f32], run: usize) -> &'a [u8] {
    &codes[..codes.len().min(scales.len().saturating_mul(run))]
}

/// The scale, or the table, of each group of a row whose runs are whole groups.
pub(crate) struct Runs<'a, T> {
    items: &'a [T],
    index: usize,
    run: usize,
    /// Remaining elements of the item at `index`.
    left: usize,
}

impl<'a, T> Runs<'a, T> {
    #[inline(always)]
    pub(crate) fn new(items: &'a [T], run: usize) -> Self {
        Self { items, index: 0, run, left: run }
    }

    /// The item of the next group; after the end, the last item.
    #[inline(always)]
    pub(crate) fn next_group(&mut self) -> &'a T {
        if self.left == 0 {
            self.left = self.run;
            self.index = (self.index + 1).min(self.items.len() - 1);
        }
        self.left -= GROUP;
        &self.items[self.index]
    }
}

/// The scales of one row, repeated for each element.
struct Factors<'a> {
    scales: &'a [f32],
    run: usize,
    /// Remaining elements of the first of `scales`.
    left: usize,
}

impl Factors<'_> {
    #[inline(always)]
    fn next_group(&mut self) -> [f32; GROUP] {
        let mut factors = [0.0; GROUP];
        let mut filled = 0;
        while let [scale, rest @ ..] = self.scales
            && filled < GROUP
        {
            let end = GROUP.min(filled + self.left);
            for factor in &mut factors[filled..end] {
                *factor = *scale;
            }
            self.left -= end - filled;
            filled = end;
            if self.left == 0 {
                self.scales = rest;
                self.left = self.run;
            }
        }
        factors
    }
}
