//! `marlin-24`: symmetric 4- or 8-bit integers, two of every four, in the order of the sparse Marlin kernel.
//!
//! | stored | type and shape | |
//! |---|---|---|
//! | `X.weight_packed` | I32 `[in / 32, out * bits / 2]` | 16 kept inputs by 64 outputs in runs of 1024 codes, plus `2^(bits - 1)` |
//! | `X.meta` | I16 `[in / 32, 2 * out]` | the places of the kept inputs: two bits each, for 16 inputs in a word |
//! | `X.scale_packed` | F16 `[groups, out]` | |
//!
//! `value = code * scale`; places without a code are zero.

use std::ops::Range;
use std::sync::Arc;

use super::parts::Parts;
use super::spec::{Spec, Strategy};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{
    Arrangement, Coding, Context, Grid, PartOrigin, Recipe, Restore, RestoredParts, ScaleType, Window, mishandled,
};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Scales};

pub(super) const FORMAT: &str = "marlin-24";
/// Outputs of a strip, inputs of a row of tiles, and codes of a run.
const STRIP: u64 = 64;
const INPUTS: u64 = 32;
const RUN: usize = 1024;
/// Kept inputs of a row of tiles.
const KEPT: usize = 16;

pub(super) fn sparse_weight(claims: &Claims<'_>, parts: &Parts, spec: &Spec) -> Result<Weight> {
    spec.check_format(&[FORMAT])?;
    spec.check_type(false, |bits| matches!(bits, 4 | 8))?;
    if !spec.symmetric {
        return Err(AnamnesisError::parse(format!("{} says it has zero points, which {FORMAT} has not", spec.place)));
    }
    let others = [parts.zero_point, parts.shape, parts.g_idx, parts.global_scale, parts.scale];
    parts.refuse(claims, FORMAT, &others)?;
    let codes = claims.catalog.get(parts.codes);
    let (scale_id, scale) = parts.needed(claims, parts.scale_packed, "scale_packed")?;
    let (meta_id, meta) = parts.needed(claims, parts.meta, "meta")?;
    let misfit = || {
        AnamnesisError::parse(format!(
            "words of shape {:?}, {} {:?} and {} {:?} do not go together",
            codes.shape,
            quoted(&scale.name),
            scale.shape,
            quoted(&meta.name),
            meta.shape
        ))
    };
    let (&[tiles, words], &[groups, outputs]) = (&codes.shape[..], &scale.shape[..]) else { return Err(misfit()) };
    let [tiles, words, groups, outputs] = [tiles, words, groups, outputs].map(|size| size as u64);
    let bits = u64::from(spec.bits);
    let inputs = tiles.checked_mul(INPUTS).ok_or_else(misfit)?;
    let is_meta = meta.shape.iter().map(|&dim| dim as u64).eq([tiles, outputs.saturating_mul(2)]);
    let is_typed = codes.dtype == Dtype::I32 && scale.dtype == Dtype::F16 && meta.dtype == Dtype::I16;
    let is_whole = outputs > 0 && outputs.is_multiple_of(STRIP) && tiles > 0 && groups > 0;
    if !is_meta || !is_typed || !is_whole || words != outputs * bits / 2 {
        return Err(misfit());
    }
    let group = match spec.strategy {
        Strategy::Channel if groups == 1 => inputs,
        Strategy::Group(size) if inputs.is_multiple_of(size) && inputs / size == groups => size,
        _ => {
            let place = &spec.place;
            return Err(AnamnesisError::parse(format!(
                "{groups} scales for {inputs} inputs, which {place} contradicts"
            )));
        }
    };
    let is_permuted = matches!(spec.strategy, Strategy::Group(size) if size < inputs / 2);
    let grouped = Grouped {
        layout: Layout::bytes(8, inputs),
        meaning: Meaning::Signed,
        grid: Grid::new(outputs, inputs, 1, group, Arrangement::Block(1, group)),
        scales: Scales { kind: ScaleType::F16, global: None },
        offsets: Offsets::None,
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: format!("marlin-24 {bits}-bit, groups of {group}"),
    };
    let origins = vec![
        PartOrigin::Restored(Arc::new(Strips { inputs, outputs, bits })),
        PartOrigin::Restored(Arc::new(PermutedScales { groups, outputs, is_permuted })),
    ];
    let decoder = RestoredParts { granule: Some(STRIP * inputs), ..RestoredParts::around(Arc::new(grouped), origins) };
    Ok(Weight {
        name: parts.output_name(claims),
        shape: vec![outputs as usize, inputs as usize],
        values: outputs.checked_mul(inputs).ok_or_else(misfit)?,
        scheme: QuantScheme::Named("marlin-24"),
        blocks: Some(Blocks { bits: spec.bits, size: group, nested: false }),
        coding: Coding {
            format: FORMAT.to_owned(),
            bits: Some(spec.bits),
            group_size: Some(group),
            block_shape: None,
            symmetric: Some(true),
            evidence: claims.evidence(&["config_groups"]),
        },
        parts: vec![parts.codes, meta_id, scale_id],
        recipe: Recipe::Ready(Arc::new(decoder)),
    })
}

/// Restores codes to rows of bytes, one per output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Strips {
    inputs: u64,
    outputs: u64,
    bits: u64,
}

