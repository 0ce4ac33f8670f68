//! Encoding group-wise quantised matrices, which [`Grouped`](super::Grouped) decodes.
//!
//! | property | type | |
//! |---|---|---|
//! | values that share a scale | [`Grid`] | all, a row, a group of a row, a block |
//! | the scale and offset of a group | [`ScaleRule`] | the arithmetic of the library |
//! | code of a value | [`Goal`] | the operations with their rounding, and the type of codes |
//! | layout of codes | [`Layout`] | consecutive |
//! | storage of scales and offsets | [`ScaleType`], [`ZeroPointStorage`] | as numbers, or packed down the columns |
//!
//! The scheme's own decoder decodes the result, to measure the error. The outputs are, in this order: codes, scales,
//! offsets, the global scale, and constants that do not depend on the values.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::chosen::{self, Values};
use anamnesis_kernels::{self as kernels, Goal, Level};

use super::Layout;
use super::scaling::{Extremes, Groups, ScaleRule};
use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::words::{place, put};
use crate::scheme::coder::{
    Arrangement, Context, EncodedIntegers, EncodedTensor, FirstPass, Grid, OffsetLayout, ScaleType, TileDecoder,
    TileEncoder, Window, filled, mishandled,
};

/// The granule of a weight with a single scale, in values.
const SINGLE_SCALE_GRANULE: u64 = 1 << 12;

/// How offsets (zero points) are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ZeroPointStorage {
    Nothing,
    /// Like the scales, in this type.
    Stored(ScaleType),
    /// As codes of this many bits in 32-bit words, packed down the columns without gaps, with the middle code added.
    PackedDown {
        bits: u8,
    },
}

/// The encoder of a weight.
#[derive(Clone)]
pub(crate) struct GroupedEncoder {
    /// Codes, scales, offsets, the global scale, constants.
    pub outputs: Vec<EncodedTensor>,
    pub grid: Grid,
    pub layout: Layout,
    pub goal: Goal,
    pub rule: Arc<dyn ScaleRule>,
    pub scale: ScaleType,
    pub offsets: ZeroPointStorage,
    /// The contents of the constant outputs.
    pub constants: Vec<Vec<u8>>,
    /// The extremes of all values, after the first pass.
    pub seen: Option<Extremes>,
    pub decoder: Arc<dyn TileDecoder>,
}

impl Hash for GroupedEncoder {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { outputs, grid, layout, goal, rule, scale, offsets, constants, seen, decoder } = self;
        (outputs, grid, layout, goal, scale, offsets, constants).hash(state);
        seen.map(|seen| [seen.low, seen.high].map(f32::to_bits)).hash(state);
        rule.identify(state);
        decoder.identify(state);
    }
}

impl GroupedEncoder {
    fn is_one_scale(&self) -> bool {
        self.grid.arrangement == Arrangement::Tensor
    }

    /// Whether the groups of all rows can be processed as one long row.
    fn is_one_row(&self) -> bool {
        self.grid.block_rows == 1 && self.grid.cols.is_multiple_of(self.grid.block_cols)
    }

    /// The range of scales of these values.
    fn span(&self, range: &Range<u64>) -> Range<u64> {
        if self.is_one_scale() { 0..1 } else { self.grid.span(range) }
    }

    /// The rows of words that hold the packed offsets of these rows of scales.
    fn packed_rows(&self, range: &Range<u64>, bits: u8) -> Range<u64> {
        let words = |row: u64| (row * u64::from(bits)).div_ceil(32);
        words(range.start / self.grid.cols)..words(range.end / self.grid.cols)
    }

