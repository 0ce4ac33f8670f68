//! Encoding `[experts, in, out]` to blocks: a tile is a range of rows of a matrix, transposed to columns of stored
//! blocks.

use std::ops::Range;

use anamnesis_kernels::chosen::{self, Values};
use anamnesis_kernels::{self as kernels, Goal};

use super::transposed::{BLOCK, TransposedBlocks};
use crate::catalog::Dtype;
use crate::error::Result;
use crate::scheme::coder::{Context, EncodedTensor, TileDecoder, TileEncoder, Window, filled};
use crate::scheme::quantise::Candidate;

/// Values per tile. The blocks of a tile are the length of the pieces in which stored rows are written, and longer
/// pieces cost less.
const TILE_VALUES: u64 = 1 << 20;
/// The largest E2M1.
const LARGEST: f32 = 6.0;
/// The smallest exponent of a scale, used for blocks of zeros.
const LEAST: f32 = -127.0;

/// The encoder of a stack of experts.
#[derive(Debug, Hash)]
pub(super) struct TransposedEncoder {
    /// Blocks and scales.
    outputs: [EncodedTensor; 2],
    decoder: TransposedBlocks,
}

impl TransposedEncoder {
    /// The encoder of a weight `[experts, in, out]` whose inputs divide into blocks.
    pub(super) fn new(tensor: &Candidate<'_>, [experts, inputs, outputs]: [usize; 3]) -> Self {
        let blocks = inputs / BLOCK as usize;
        let output = |end: &str, shape: Vec<usize>| EncodedTensor {
            name: format!("{}{end}", tensor.output_name),
            dtype: Dtype::U8,
            shape,
        };
        let tensors = [
            output("_blocks", vec![experts, outputs, blocks, BLOCK as usize / 2]),
            output("_scales", vec![experts, outputs, blocks]),
        ];
        Self { outputs: tensors, decoder: TransposedBlocks { outputs: outputs as u64, blocks: blocks as u64 } }
    }
}

impl TileEncoder for TransposedEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn granule(&self) -> u64 {
        let TransposedBlocks { outputs, blocks } = self.decoder;
        let fits = |count: &u64| blocks.is_multiple_of(*count) && BLOCK * outputs * count <= TILE_VALUES;
        BLOCK * outputs * (1..=blocks).rev().find(fits).unwrap_or(1)
    }

    fn scale_values(&self) -> u64 {
        BLOCK * self.decoder.outputs
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        self.decoder.windows(range.clone(), places);
    }

    fn encode(
        &self,
        _range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let (level, block, outputs) = (context.level(), BLOCK as usize, self.decoder.outputs as usize);
        let (mut rest, mut written) = (values, 0);
        for [codes, exponents] in outs.as_chunks_mut::<2>().0 {
            let count = exponents.len();
            let values;
            (values, rest) = rest.split_at((count * block).min(rest.len()));
            let (floats, bytes, _) = context.scratch(values.len() + count, values.len(), 0);
            let (transposed, factors) = floats.split_at_mut(values.len());
            let factors = &mut factors[..count];
            let bytes = &mut bytes[..values.len()];
            transpose(values, outputs, transposed);
            filled(chosen::block_largest(level, Values::F32(transposed), block, factors), count)?;
            for (factor, exponent) in factors.iter_mut().zip(exponents.iter_mut()) {
                // The next power of two, by a logarithm rounded to F32, like ModelOpt.
                let log = f64::from(*factor / LARGEST).log2() as f32;
                let power = log.max(LEAST).ceil();
                *factor = 2f64.powi(power as i32) as f32;
                *exponent = (power - LEAST) as u8;
            }
            filled(
                kernels::group_codes(level, Goal::E2m1SignedZero, transposed, block, factors, &[], bytes),
                bytes.len(),
            )?;
            written += kernels::pack_bits(level, bytes, 4, codes) + exponents.len();
        }
        Ok(written)
    }

    fn decoder(&self) -> Option<&dyn TileDecoder> {
        Some(&self.decoder)
    }
}

/// Transposes rows of `columns` values, a square at a time.
fn transpose(values: &[f32], columns: usize, transposed: &mut [f32]) {
    const SQUARE: usize = 16;
    let rows = values.len() / columns.max(1);
    for first_row in (0..rows).step_by(SQUARE) {
        for first_column in (0..columns).step_by(SQUARE) {
            for row in first_row..(first_row + SQUARE).min(rows) {
                for column in first_column..(first_column + SQUARE).min(columns) {
                    transposed[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
}
