//! Decoding four-bit weights.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::{self as kernels, chosen};

use super::quant_state::QuantState;
use crate::catalog::TargetDtype;
use crate::catalog::dtype::elements;
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{
    Coding, Context, LibraryArithmetic, Prepare, Prepared, TileDecoder, Window, filled, rounded,
};

/// Entries of `quant_map` and of `nested_quant_map`.
const MAP: usize = 16;
const NESTED_MAP: usize = 256;
/// Nested scales that are widened at a time.
const NESTED_STRIP: usize = 256;

/// The part indices of a weight.
const CODES: usize = 0;
const ABSMAX: usize = 1;
const QUANT_MAP: usize = 2;
const NESTED_ABSMAX: usize = 3;
const NESTED_QUANT_MAP: usize = 4;

/// The parameters of quantised scales (double quantisation).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Nested {
    pub block: u64,
    pub offset: f32,
}

/// The decoder of a weight of `elements` values in blocks of `block`.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct Bnb4Decoder {
    pub elements: u64,
    pub block: u64,
    pub nested: Option<Nested>,
    /// The type that the library decodes to.
    pub dtype: Option<TargetDtype>,
}

/// By the bits of the offset.
impl Hash for Nested {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.block, self.offset.to_bits()).hash(state);
    }
}

impl Bnb4Decoder {
    /// Refuses parts whose sizes in bytes do not fit the geometry.
    pub(crate) fn check(&self, part_bytes: &[u64]) -> Result<()> {
        let blocks = self.elements.div_ceil(self.block);
        let scale_bytes = if self.nested.is_some() { 1 } else { 4 };
        let nested_blocks = self.nested.map(|nested| blocks.div_ceil(nested.block));
        let expected = [
            ("codes", Some(self.elements.div_ceil(2))),
            ("absmax", blocks.checked_mul(scale_bytes)),
            ("quant_map", Some(MAP as u64 * 4)),
            ("nested_absmax", nested_blocks.and_then(|blocks| blocks.checked_mul(4))),
            ("nested_quant_map", self.nested.map(|_| NESTED_MAP as u64 * 4)),
        ];
        for ((what, expected), &found) in expected.into_iter().zip(part_bytes) {
            if expected != Some(found) {
                let expected = expected.unwrap_or(0);
                let why = format!("{what} takes {found} bytes, {} values need {expected}", self.elements);
                return Err(AnamnesisError::parse(why));
            }
        }
        Ok(())
    }

    fn scales<'a>(&self, inputs: &[&[u8]], blocks: Range<u64>, context: &'a mut Context) -> Result<&'a [f32]> {
        let level = context.level();
        let count = (blocks.end - blocks.start) as usize;
        let Some(Nested { block, offset }) = self.nested else {
            let scales = context.floats(count);
            filled(kernels::widen_f32(level, inputs[ABSMAX], scales), count)?;
            return Ok(scales);
        };
        let mut map = [0.0; NESTED_MAP];
        filled(kernels::widen_f32(level, inputs[NESTED_QUANT_MAP], &mut map), NESTED_MAP)?;
        let scales = context.floats(count);
        // A nested block that the tile enters in the middle is decoded separately, so that the kernel starts at a block
        // boundary.
        let (block, lead) = (block as usize, (blocks.start % block) as usize);
        let first = block.saturating_sub(lead).min(count);
        let (codes, more_codes) = inputs[ABSMAX].split_at(first);
        let (head, tail) = scales.split_at_mut(first);
        let (stored, more_stored) = inputs[NESTED_ABSMAX].split_at(inputs[NESTED_ABSMAX].len().min(4));
        let mut nested = [0.0; NESTED_STRIP];
        let stored = kernels::widen_f32(level, stored, &mut nested[..1]);
        let mut written = kernels::nested_scales(level, codes, &map, &nested[..stored], block, offset, head);
        let strip = NESTED_STRIP.saturating_mul(block);
        let strips = more_codes.chunks(strip).zip(tail.chunks_mut(strip)).zip(more_stored.chunks(NESTED_STRIP * 4));
        for ((codes, scales), stored) in strips {
            let stored = kernels::widen_f32(level, stored, &mut nested);
            written += kernels::nested_scales(level, codes, &map, &nested[..stored], block, offset, scales);
        }
        filled(written, count)?;
        Ok(scales)
    }
}

