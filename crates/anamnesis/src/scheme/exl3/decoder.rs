//! Decoding to `[out, in]`: a tile of the output is a range of whole blocks of 128 outputs.

use std::ops::Range;
use std::sync::OnceLock;

use anamnesis_kernels::chosen::{Rounded, round_slice, transpose_columns};
use anamnesis_kernels::{TILE_SIDE, TrellisCodebook, decode_trellis, half_times, products, widen_f16};

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{Context, TileDecoder, Window, filled, mishandled, rounded};

/// The root of 1/128 in F32, by which the Hadamard matrix is multiplied.
const SCALE: f32 = f32::from_bits(0x3DB5_04F3);
/// Inputs and outputs of a block, to which dimensions are padded.
pub(super) const BLOCK: u64 = 128;
/// Rows of a block as an index.
const SIDE: usize = BLOCK as usize;
/// Tiles along a side of a block.
const TILES: usize = SIDE / TILE_SIDE;
/// Values of 16 signs in a word.
const SIGNS: u64 = 16;

/// How the factors of a side are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Side {
    /// F16.
    Factors,
    /// One bit for each, set for −1.
    Signs,
}

/// The decoder of a weight of `inputs` by `outputs`, cropped to the sizes that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Trellis {
    pub inputs: u64,
    pub outputs: u64,
    pub kept_inputs: u64,
    pub kept_outputs: u64,
    /// Twice the bits of a weight.
    pub half_bits: u64,
    pub codebook: TrellisCodebook,
    /// Of the inputs, and of the outputs.
    pub sides: [Side; 2],
}

/// The scaled Hadamard matrix.
fn hadamard() -> &'static [f32] {
    static MATRIX: OnceLock<Vec<f32>> = OnceLock::new();
    MATRIX.get_or_init(|| {
        let sign = |place: usize| ((place / SIDE) & (place % SIDE)).count_ones() % 2 == 1;
        (0..SIDE * SIDE).map(|place| if sign(place) { -SCALE } else { SCALE }).collect()
    })
}

impl Side {
    const fn bytes(self, values: u64) -> u64 {
        match self {
            Self::Factors => 2 * values,
            Self::Signs => 2 * values / SIGNS,
        }
    }

    fn widen(self, stored: &[u8], out: &mut [f32], context: &Context) -> Result<()> {
        match self {
            Self::Factors => filled(widen_f16(context.level(), stored, out), out.len()),
            Self::Signs => {
                filled(stored.len() * 8, out.len())?;
                for (at, out) in out.iter_mut().enumerate() {
                    let is_negative = stored[at / 8] >> (at % 8) & 1 == 1;
                    *out = if is_negative { -1.0 } else { 1.0 };
                }
                Ok(())
            }
        }
    }
}

