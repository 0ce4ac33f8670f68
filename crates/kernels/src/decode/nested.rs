//! Nested (double) quantisation: scales that are stored as codes in blocks.

use crate::base::GROUP;
use crate::base::float::canonical_nan;
use crate::base::group::pad;
use crate::base::simd::Simd;

kernel! {
    /// Decodes scales: `map[codes[i]] * scales[i / block] + offset`, rounded after the multiplication and again after
    /// the addition.
    ///
    /// Elements past the last block of `scales` are not written; a `block` of zero counts as one.
    ///
    /// ```
    /// use anamnesis_kernels::{Level, nested_scales};
    ///
    /// let map = std::array::from_fn(|code| code as f32);
    /// let mut out = [0.0; 2];
    /// nested_scales(Level::detect(), &[3, 4], &map, &[0.5], 256, 1.0, &mut out);
    /// assert_eq!(out, [2.5, 3.0]);
    /// ```
    pub fn nested_scales(
        codes: &[u8],
        map: &[f32; 256],
        scales: &[f32],
        block: usize,
        offset: f32,
        out: &mut [f32],
    ) = body
}

#[inline(always)]
fn body<S: Simd>(
    simd: S,
    codes: &[u8],
    map: &[f32; 256],
    scales: &[f32],
    block: usize,
    offset: f32,
    out: &mut [f32],
) -> usize {
    let (block, mut written) = (block.max(1), 0);
    let (map, offset) = (&map.map(canonical_nan), canonical_nan(offset));
    for ((codes, out), scale) in codes.chunks(block).zip(out.chunks_mut(block)).zip(scales) {
        let (elements, scale) = (codes.len().min(out.len()), canonical_nan(*scale));
        written += elements;
        let (groups, rest) = codes[..elements].as_chunks::<GROUP>();
        let (whole, tail) = out[..elements].as_chunks_mut::<GROUP>();
        for (group, out) in groups.iter().zip(whole) {
            *out = values(simd, group, map, scale, offset);
        }
        if !rest.is_empty() {
            for (out, value) in tail.iter_mut().zip(values(simd, &pad(rest), map, scale, offset)) {
                *out = value;
            }
        }
    }
    written
}

#[inline(always)]
fn values<S: Simd>(simd: S, codes: &[u8; GROUP], map: &[f32; 256], scale: f32, offset: f32) -> [f32; GROUP] {
    map!(entry in simd.gather(map, &map!(code in codes => u32::from(code))) => entry * scale + offset)
}