    /// Finds the extremes of each group.
    fn extremes(
        &self,
        level: Level,
        values: &[f32],
        lows: &mut [f32],
        highs: &mut [f32],
        row: &mut [f32],
    ) -> Result<()> {
        if let (true, Some(seen)) = (self.is_one_scale(), self.seen) {
            lows.fill(seen.low);
            highs.fill(seen.high);
            return Ok(());
        }
        let block = self.grid.block_cols as usize;
        if self.is_one_row() {
            return self.block_extremes(level, values, block, lows, highs);
        }
        lows.fill(Extremes::NONE.low);
        highs.fill(Extremes::NONE.high);
        let grid_cols = self.grid.grid_cols as usize;
        let (row_lows, row_highs) = row.split_at_mut(grid_cols);
        for (index, values) in values.chunks(self.grid.cols as usize).enumerate() {
            self.block_extremes(level, values, block, row_lows, row_highs)?;
            let first = index / self.grid.block_rows as usize * grid_cols;
            let all = lows[first..].iter_mut().zip(&mut highs[first..]);
            for ((low, high), (row_low, row_high)) in all.zip(row_lows.iter().zip(&*row_highs)) {
                (*low, *high) = (low.min(*row_low), high.max(*row_high));
            }
        }
        Ok(())
    }

    fn block_extremes(
        &self,
        level: Level,
        values: &[f32],
        block: usize,
        lows: &mut [f32],
        highs: &mut [f32],
    ) -> Result<()> {
        if self.rule.needs_extremes() {
            return filled(kernels::block_range(level, values, block, lows, highs), highs.len());
        }
        filled(chosen::block_largest(level, Values::F32(values), block, highs), highs.len())?;
        lows.iter_mut().zip(highs).for_each(|(low, high)| *low = -*high);
        Ok(())
    }

    /// Encodes values to one code per byte, and returns how many were written.
    fn codes(&self, level: Level, values: &[f32], factors: &[f32], shifts: &[f32], out: &mut [u8]) -> usize {
        let (goal, block) = (self.goal, self.grid.block_cols as usize);
        if self.is_one_scale() || self.is_one_row() {
            let group = if self.is_one_scale() { values.len() } else { block };
            return kernels::group_codes(level, goal, values, group, factors, shifts, out);
        }
        let (cols, grid_cols, mut written) = (self.grid.cols as usize, self.grid.grid_cols as usize, 0);
        for (index, (values, out)) in values.chunks(cols).zip(out.chunks_mut(cols)).enumerate() {
            let first = index / self.grid.block_rows as usize * grid_cols;
            written += kernels::group_codes(level, goal, values, block, &factors[first..], &shifts[first..], out);
        }
        written
    }

    /// Packs codes into the layout, and returns the bytes written.
    fn pack(&self, level: Level, codes: &[u8], out: &mut [u8]) -> Result<usize> {
        let cols = self.grid.cols;
        match self.layout {
            Layout::Dense { bits, .. } if self.layout.is_gapless(cols) => {
                Ok(kernels::pack_bits(level, codes, bits, out))
            }
            Layout::Dense { bits, row_bytes } => {
                let rows = codes.chunks(cols as usize).zip(out.chunks_mut(row_bytes as usize));
                let pack_row = |(codes, out): (&[u8], &mut [u8])| {
                    let written = kernels::pack_bits(level, codes, bits, out);
                    if written < (codes.len() * usize::from(bits)).div_ceil(8) {
                        return written;
                    }
                    // The padding after the last code of a row is zero.
                    out[written..].fill(0);
                    out.len()
                };
                Ok(rows.map(pack_row).sum())
            }
            Layout::Words { .. } | Layout::Planes { .. } | Layout::HighNibbles | Layout::RowPairs => {
                Err(mishandled("a layout that is not written"))
            }
        }
    }

    /// Packs offsets down the columns of whole rows of words, and returns the bytes written.
    fn pack_down(&self, offsets: &[f32], bits: u8, out: &mut [u8]) -> usize {
        out.fill(0);
        let cols = self.grid.grid_cols as usize;
        let middle = 1i32 << (bits - 1);
        let words = out.as_chunks_mut::<4>().0;
        for (row, offsets) in offsets.chunks(cols).enumerate() {
            let place = place(row as u64, bits, true);
            for (col, &offset) in offsets.iter().enumerate() {
                put(words, place, cols, col, (offset as i32 + middle) as u8);
            }
        }
        out.len()
    }

    fn global_scale(&self) -> Option<f32> {
        self.rule.global_scale(self.seen.unwrap_or(Extremes::NONE))
    }