impl Trellis {
    pub(super) const fn codebook_name(&self) -> &'static str {
        match self.codebook {
            TrellisCodebook::ThreeInstructions => "3inst",
            TrellisCodebook::Mcg => "mcg",
            TrellisCodebook::Mul1 => "mul1",
        }
    }

    pub(super) fn text(&self) -> String {
        format!("EXL3 {} bits, {}", self.half_bits as f64 / 2.0, self.codebook_name())
    }

    /// The bytes of a tile of the trellis.
    const fn tile_bytes(&self) -> u64 {
        16 * self.half_bits
    }

    /// The blocks of outputs that these elements cover.
    fn blocks(&self, elements: &Range<u64>) -> Range<u64> {
        let granule = self.granule();
        elements.start / granule..elements.end.div_ceil(granule)
    }

    /// Decodes a block of 128 by 128 into F16 values, as F32 in `[in, out]`.
    fn block(
        &self,
        tiles: &[u8],
        row_bytes: usize,
        [inputs, outputs]: [&[f32]; 2],
        values: &mut [f32],
        product: &mut [f32],
        context: &Context,
    ) -> Result<()> {
        let (level, tile_bytes) = (context.level(), self.tile_bytes() as usize);
        for (row, col) in (0..TILES).flat_map(|row| (0..TILES).map(move |col| (row, col))) {
            let start = row * row_bytes + col * tile_bytes;
            let tile = tiles.get(start..start + tile_bytes).unwrap_or_default();
            let out = &mut values[row * TILE_SIDE * SIDE + col * TILE_SIDE..];
            let written = decode_trellis(self.codebook, self.half_bits as usize, tile, out, SIDE);
            filled(written, TILE_SIDE * TILE_SIDE)?;
        }
        filled(products(level, hadamard(), SIDE, values, SIDE, product), product.len())?;
        for (row, factor) in product.chunks_exact_mut(SIDE).zip(inputs) {
            filled(half_times(level, &[*factor; SIDE], row), SIDE)?;
        }
        filled(products(level, product, SIDE, hadamard(), SIDE, values), values.len())?;
        filled(half_times(level, outputs, values), values.len())
    }

    fn run(
        &self,
        to: Rounded,
        blocks: usize,
        stored: &[&[u8]],
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let [codes, inputs, outputs] = stored else { return Err(mishandled("other windows than it asked for")) };
        let (level, kept) = (context.level(), self.kept_inputs as usize);
        let mut factors = context.lend_floats(self.inputs as usize);
        let mut of_outputs = context.lend_floats(blocks * SIDE);
        self.sides[0].widen(inputs, &mut factors, context)?;
        self.sides[1].widen(outputs, &mut of_outputs, context)?;
        let mut values = context.lend_floats(SIDE * SIDE);
        let mut product = context.lend_floats(SIDE * SIDE);
        let mut bytes = context.lend(SIDE * SIDE * to.bytes());
        let row_bytes = blocks * TILES * self.tile_bytes() as usize;
        let mut written = 0;
        let strips = out.chunks_mut(SIDE * kept * to.bytes()).zip(of_outputs.chunks_exact(SIDE)).enumerate();
        for (strip, (out, of_outputs)) in strips {
            let columns = out.len() / (kept * to.bytes());
            for (at, of_inputs) in factors.chunks_exact(SIDE).enumerate() {
                let start = at * TILES * row_bytes + strip * TILES * self.tile_bytes() as usize;
                let tiles = codes.get(start..).unwrap_or_default();
                let sides = [of_inputs, of_outputs];
                self.block(tiles, row_bytes, sides, &mut values, &mut product, context)?;
                let rows = SIDE.min(kept.saturating_sub(at * SIDE));
                for (row, kept) in (0..rows).zip(bytes.chunks_exact_mut((columns * to.bytes()).max(1))) {
                    let row = &values[row * SIDE..row * SIDE + columns];
                    filled(round_slice(level, to, row, kept), kept.len())?;
                }
                let transposed = transpose_columns(level, to, &bytes, rows, columns, out, kept, at * SIDE);
                filled(transposed, rows * columns * to.bytes())?;
                written += transposed;
            }
        }
        context.take_back(bytes);
        for floats in [factors, of_outputs, values, product] {
            context.take_back_floats(floats);
        }
        Ok(written)
    }
}

impl TileDecoder for Trellis {
    fn granule(&self) -> u64 {
        BLOCK * self.kept_inputs
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let blocks = self.blocks(&elements);
        let count = blocks.end - blocks.start;
        let strip = TILES as u64 * self.tile_bytes();
        let stride = self.outputs / BLOCK * strip;
        let tile_rows = self.inputs / TILE_SIDE as u64;
        windows.push(Window::columns(0, blocks.start * strip, count * strip, stride, tile_rows));
        windows.push(Window::run(1, 0, self.sides[0].bytes(self.inputs)));
        let [start, bytes] = [blocks.start, count].map(|blocks| self.sides[1].bytes(blocks * BLOCK));
        windows.push(Window::run(2, start, bytes));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let blocks = self.blocks(&elements);
        self.run(rounded(target), (blocks.end - blocks.start) as usize, inputs, out, context)
    }

    fn describe(&self) -> String {
        self.text()
    }
}
