//! Values to packed codes of four bits.

use super::{Codebook, Input};
use crate::GROUP;
use crate::group::pad;
use crate::simd::{Simd, Tree, pack};

/// Scales below this count as this much where [`Scaling::Multiply`] inverts them.
pub const SMALLEST_SCALE: f32 = 1e-38;

/// How a value is brought to its block's scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scaling {
    /// `value / scale`; zero where the scale is zero.
    Divide,
    /// `value * (1 / scale)`, each operation rounded, with the scale at least [`SMALLEST_SCALE`].
    Multiply,
}

kernel! {
    /// Encodes `values` in blocks, two codes per byte, the first in the high nibble.
    ///
    /// Every block but the last has an even length. The second code of a last byte with one value is that of zero. Values
    /// past the last block of `scales` are left alone; a `block` of zero counts as two.
    ///
    /// ```
    /// use anamnesis_kernels::{Codebook, F32, Level, Scaling, nearest_codes};
    ///
    /// let codebook = Codebook::nearest(std::array::from_fn(|code| code as f32 / 15.0));
    /// let mut codes = [0; 2];
    /// nearest_codes::<F32>(Level::detect(), &[2.0, 0.1, 1.0], &codebook, &[2.0], 4, Scaling::Divide, &mut codes);
    /// assert_eq!(codes, [0xF1, 0x70]);
    /// ```
    pub fn nearest_codes<I: Input>(
        values: &[I::Element],
        codebook: &Codebook,
        scales: &[f32],
        block: usize,
        scaling: Scaling,
        out: &mut [u8],
    ) = body
}

#[inline(always)]
fn body<S: Simd, I: Input>(
    simd: S,
    values: &[I::Element],
    codebook: &Codebook,
    scales: &[f32],
    block: usize,
    scaling: Scaling,
    out: &mut [u8],
) {
    let block = block.max(2);
    for ((values, out), &scale) in values.chunks(block).zip(out.chunks_mut(block / 2)).zip(scales) {
        if scaling == Scaling::Divide && scale == 0.0 {
            let code = codebook.code(0.0);
            out.iter_mut().take(values.len().div_ceil(2)).for_each(|byte| *byte = code << 4 | code);
        } else if let Some(tree) = codebook.tree() {
            match scaling {
                Scaling::Divide => fast::<S, I, false>(simd, values, codebook, tree, scale, out),
                Scaling::Multiply => fast::<S, I, true>(simd, values, codebook, tree, inverse(scale), out),
            }
        } else {
            slow::<S, I>(simd, values, codebook, scale, scaling, out);
        }
    }
}

/// One over a scale that is not too small; NaN stays.
#[inline(always)]
fn inverse(scale: f32) -> f32 {
    1.0 / if scale < SMALLEST_SCALE { SMALLEST_SCALE } else { scale }
}

/// Encodes a block by limits.
#[inline(always)]
fn fast<S: Simd, I: Input, const MULTIPLY: bool>(
    simd: S,
    values: &[I::Element],
    codebook: &Codebook,
    tree: &Tree,
    scale: f32,
    out: &mut [u8],
) {
    let (groups, rest) = values.as_chunks::<GROUP>();
    let (whole, tail) = out.split_at_mut(out.len().min(groups.len() * (GROUP / 2)));
    for (group, out) in groups.iter().zip(whole.as_chunks_mut::<{ GROUP / 2 }>().0) {
        *out = group_codes::<S, MULTIPLY>(simd, &I::widen(simd, group), codebook, tree, scale);
    }
    if !rest.is_empty() {
        let codes = group_codes::<S, MULTIPLY>(simd, &I::widen(simd, &pad(rest)), codebook, tree, scale);
        for (to, from) in tail.iter_mut().zip(&codes[..rest.len().div_ceil(2)]) {
            *to = *from;
        }
    }
}

#[inline(always)]
fn group_codes<S: Simd, const MULTIPLY: bool>(
    simd: S,
    values: &[f32; GROUP],
    codebook: &Codebook,
    tree: &Tree,
    scale: f32,
) -> [u8; GROUP / 2] {
    let quotients = map!(value in values => if MULTIPLY { value * scale } else { value / scale });
    match simd.nibbles(tree, &quotients) {
        Some(codes) => codes,
        None => far_codes(&quotients, codebook),
    }
}

/// The codes of a group with a quotient that limits do not know.
#[cold]
#[inline(never)]
fn far_codes(quotients: &[f32; GROUP], codebook: &Codebook) -> [u8; GROUP / 2] {
    let mut codes = [0; GROUP];
    for (code, &quotient) in codes.iter_mut().zip(quotients) {
        *code = codebook.code(quotient);
    }
    pack(&codes)
}

/// Encodes a block without limits.
#[inline(always)]
fn slow<S: Simd, I: Input>(
    simd: S,
    values: &[I::Element],
    codebook: &Codebook,
    scale: f32,
    scaling: Scaling,
    out: &mut [u8],
) {
    for (group, out) in values.chunks(GROUP).zip(out.chunks_mut(GROUP / 2)) {
        let values = I::widen(simd, &pad(group));
        let quotients = match scaling {
            Scaling::Divide => map!(value in values => value / scale),
            Scaling::Multiply => map!(value in values => value * inverse(scale)),
        };
        let codes = far_codes(&quotients, codebook);
        for (to, from) in out.iter_mut().zip(&codes[..group.len().div_ceil(2)]) {
            *to = *from;
        }
    }
}