impl TileDecoder for Bnb4Decoder {
    fn granule(&self) -> u64 {
        self.block
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let blocks = elements.start / self.block..elements.end.div_ceil(self.block);
        let scale_bytes = if self.nested.is_some() { 1 } else { 4 };
        let code_bytes = elements.end.div_ceil(2) - elements.start / 2;
        windows.push(Window::run(CODES, elements.start / 2, code_bytes));
        windows.push(Window::run(ABSMAX, blocks.start * scale_bytes, (blocks.end - blocks.start) * scale_bytes));
        windows.push(Window::run(QUANT_MAP, 0, MAP as u64 * 4));
        if let Some(nested) = self.nested {
            let nested_blocks = blocks.start / nested.block..blocks.end.div_ceil(nested.block);
            let count = nested_blocks.end - nested_blocks.start;
            windows.push(Window::run(NESTED_ABSMAX, nested_blocks.start * 4, count * 4));
            windows.push(Window::run(NESTED_QUANT_MAP, 0, NESTED_MAP as u64 * 4));
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
        let level = context.level();
        let mut map = [0.0; MAP];
        filled(kernels::widen_f32(level, inputs[QUANT_MAP], &mut map), MAP)?;
        for value in &mut map[MAP / 2..] {
            if value.to_bits() == 0 {
                *value = -0.0;
            }
        }
        let blocks = elements.start / self.block..elements.end.div_ceil(self.block);
        let scales = self.scales(inputs, blocks, context)?;
        let block = self.block as usize;
        Ok(chosen::high_nibbles(level, rounded(target), inputs[CODES], &map, scales, block, out))
    }

    fn describe(&self) -> String {
        let nested = if self.nested.is_some() { ", double-quantised" } else { "" };
        format!("BitsAndBytes 4-bit, blocks of {}{nested}", self.block)
    }

    fn library_arithmetic(&self) -> LibraryArithmetic {
        self.dtype.map_or(LibraryArithmetic::Same, LibraryArithmetic::RoundedTo)
    }
}

/// A four-bit weight whose geometry is stored in its `quant_state`.
#[derive(Debug)]
pub(in crate::scheme::bnb) struct Bnb4 {
    /// The quantisation type in the name of the `quant_state`.
    pub kind: String,
    pub part_bytes: Vec<u64>,
    /// The part index of the `quant_state`, after the parts that are decoded.
    pub quant_state: Option<usize>,
    pub nested: bool,
    pub coding: Coding,
}

impl Bnb4 {
    fn geometry(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<(Vec<usize>, Bnb4Decoder)> {
        let Some(part) = self.quant_state else { return self.geometry_without_state() };
        let state = QuantState::parse(&read(part)?)?;
        if let Some(kind) = state.kind.as_ref().filter(|kind| !kind.eq_ignore_ascii_case(&self.kind)) {
            let why = format!("quant_state says quant_type is {kind}, its name says {}", self.kind);
            return Err(AnamnesisError::parse(why));
        }
        let missing = |key: &str| AnamnesisError::parse(format!("quant_state has no {key}"));
        let nested = match self.nested {
            false => None,
            true => Some(Nested {
                block: state.nested_block.ok_or_else(|| missing("nested_blocksize"))?,
                offset: state.nested_offset.ok_or_else(|| missing("nested_offset"))?,
            }),
        };
        let values = elements(&state.shape).unwrap_or(u64::MAX);
        Ok((state.shape, Bnb4Decoder { elements: values, block: state.block, nested, dtype: state.dtype }))
    }

    /// The geometry of a weight without a `quant_state`: a vector, whose block size follows from the number of scales.
    fn geometry_without_state(&self) -> Result<(Vec<usize>, Bnb4Decoder)> {
        if self.nested {
            return Err(AnamnesisError::parse(
                "its scales are quantised, and there is no quant_state that describes them",
            ));
        }
        let (values, blocks) = (self.part_bytes[CODES].saturating_mul(2), self.part_bytes[ABSMAX] / 4);
        let block = if blocks > 0 && values.is_multiple_of(blocks) { values / blocks } else { 0 };
        if block == 0 || !block.is_multiple_of(2) {
            let why = format!("{blocks} scales do not divide its {values} values, and there is no quant_state");
            return Err(AnamnesisError::parse(why));
        }
        let shape = vec![usize::try_from(values).unwrap_or(usize::MAX)];
        Ok((shape, Bnb4Decoder { elements: values, block, nested: None, dtype: None }))
    }
}

impl Prepare for Bnb4 {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let (shape, decoder) = self.geometry(read)?;
        decoder.check(&self.part_bytes[..if self.nested { NESTED_QUANT_MAP + 1 } else { QUANT_MAP + 1 }])?;
        let coding = Coding { group_size: Some(decoder.block), ..self.coding.clone() };
        Ok(Prepared { shape, decoder: Arc::new(decoder), coding: Some(coding) })
    }

    fn describe(&self) -> String {
        let nested = if self.nested { ", double-quantised" } else { "" };
        format!("BitsAndBytes {}{nested}", self.kind)
    }
}
