//! The encoder of packed four-bit codes (bitsandbytes NF4 and FP4).

use super::{Codebook, Input};
use crate::base::GROUP;
use crate::base::float::times;
use crate::base::group::pad;
use crate::base::level::Level;
use crate::base::simd::{LimitTree, Portable, Simd, pack};

/// [`Scaling::Multiply`] inverts scales below this as if they were this.
pub const SMALLEST_SCALE: f32 = 1e-38;

/// How a value is normalised by the scale of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scaling {
    /// `value / scale`; zero where the scale is zero.
    Divide,
    /// `value * (1 / scale)`, each operation rounded, with the scale at least [`SMALLEST_SCALE`].
    Multiply,
}

impl Scaling {
    /// The divisor or factor of a block; NaN stays NaN.
    #[inline(always)]
    fn factor(self, scale: f32) -> f32 {
        match self {
            Self::Divide => scale,
            Self::Multiply => 1.0 / if scale < SMALLEST_SCALE { SMALLEST_SCALE } else { scale },
        }
    }

    /// The mask applied to quotients: 0 if the scale is zero.
    #[inline(always)]
    fn mask(self, scale: f32) -> u32 {
        if self == Self::Divide && scale == 0.0 { 0 } else { u32::MAX }
    }
}

/// Values encoded by limits before checking whether limits decided all of them.
const STRIP: usize = 4096;

/// Encodes `values` in blocks, two codes per byte, the first in the high nibble.
///
/// Every block but the last has an even length. An odd last value shares its byte with the code of zero. Values past
/// the last block of `scales` are not written; a `block` of zero counts as two.
///
/// ```
/// use anamnesis_kernels::{Codebook, F32, Level, Scaling, nearest_codes};
///
/// let codebook = Codebook::nearest(std::array::from_fn(|code| code as f32 / 15.0));
/// let mut codes = [0; 2];
/// nearest_codes::<F32>(Level::detect(), &[2.0, 0.1, 1.0], &codebook, &[2.0], 4, Scaling::Divide, &mut codes);
/// assert_eq!(codes, [0xF1, 0x70]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn nearest_codes<I: Input>(
    level: Level,
    values: &[I::Element],
    codebook: &Codebook,
    scales: &[f32],
    block: usize,
    scaling: Scaling,
    out: &mut [u8],
) -> usize {
    let block = block.max(2);
    // Blocks of whole groups are encoded together, others one by one.
    let strip = if block.is_multiple_of(GROUP) { (STRIP / block).max(1) * block } else { block };
    let strips = values.chunks(strip).zip(out.chunks_mut(strip / 2)).zip(scales.chunks(strip / block));
    let mut written = 0;
    for ((values, out), scales) in strips {
        // Inverted here, outside the vector loops of the kernels.
        let mut factors = [0.0; STRIP / GROUP];
        for (factor, scale) in factors.iter_mut().zip(scales) {
            *factor = scaling.factor(*scale);
        }
        let factors = &factors[..scales.len()];
        let mut is_decided = codebook.tree().is_some();
        if let Some(tree) = codebook.tree() {
            if values.len() == strip && scales.len() == strip / block && block.is_multiple_of(GROUP) {
                let blocks = if scaling == Scaling::Divide { divided_blocks::<I> } else { multiplied_blocks::<I> };
                written += blocks(level, values, tree, factors, block, out, &mut is_decided);
            } else {
                let one_block = if scaling == Scaling::Divide { divided::<I> } else { multiplied::<I> };
                for ((values, out), &factor) in values.chunks(block).zip(out.chunks_mut(block / 2)).zip(factors) {
                    written += one_block(level, values, tree, factor, out, &mut is_decided);
                }
            }
        }
        if !is_decided {
            encode_by_search::<I>(values, codebook, scales, block, scaling, out);
        }
        if codebook.tree().is_none() {
            written += values.len().min(scales.len() * block).div_ceil(2).min(out.len());
        }
    }
    written
}

/// `walk_nibbles!(I, simd, tree, group in values => quotients, out, is_decided)`: the codes of all values.
macro_rules! walk_nibbles {
    ($input:ident, $simd:ident, $tree:ident, $group:ident in $values:ident => $quotients:expr, $out:ident, $is_decided:ident) => {{
        let mut all = true;
        let (groups, rest) = $values.as_chunks::<GROUP>();
        let (whole, tail) = $out.split_at_mut($out.len().min(groups.len() * (GROUP / 2)));
        for (group, out) in groups.iter().zip(whole.as_chunks_mut::<{ GROUP / 2 }>().0) {
            let $group = $input::widen($simd, group);
            let (codes, decided) = $simd.nibbles($tree, &$quotients);
            *out = codes;
            all &= decided;
        }
        if !rest.is_empty() {
            let $group = $input::widen($simd, &pad(rest));
            let (codes, decided) = $simd.nibbles($tree, &$quotients);
            for (to, from) in tail.iter_mut().zip(&codes[..rest.len().div_ceil(2)]) {
                *to = *from;
            }
            all &= decided;
        }
        *$is_decided &= all;
        whole.len() / (GROUP / 2) * (GROUP / 2) + rest.len().div_ceil(2).min(tail.len())
    }};
}