    /// Refuses groups with a finite scale whose values cannot be divided by the factor. A group with a NaN or infinite
    /// scale decodes to NaN or infinity, which the pipeline refuses.
    fn check(&self, range: &Range<u64>, groups: &Groups<'_>) -> Result<()> {
        let is_bad = |(scale, factor): (&f32, &f32)| scale.is_finite() & (!factor.is_finite() | (*factor == 0.0));
        let all = || groups.scales.iter().zip(&*groups.factors);
        // No early exit, so that the loop is vectorised.
        if !all().fold(false, |any, group| any | is_bad(group)) {
            return Ok(());
        }
        let place = all().position(is_bad).unwrap_or_default();
        let group = self.span(range).start + place as u64;
        let scale = groups.scales[place];
        Err(AnamnesisError::parse(format!(
            "the scale of group {group} would be {scale}: its values are too large or too far apart"
        )))
    }
}

impl TileEncoder for GroupedEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn granule(&self) -> u64 {
        if self.is_one_scale() {
            return SINGLE_SCALE_GRANULE;
        }
        let rows = match self.offsets {
            // The rows after which a word of packed offsets ends with a row.
            ZeroPointStorage::PackedDown { bits } => 32 >> bits.trailing_zeros().min(5),
            ZeroPointStorage::Nothing | ZeroPointStorage::Stored(_) => self.grid.block_rows,
        };
        rows * self.grid.cols
    }

    fn scale_values(&self) -> u64 {
        if self.is_one_scale() { SINGLE_SCALE_GRANULE } else { self.grid.block_cols }
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        let mut push = |place| places.push(Window::between(places.len(), place));
        let span = self.span(range);
        let is_first = range.start == 0;
        let with_first = |bytes: u64| if is_first { 0..bytes } else { 0..0 };
        let of = |kind: ScaleType| match self.is_one_scale() {
            true => with_first(kind.bytes()),
            false => span.start * kind.bytes()..span.end * kind.bytes(),
        };
        let cols = self.grid.cols;
        push(match self.is_one_scale() {
            true => range.clone(),
            false => self.layout.byte_of(cols, range.start)..self.layout.byte_of(cols, range.end),
        });
        push(of(self.scale));
        match self.offsets {
            ZeroPointStorage::Nothing => {}
            ZeroPointStorage::Stored(kind) => push(of(kind)),
            ZeroPointStorage::PackedDown { bits } => {
                let (rows, row_bytes) = (self.packed_rows(range, bits), self.grid.grid_cols * 4);
                push(rows.start * row_bytes..rows.end * row_bytes);
            }
        }
        if self.rule.has_global_scale() {
            push(with_first(4));
        }
        self.constants.iter().for_each(|constant| push(with_first(constant.len() as u64)));
    }

    fn first_pass(&self) -> Option<Box<dyn FirstPass + '_>> {
        let needs = self.seen.is_none() && (self.is_one_scale() || self.rule.has_global_scale());
        needs.then(|| Box::new(ExtremesPass { encoder: self, seen: Extremes::NONE }) as Box<dyn FirstPass>)
    }

    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let span = self.span(range);
        let count = (span.end - span.start) as usize;
        let row = 2 * self.grid.grid_cols as usize;
        let is_packed = self.layout.bits() != 8;
        let (floats, bytes, _) = context.scratch(4 * count + row, if is_packed { values.len() } else { 0 }, 0);
        let (factors, floats) = floats.split_at_mut(count);
        let (shifts, floats) = floats.split_at_mut(count);
        let (scales, floats) = floats.split_at_mut(count);
        let (offsets, floats) = floats.split_at_mut(count);
        self.extremes(level, values, factors, shifts, &mut floats[..row])?;
        let global = self.global_scale();
        let mut groups = Groups { factors, shifts, scales, offsets };
        self.rule.groups(global.unwrap_or(1.0), &mut groups);
        self.check(range, &groups)?;
        let [codes, stored_scales, rest @ ..] = outs else { return Err(mishandled("fewer outputs than it asked for")) };
        let mut written = if is_packed {
            let bytes = &mut bytes[..values.len()];
            filled(self.codes(level, values, groups.factors, groups.shifts, bytes), values.len())?;
            self.pack(level, bytes, codes)?
        } else {
            self.codes(level, values, groups.factors, groups.shifts, codes)
        };
        written += self.scale.narrow(level, groups.scales, stored_scales);
        let mut rest = rest.iter_mut();
        let zero_points = if self.offsets == ZeroPointStorage::Nothing { None } else { rest.next() };
        written += match (self.offsets, zero_points) {
            (ZeroPointStorage::Nothing, _) => 0,
            (ZeroPointStorage::Stored(kind), Some(out)) => kind.narrow(level, groups.offsets, out),
            (ZeroPointStorage::PackedDown { bits }, Some(out)) => self.pack_down(groups.offsets, bits, out),
            (ZeroPointStorage::Stored(_) | ZeroPointStorage::PackedDown { .. }, None) => {
                return Err(mishandled("no place for offsets"));
            }
        };
        if let Some(global) = global {
            let out = rest.next().ok_or_else(|| mishandled("no place for the global scale"))?;
            out.iter_mut().zip(global.to_le_bytes()).for_each(|(out, byte)| *out = byte);
            written += out.len().min(4);
        }
        for (out, constant) in rest.zip(&self.constants).filter(|(out, _)| !out.is_empty()) {
            out.copy_from_slice(constant);
            written += out.len();
        }
        Ok(written)
    }

    fn decode(
        &self,
        range: &Range<u64>,
        outs: &[&mut [u8]],
        decoded: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let mut inputs: Vec<&[u8]> = outs.iter().map(|out| &**out).collect();
        inputs.truncate(outs.len() - self.constants.len());
        // The global scale is written with the first tile only, but every tile needs it.
        let global = self.global_scale().map(f32::to_le_bytes);
        if let (Some(global), Some(last)) = (&global, inputs.last_mut()) {
            *last = global;
        }
        let (mut scale, mut offset) = ([0; 4], [0; 4]);
        if let (true, Some(seen)) = (self.is_one_scale(), self.seen) {
            let group = self.rule.group(seen, global.map_or(1.0, f32::from_le_bytes));
            let level = context.level();
            let scale = &mut scale[..self.scale.bytes() as usize];
            filled(self.scale.narrow(level, &[group.scale], scale), scale.len())?;
            inputs[1] = scale;
            if let ZeroPointStorage::Stored(kind) = self.offsets {
                let offset = &mut offset[..kind.bytes() as usize];
                filled(kind.narrow(level, &[group.offset], offset), offset.len())?;
                inputs[2] = offset;
            }
        }
        self.decoder.decode(range.clone(), &inputs, TargetDtype::F32, decoded, context)
    }

    fn decoder(&self) -> Option<&dyn TileDecoder> {
        Some(&*self.decoder)
    }

    fn integers(&self) -> Option<EncodedIntegers> {
        let integers = self.decoder.codes().integers()?;
        let zero = match integers.offsets {
            OffsetLayout::Constant(zero) => Some(zero),
            _ => None,
        };
        Some(EncodedIntegers { integers, zero, any_scale: true, constants: self.constants.clone() })
    }
}

/// Finds the extremes of all values of a weight.
struct ExtremesPass<'a> {
    encoder: &'a GroupedEncoder,
    seen: Extremes,
}

impl FirstPass for ExtremesPass<'_> {
    fn see(&mut self, values: &[f32], largest: f32, context: &mut Context) -> Result<()> {
        let (mut low, mut high) = ([-largest], [largest]);
        if self.encoder.rule.needs_extremes() {
            let count = usize::from(!values.is_empty());
            filled(kernels::block_range(context.level(), values, values.len(), &mut low, &mut high), count)?;
        }
        if !values.is_empty() {
            self.seen = self.seen.with(Extremes { low: low[0], high: high[0] });
        }
        Ok(())
    }

    fn see_largest(&mut self, largest: f32) {
        self.seen = self.seen.with(Extremes { low: -largest, high: largest });
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn TileEncoder>> {
        Ok(Box::new(GroupedEncoder { seen: Some(self.seen), ..self.encoder.clone() }))
    }
}
