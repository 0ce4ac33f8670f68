//! Encoding four-bit weights and their companions.

use std::ops::Range;

use super::codes::{absmax_of_blocks, encode_4bit_blocks};
use super::decoder::{Bnb4Decoder, Nested};
use super::mean::NestedMean;
use super::nested::{NESTED_BLOCK_SIZE, encode_nested_scales};
use super::nested_map::nested_quant_map;
use super::quant_state::quant_state_json;
use super::tables::QuantType;
use crate::catalog::{Dtype, TargetDtype, dtype::elements};
use crate::error::Result;
use crate::scheme::bnb::write_floats;
use crate::scheme::coder::{Context, EncodedTensor, FirstPass, TileDecoder, TileEncoder, Window};

/// The characters reserved for the mean of nested scales in the `quant_state`, whose length must be known before the
/// mean.
const MEAN_CHARS: usize = 24;

/// The encoder of a four-bit weight.
#[derive(Debug, Clone, Hash)]
pub(crate) struct FourBitEncoder {
    quant_type: QuantType,
    block: usize,
    blocks: usize,
    /// Whether scales are quantised too (double quantisation).
    is_nested: bool,
    /// The mean of the scales as bits of an F32, after the first pass.
    mean: u32,
    dtype: TargetDtype,
    shape: Vec<usize>,
    /// Codes, scales, lookup table, `quant_state`; for nested scales also their scales and their lookup table.
    outputs: Vec<EncodedTensor>,
    map: Vec<u8>,
    nested_map: Vec<u8>,
}

const CODES: usize = 0;
const ABSMAX: usize = 1;
const QUANT_MAP: usize = 2;
const QUANT_STATE: usize = 3;
const NESTED_ABSMAX: usize = 4;
const NESTED_QUANT_MAP: usize = 5;

impl FourBitEncoder {
    pub(crate) fn new(
        name: &str,
        shape: &[usize],
        dtype: TargetDtype,
        quant_type: QuantType,
        block: usize,
        is_nested: bool,
    ) -> Self {
        // Cannot overflow: the bytes of a planned tensor have been counted.
        let values = elements(shape).and_then(|values| usize::try_from(values).ok()).unwrap_or(usize::MAX);
        let blocks = values.div_ceil(block);
        let mut encoder = Self {
            quant_type,
            block,
            blocks,
            is_nested,
            mean: 0,
            dtype,
            shape: shape.to_vec(),
            outputs: Vec::new(),
            map: to_bytes(quant_type.map()),
            nested_map: if is_nested { to_bytes(nested_quant_map()) } else { Vec::new() },
        };
        let state_bytes = encoder.state().len();
        let tensor = |end: &str, dtype: Dtype, shape: &[usize]| EncodedTensor {
            name: format!("{name}{end}"),
            dtype,
            shape: shape.to_vec(),
        };
        encoder.outputs = vec![
            tensor("", Dtype::U8, &[values.div_ceil(2), 1]),
            tensor(".absmax", if is_nested { Dtype::U8 } else { Dtype::F32 }, &[blocks]),
            tensor(".quant_map", Dtype::F32, &[16]),
            tensor(&format!(".quant_state.bitsandbytes__{}", quant_type.name()), Dtype::U8, &[state_bytes]),
        ];
        if is_nested {
            encoder.outputs.push(tensor(".nested_absmax", Dtype::F32, &[blocks.div_ceil(NESTED_BLOCK_SIZE)]));
            encoder.outputs.push(tensor(".nested_quant_map", Dtype::F32, &[NESTED_BLOCK_SIZE]));
        }
        encoder
    }

    /// The `quant_state`. The mean is padded with spaces, which JSON allows, so that the length does not depend on its
    /// digits.
    fn state(&self) -> String {
        let describe = |mean| quant_state_json(self.quant_type, self.block, self.dtype, &self.shape, mean);
        if !self.is_nested {
            return describe(None);
        }
        let width = describe(Some(0.0)).len() + MEAN_CHARS;
        format!("{:<width$}", describe(Some(self.mean())))
    }

    fn mean(&self) -> f32 {
        f32::from_bits(self.mean)
    }
}