kernel! {
    fn divided_blocks<I: Input>(
        values: &[I::Element],
        tree: &LimitTree,
        scales: &[f32],
        block: usize,
        out: &mut [u8],
        is_decided: &mut bool,
    ) = divide_blocks
}

kernel! {
    fn multiplied_blocks<I: Input>(
        values: &[I::Element],
        tree: &LimitTree,
        factors: &[f32],
        block: usize,
        out: &mut [u8],
        is_decided: &mut bool,
    ) = multiply_blocks
}

kernel! {
    fn divided<I: Input>(values: &[I::Element], tree: &LimitTree, scale: f32, out: &mut [u8], is_decided: &mut bool) = divide
}

kernel! {
    fn multiplied<I: Input>(
        values: &[I::Element],
        tree: &LimitTree,
        factor: f32,
        out: &mut [u8],
        is_decided: &mut bool,
    ) = multiply
}

#[inline(always)]
fn divide_blocks<S: Simd, I: Input>(
    simd: S,
    values: &[I::Element],
    tree: &LimitTree,
    scales: &[f32],
    block: usize,
    out: &mut [u8],
    is_decided: &mut bool,
) -> usize {
    let mut all = true;
    let written = (values.len() / block).min(out.len() / (block / 2)).min(scales.len()) * (block / 2);
    let blocks = values.chunks_exact(block).zip(out.chunks_exact_mut(block / 2)).zip(scales);
    for ((values, out), &scale) in blocks {
        let mask = Scaling::Divide.mask(scale);
        for (group, out) in values.as_chunks::<GROUP>().0.iter().zip(out.as_chunks_mut::<{ GROUP / 2 }>().0) {
            let quotients = map!(value in I::widen(simd, group) => f32::from_bits((value / scale).to_bits() & mask));
            let (codes, decided) = simd.nibbles(tree, &quotients);
            *out = codes;
            all &= decided;
        }
    }
    *is_decided &= all;
    written
}

#[inline(always)]
fn multiply_blocks<S: Simd, I: Input>(
    simd: S,
    values: &[I::Element],
    tree: &LimitTree,
    factors: &[f32],
    block: usize,
    out: &mut [u8],
    is_decided: &mut bool,
) -> usize {
    let mut all = true;
    let written = (values.len() / block).min(out.len() / (block / 2)).min(factors.len()) * (block / 2);
    let blocks = values.chunks_exact(block).zip(out.chunks_exact_mut(block / 2)).zip(factors);
    for ((values, out), &factor) in blocks {
        for (group, out) in values.as_chunks::<GROUP>().0.iter().zip(out.as_chunks_mut::<{ GROUP / 2 }>().0) {
            let (codes, decided) = simd.nibbles(tree, &map!(value in I::widen(simd, group) => value * factor));
            *out = codes;
            all &= decided;
        }
    }
    *is_decided &= all;
    written
}

#[inline(always)]
fn divide<S: Simd, I: Input>(
    simd: S,
    values: &[I::Element],
    tree: &LimitTree,
    scale: f32,
    out: &mut [u8],
    is_decided: &mut bool,
) -> usize {
    let mask = Scaling::Divide.mask(scale);
    walk_nibbles!(I, simd, tree, group in values => {
        map!(value in group => f32::from_bits((value / scale).to_bits() & mask))
    }, out, is_decided)
}

#[inline(always)]
fn multiply<S: Simd, I: Input>(
    simd: S,
    values: &[I::Element],
    tree: &LimitTree,
    factor: f32,
    out: &mut [u8],
    is_decided: &mut bool,
) -> usize {
    walk_nibbles!(I, simd, tree, group in values => map!(value in group => value * factor), out, is_decided)
}

/// Encodes blocks with values that limits do not decide.
fn encode_by_search<I: Input>(
    values: &[I::Element],
    codebook: &Codebook,
    scales: &[f32],
    block: usize,
    scaling: Scaling,
    out: &mut [u8],
) {
    for ((values, out), &scale) in values.chunks(block).zip(out.chunks_mut(block / 2)).zip(scales) {
        let (factor, mask) = (scaling.factor(scale), scaling.mask(scale));
        for (group, out) in values.chunks(GROUP).zip(out.chunks_mut(GROUP / 2)) {
            let codes = map!(value in I::widen(Portable, &pad(group)) => {
                let quotient = if scaling == Scaling::Divide { value / factor } else { times(value, factor) };
                codebook.code(f32::from_bits(quotient.to_bits() & mask))
            });
            for (to, from) in out.iter_mut().zip(&pack(&codes)[..group.len().div_ceil(2)]) {
                *to = *from;
            }
        }
    }
}
