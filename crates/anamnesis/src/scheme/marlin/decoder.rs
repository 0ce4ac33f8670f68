//! Decoding to `[out, in]`: a tile of the output is a range of columns of Marlin's tiles.

use std::ops::Range;

use anamnesis_kernels::{
    self as kernels,
    chosen::{self, Packed, Rounded},
};

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{Context, LibraryArithmetic, ScaleType, TileDecoder, Window, filled, rounded};

/// The inputs, outputs and bytes of one of Marlin's tiles.
const INPUTS: u64 = 16;
const OUTPUTS: u64 = 64;
const TILE_BYTES: u64 = 512;
/// Output bytes per tile of work. Rows of Marlin's tiles are read piece by piece, and longer pieces cost less.
const PIECE_BYTES: u64 = 2 << 20;
/// Padding bytes between rows of codes, so that rows of a power of two do not map to the same cache sets.
const GAP: usize = 64;

/// The part indices of a weight.
const CODES: usize = 0;
const SCALES: usize = 1;
const SCALE: ScaleType = ScaleType::F16;

/// The decoder of `inputs / 16` by `outputs / 64` tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tiled {
    pub inputs: u64,
    pub outputs: u64,
    pub groups: u64,
}

impl Tiled {
    /// The columns of Marlin's tiles that these elements cover.
    fn strips(&self, elements: &Range<u64>) -> Range<u64> {
        let granule = self.granule();
        elements.start / granule..elements.end.div_ceil(granule)
    }

    /// The index of an output's scale in its row of scales.
    const fn place(&self, output: usize) -> usize {
        let (square, inside) = (output % 64 / 8, output % 8);
        match self.groups {
            // Pairs of outputs, in turn from each of four squares of 8 outputs.
            1 => output / 32 * 32 + inside / 2 * 8 + 2 * (square % 4) + inside % 2,
            _ => output / 64 * 64 + inside * 8 + square,
        }
    }

    fn run(
        &self,
        to: Rounded,
        strips: usize,
        stored: &[&[u8]],
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let (inputs, groups) = (self.inputs as usize, self.groups as usize);
        let columns = strips * OUTPUTS as usize;
        let (row_bytes, stride) = (inputs / 2, inputs / 2 + GAP);
        let (floats, codes, _) = context.scratch(columns * (groups + 1), columns * stride, 0);
        let (scales, row) = floats.split_at_mut(columns * groups);
        let [tiles, stored_scales] = [CODES, SCALES].map(|part| stored.get(part).copied().unwrap_or_default());
        for (group, stored) in stored_scales.chunks_exact(columns * SCALE.bytes() as usize).enumerate() {
            SCALE.widen(level, stored, row)?;
            for column in 0..columns {
                scales[column * groups + group] = row[self.place(column)];
            }
        }
        let tile_rows = inputs / INPUTS as usize;
        filled(stored_scales.len(), scales.len() * SCALE.bytes() as usize)?;
        filled(kernels::untile_marlin(level, tiles, tile_rows, strips, codes, stride), columns * row_bytes)?;
        let mut written = 0;
        let map = std::array::from_fn(|code| code as f32 - 8.0);
        let rows = codes.chunks(stride).zip(scales.chunks_exact(groups));
        for ((codes, scales), out) in rows.zip(out.chunks_exact_mut(inputs * to.bytes())) {
            let codes = &codes[..row_bytes];
            let block = inputs / groups;
            written += chosen::coded_blocks(level, Packed::LowNibbles, to, codes, &map, &[], scales, block, out);
        }
        Ok(written)
    }
}

impl TileDecoder for Tiled {
    fn granule(&self) -> u64 {
        OUTPUTS * self.inputs
    }

    fn tile_bytes(&self) -> u64 {
        PIECE_BYTES
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let strips = self.strips(&elements);
        let count = strips.end - strips.start;
        for (part, bytes, rows) in
            [(CODES, TILE_BYTES, self.inputs / INPUTS), (SCALES, OUTPUTS * SCALE.bytes(), self.groups)]
        {
            let stride = self.outputs / OUTPUTS * bytes;
            windows.push(Window::columns(part, strips.start * bytes, count * bytes, stride, rows));
        }
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let strips = self.strips(&elements);
        let count = (strips.end - strips.start) as usize;
        self.run(rounded(target), count, inputs, out, context)
    }

    fn describe(&self) -> String {
        match self.groups {
            1 => "Marlin 4-bit, one group".to_owned(),
            groups => format!("Marlin 4-bit, groups of {}", self.inputs / groups),
        }
    }

    fn library_arithmetic(&self) -> LibraryArithmetic {
        LibraryArithmetic::in_type_of(Some(SCALE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The permutations of scales in the packing code of Marlin.
    #[test]
    fn the_scale_of_every_output_is_found_where_it_was_put() {
        let single: Vec<usize> = (0..4).flat_map(|i| [0, 1, 8, 9, 16, 17, 24, 25].map(|step| 2 * i + step)).collect();
        let several: Vec<usize> = (0..8).flat_map(|i| (0..8).map(move |step| i + 8 * step)).collect();
        for (groups, order) in [(1, single), (2, several)] {
            let tiled = Tiled { inputs: 32, outputs: 128, groups };
            for (place, output) in
                (0..128).map(|place| (place, order[place % order.len()] + place / order.len() * order.len()))
            {
                assert_eq!(tiled.place(output), place, "{groups} groups, output {output}");
            }
        }
    }
}