impl TileEncoder for FourBitEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn scale_values(&self) -> u64 {
        self.block as u64
    }

    fn granule(&self) -> u64 {
        (self.block * if self.is_nested { NESTED_BLOCK_SIZE } else { 1 }) as u64
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        let mut push = |place| places.push(Window::between(places.len(), place));
        let block = self.block as u64;
        let blocks = range.start / block..range.end.div_ceil(block);
        let scale_bytes = if self.is_nested { 1 } else { 4 };
        let with_first = |bytes: usize| if range.start == 0 { 0..bytes as u64 } else { 0..0 };
        push(range.start / 2..range.end.div_ceil(2));
        push(blocks.start * scale_bytes..blocks.end * scale_bytes);
        push(with_first(self.map.len()));
        push(with_first(self.outputs.get(QUANT_STATE).map_or(0, |state| state.shape[0])));
        if self.is_nested {
            let nested = NESTED_BLOCK_SIZE as u64;
            push(blocks.start / nested * 4..blocks.end.div_ceil(nested) * 4);
            push(with_first(self.nested_map.len()));
        }
    }

    fn first_pass(&self) -> Option<Box<dyn FirstPass + '_>> {
        let mean = || ScaleMean { encoder: self, scales: Vec::new(), mean: NestedMean::new(self.blocks) };
        self.is_nested.then(|| Box::new(mean()) as Box<dyn FirstPass>)
    }

    fn encode(
        &self,
        _range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let blocks = values.len().div_ceil(self.block);
        let nested_blocks = if self.is_nested { blocks.div_ceil(NESTED_BLOCK_SIZE) } else { 0 };
        let (scales, nested) = context.floats(blocks + nested_blocks).split_at_mut(blocks);
        let mut written = encode_4bit_blocks(level, values, self.block, self.quant_type, outs[CODES], scales)?;
        if self.is_nested {
            written += encode_nested_scales(level, scales, self.mean(), outs[ABSMAX], nested)?;
            written += write_floats(nested, outs[NESTED_ABSMAX]);
        } else {
            written += write_floats(scales, outs[ABSMAX]);
        }
        if !outs[QUANT_MAP].is_empty() {
            outs[QUANT_MAP].copy_from_slice(&self.map);
            outs[QUANT_STATE].copy_from_slice(self.state().as_bytes());
            written += outs[QUANT_MAP].len() + outs[QUANT_STATE].len();
            if self.is_nested {
                outs[NESTED_QUANT_MAP].copy_from_slice(&self.nested_map);
                written += self.nested_map.len();
            }
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
        let nested = self.is_nested.then_some(Nested { block: NESTED_BLOCK_SIZE as u64, offset: self.mean() });
        let values = range.end - range.start;
        let decoder = Bnb4Decoder { elements: values, block: self.block as u64, nested, dtype: None };
        let nested_absmax: &[u8] = outs.get(NESTED_ABSMAX).map_or(&[], |out| out);
        let inputs: [&[u8]; 5] = [outs[CODES], outs[ABSMAX], &self.map, nested_absmax, &self.nested_map];
        decoder.decode(0..values, &inputs, TargetDtype::F32, decoded, context)
    }

    fn describe(&self) -> String {
        let nested = if self.is_nested { ", double-quantised" } else { "" };
        format!("BitsAndBytes {}, blocks of {}{nested}", self.quant_type.name().to_ascii_uppercase(), self.block)
    }
}

/// The first pass: the mean of a weight's scales.
struct ScaleMean<'a> {
    encoder: &'a FourBitEncoder,
    scales: Vec<f32>,
    mean: NestedMean,
}

impl FirstPass for ScaleMean<'_> {
    fn see(&mut self, values: &[f32], _largest: f32, context: &mut Context) -> Result<()> {
        let block = self.encoder.block;
        self.scales.resize(values.len().div_ceil(block), 0.0);
        absmax_of_blocks(context.level(), values, block, &mut self.scales)?;
        self.mean.push(&self.scales);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn TileEncoder>> {
        let mean = self.mean.mean()?.to_bits();
        Ok(Box::new(FourBitEncoder { mean, ..self.encoder.clone() }))
    }
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