/// The element of a run that each of its codes is, in the order of `[16 x 16]` tiles.
fn order(bits: u64) -> [u16; RUN] {
    let interleaved: &[usize] = if bits == 4 { &[0, 2, 4, 6, 1, 3, 5, 7] } else { &[0, 2, 1, 3] };
    let mut order = [0; RUN];
    for (at, element) in order.iter_mut().enumerate() {
        let at = at / interleaved.len() * interleaved.len() + interleaved[at % interleaved.len()];
        // Thread, outputs of a thread, half of a tile, and one of four inputs.
        let (thread, j, half, input) = (at / 32, at / 8 % 4, at / 4 % 2, at % 4);
        let row = 2 * (thread % 4) + input % 2 + 8 * (input / 2);
        *element = (16 * row + thread / 8 * 256 + 8 * (thread / 4 % 2) + 4 * half + j) as u16;
    }
    order
}

/// The row and column of the word that holds the places of an output's 16 inputs, in a strip.
const fn meta_place(output: usize, column: usize) -> (usize, usize) {
    let row = output % 2 * 2 + output % 8 / 4 + output % 4 / 2 * 32 + output / 8 * 4;
    match (row % 2, column % 2) {
        (0, 1) => (row + 1, column - 1),
        (1, 0) => (row - 1, column + 1),
        _ => (row, column),
    }
}

impl Strips {
    fn strips(&self, plain: &Range<u64>) -> Range<u64> {
        let strip = (STRIP * self.inputs).max(1);
        plain.start / strip..plain.end.div_ceil(strip)
    }

    fn run_bytes(&self) -> u64 {
        RUN as u64 * self.bits / 8
    }

    /// The signed code at a place of a run.
    fn code(&self, run: &[u8], at: usize) -> u8 {
        match self.bits {
            4 => (run[at / 2] >> (at % 2 * 4) & 15).wrapping_sub(8),
            _ => run[at].wrapping_sub(128),
        }
    }
}

impl Restore for Strips {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let strips = self.strips(plain);
        let (count, rows) = (strips.end - strips.start, self.inputs / INPUTS);
        for (part, bytes) in [(0, self.run_bytes()), (1, 4 * STRIP)] {
            let stride = self.outputs / STRIP * bytes;
            windows.push(Window::columns(part, strips.start * bytes, count * bytes, stride, rows));
        }
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let [codes, metas] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let (strips, width) = (self.strips(plain), self.inputs as usize);
        if !plain.start.is_multiple_of(STRIP * self.inputs) || !out.len().is_multiple_of(STRIP as usize * width) {
            return Err(mishandled("a range that cuts a strip"));
        }
        let too_few = || mishandled("too few codes");
        let (count, run_bytes, order) =
            ((strips.end - strips.start) as usize, self.run_bytes() as usize, order(self.bits));
        let meta_row = 2 * STRIP as usize;
        out.fill(0);
        for (strip, out) in out.chunks_exact_mut(STRIP as usize * width).enumerate() {
            for tile in 0..width / INPUTS as usize {
                let start = (tile * count + strip) * run_bytes;
                let run = codes.get(start..start + run_bytes).ok_or_else(too_few)?;
                // The kept inputs of each output.
                let mut kept = [[0; KEPT]; STRIP as usize];
                for (at, element) in order.iter().enumerate() {
                    let element = usize::from(*element);
                    kept[element / 256 * 16 + element % 16][element % 256 / 16] = self.code(run, at);
                }
                let start = 2 * (tile * count + strip) * meta_row;
                let metas = metas.get(start..start + 2 * meta_row).ok_or_else(too_few)?.as_chunks::<2>().0;
                for (output, kept) in kept.iter().enumerate() {
                    let out = &mut out[output * width + tile * INPUTS as usize..][..INPUTS as usize];
                    for (column, (kept, out)) in kept.chunks_exact(8).zip(out.chunks_exact_mut(16)).enumerate() {
                        let (row, column) = meta_place(output, column);
                        let places = u16::from_le_bytes(metas[2 * row + column]);
                        for (quad, (pair, out)) in kept.chunks_exact(2).zip(out.chunks_exact_mut(4)).enumerate() {
                            let nibble = places >> (4 * quad);
                            let (first, second) = (usize::from(nibble & 3), usize::from(nibble >> 2 & 3));
                            if first == second {
                                let output = (strips.start as usize + strip) * STRIP as usize + output;
                                let why = format!("meta has the place {first} twice in a quad of output {output}");
                                return Err(AnamnesisError::parse(why));
                            }
                            (out[first], out[second]) = (pair[0], pair[1]);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Restores the scales to `[out, groups]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PermutedScales {
    groups: u64,
    outputs: u64,
    /// Whether the outputs of a run of eight are in another order.
    is_permuted: bool,
}

impl PermutedScales {
    fn rows(&self, plain: &Range<u64>) -> Range<u64> {
        let row = 2 * self.groups;
        // Whole runs of eight outputs.
        plain.start / row / 8 * 8..plain.end.div_ceil(row).next_multiple_of(8)
    }
}

impl Restore for PermutedScales {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let rows = self.rows(plain);
        windows.push(Window::columns(2, 2 * rows.start, 2 * (rows.end - rows.start), 2 * self.outputs, self.groups));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let [stored] = inputs else { return Err(mishandled("other windows than it asked for")) };
        /// Where the scale of each of eight outputs is stored.
        const PLACES: [u64; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
        let (rows, stored) = (self.rows(plain), stored.as_chunks::<2>().0);
        let count = rows.end - rows.start;
        for (out, at) in out.as_chunks_mut::<2>().0.iter_mut().zip(plain.start / 2..) {
            let (output, group) = (at / self.groups - rows.start, at % self.groups);
            let place = if self.is_permuted { output / 8 * 8 + PLACES[output as usize % 8] } else { output };
            let scale = stored.get((group * count + place) as usize);
            *out = *scale.ok_or_else(|| mishandled("too few scales"))?;
        }
        Ok(())
    }
}
