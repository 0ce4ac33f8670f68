//! Encoding tensors to ggml blocks or to plain floats, row by row.

use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::Level;
use anamnesis_kernels::chosen::round_slice;

use super::GgmlDecoder;
use super::decoder::kernels;
use crate::catalog::{BlockType, Dtype, TargetDtype};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{
    Context, EncodedTensor, PlainDecoder, TileDecoder, TileEncoder, Window, mishandled, rounded,
};

/// The longest row that is encoded. A row is buffered whole, because some block types depend on statistics of the row.
const MAX_ROW_VALUES: usize = 1 << 24;

/// The importance of a tensor's inputs: one value per column, for each matrix of a stack or shared by all of them.
#[derive(Debug, Clone)]
pub(crate) struct Weights(pub Arc<[f32]>);

impl std::hash::Hash for Weights {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|weight| weight.to_bits().hash(state));
    }
}

/// The encoder of a tensor of blocks.
#[derive(Debug, Hash)]
pub(crate) struct BlockEncoder {
    block: BlockType,
    decoder: GgmlDecoder,
    row: usize,
    /// The rows of one matrix of a stack.
    rows: usize,
    weights: Option<Weights>,
    output: [EncodedTensor; 1],
}

impl BlockEncoder {
    /// The encoder of a tensor whose rows divide into blocks. There must be a weight per column, or per column of every
    /// matrix.
    pub(crate) fn new(name: &str, shape: &[usize], block: BlockType, weights: Option<Weights>) -> Result<Self> {
        if !is_encoded(block) {
            let why = format!("tensor {}: weights are never stored in blocks of this type", quoted(name));
            return Err(AnamnesisError::unsupported(block.name(), why));
        }
        let [.., rows, row] = *shape else {
            let why = format!("tensor {} has shape {shape:?}; a matrix is needed", quoted(name));
            return Err(AnamnesisError::unsupported(block.name(), why));
        };
        if row > MAX_ROW_VALUES {
            let message = format!("tensor {} has rows of {row} values, {MAX_ROW_VALUES} are allowed", quoted(name));
            return Err(AnamnesisError::limit("MAX_ROW_VALUES", message));
        }
        let output = [EncodedTensor { name: name.to_owned(), dtype: Dtype::Block(block), shape: shape.to_vec() }];
        Ok(Self { block, decoder: GgmlDecoder::new(block), row, rows, weights, output })
    }

    /// The bytes of this many values.
    fn bytes(&self, values: u64) -> u64 {
        values / self.block.block_elements() * self.block.block_bytes()
    }

    /// The importance of the columns of a matrix.
    fn weights(&self, matrix: usize) -> Option<&[f32]> {
        let all = &self.weights.as_ref()?.0;
        all.get(matrix * self.row..(matrix + 1) * self.row).or_else(|| all.get(..self.row))
    }
}

impl TileEncoder for BlockEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.output
    }

    fn granule(&self) -> u64 {
        self.row as u64
    }

    fn scale_values(&self) -> u64 {
        self.block.block_elements()
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        let mut push = |place| places.push(Window::between(places.len(), place));
        push(self.bytes(range.start)..self.bytes(range.end));
    }

    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let [out] = outs else { return Err(mishandled("other outputs than it asked for")) };
        let mut written = 0;
        let (mut row, mut values, mut out) = (range.start as usize / self.row, values, &mut **out);
        while !values.is_empty() {
            let matrix = row / self.rows;
            let rows = ((matrix + 1) * self.rows - row).min(values.len() / self.row).max(1);
            let (now, later) = values.split_at((rows * self.row).min(values.len()));
            let (into, behind) = out.split_at_mut(self.bytes(now.len() as u64) as usize);
            let weights = self.weights(matrix);
            written += encode_rows(level, self.block, now, self.row, weights, into);
            (row, values, out) = (row + rows, later, behind);
        }
        Ok(written)
    }

    fn decoder(&self) -> Option<&dyn TileDecoder> {
        Some(&self.decoder)
    }

    fn describe(&self) -> String {
        let weights = if self.weights.is_some() { ", by importance" } else { "" };
        format!("{}{weights}", self.block.name())
    }
}

/// Whether weights are stored in blocks of this type. Others are used only for activations, at run time.
pub(crate) fn is_encoded(block: BlockType) -> bool {
    kernels(block).encode.is_some()
}

/// Encodes rows of `row` values each, with a weight per column if `weights` has them. Returns the bytes written: none
/// for a type that weights are not stored in.
pub(crate) fn encode_rows(
    level: Level,
    block: BlockType,
    values: &[f32],
    row: usize,
    weights: Option<&[f32]>,
    out: &mut [u8],
) -> usize {
    kernels(block).encode.map_or(0, |encode| encode(level, values, row, weights, out))
}

/// The encoder of a tensor of plain floats.
#[derive(Debug, Hash)]
pub(crate) struct FloatEncoder {
    dtype: TargetDtype,
    decoder: Option<PlainDecoder>,
    output: [EncodedTensor; 1],
}

impl FloatEncoder {
    pub(crate) fn new(name: &str, shape: &[usize], dtype: TargetDtype) -> Self {
        let output = [EncodedTensor { name: name.to_owned(), dtype: dtype.dtype(), shape: shape.to_vec() }];
        Self { dtype, decoder: PlainDecoder::of(dtype.dtype()), output }
    }
}

impl TileEncoder for FloatEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.output
    }

    fn granule(&self) -> u64 {
        1
    }

    fn scale_values(&self) -> u64 {
        1
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        let mut push = |place| places.push(Window::between(places.len(), place));
        let size = self.dtype.byte_size() as u64;
        push(range.start * size..range.end * size);
    }

    fn encode(
        &self,
        _range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        Ok(round_slice(level, rounded(self.dtype), values, outs[0]))
    }

    fn decoder(&self) -> Option<&dyn TileDecoder> {
        self.decoder.as_ref().map(|decoder| decoder as &dyn TileDecoder)
    }

    fn describe(&self) -> String {
        self.dtype.to_string()
    }
}
