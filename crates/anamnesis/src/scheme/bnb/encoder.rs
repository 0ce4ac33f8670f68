//! Making BitsAndBytes weights tile by tile, with all the tensors that belong to them.

use std::ops::Range;

use super::encode::{
    NESTED_BLOCK_SIZE, NestedMean, QuantType, absmax_of_blocks, encode_4bit_blocks, encode_int8_rows,
    encode_nested_scales, nested_quant_map, quant_state_json,
};
use super::{Bnb4Decoder, BnbInt8Decoder, Nested};
use crate::catalog::{Dtype, TargetDtype, dtype::elements};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::{Context, EncodedTensor, Observer, Seen, TileDecoder, TileEncoder};

/// The kinds of BitsAndBytes weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BnbKind {
    Nf4,
    Fp4,
    Int8,
}

/// Values under one scale where nobody says.
const BLOCK_SIZE: usize = 64;
/// Block sizes that bitsandbytes reads.
const BLOCK_SIZES: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Longest row that is encoded: its scale is known only when all of it has been seen.
const MAX_ROW_VALUES: usize = 1 << 24;
/// Room for the mean of nested scales in a description, whose length must be known before the mean is.
const MEAN_CHARS: usize = 24;

/// The encoder of one weight, a matrix of values that are of type `dtype`.
///
/// # Errors
/// `Unsupported` for options that the kind does not have, `LimitExceeded` where a row is too long.
pub(crate) fn encoder(
    kind: BnbKind,
    name: &str,
    shape: &[usize],
    dtype: TargetDtype,
    block_size: Option<usize>,
    double_quant: bool,
) -> Result<Box<dyn TileEncoder>> {
    // Loaders find the companions by the name of the weight.
    let is_named = name == "weight" || name.ends_with(".weight");
    let name = if is_named { name.to_owned() } else { format!("{name}.weight") };
    let quant_type = match kind {
        BnbKind::Nf4 => QuantType::Nf4,
        BnbKind::Fp4 => QuantType::Fp4,
        BnbKind::Int8 => {
            if block_size.is_some() || double_quant {
                let why = "INT8 has one scale per row: there are no blocks, and no scales of scales";
                return Err(AnamnesisError::unsupported("bnb-int8", why));
            }
            return Ok(Box::new(Int8::new(&name, shape)?));
        }
    };
    let block = block_size.unwrap_or(BLOCK_SIZE);
    if !BLOCK_SIZES.contains(&block) {
        let why = format!("blocks of {block} values; {BLOCK_SIZES:?} are possible");
        return Err(AnamnesisError::unsupported(quant_type.name(), why));
    }
    Ok(Box::new(FourBit::new(&name, shape, dtype, quant_type, block, double_quant)))
}

/// A four-bit weight.
struct FourBit {
    quant_type: QuantType,
    block: usize,
    blocks: usize,
    is_nested: bool,
    dtype: TargetDtype,
    shape: Vec<usize>,
    /// Codes, scales, the map, the description, and for nested scales their scales and their map.
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

impl FourBit {
    fn new(
        name: &str,
        shape: &[usize],
        dtype: TargetDtype,
        quant_type: QuantType,
        block: usize,
        is_nested: bool,
    ) -> Self {
        // The shape is that of a planned tensor, whose bytes were counted.
        let values = elements(shape).and_then(|values| usize::try_from(values).ok()).unwrap_or(usize::MAX);
        let blocks = values.div_ceil(block);
        let mut encoder = Self {
            quant_type,
            block,
            blocks,
            is_nested,
            dtype,
            shape: shape.to_vec(),
            outputs: Vec::new(),
            map: to_bytes(quant_type.map()),
            nested_map: if is_nested { to_bytes(nested_quant_map()) } else { Vec::new() },
        };
        let state_bytes = encoder.state(Seen::default()).len();
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

    /// The description. Spaces behind the mean's digits, which JSON allows, make its length independent of them.
    fn state(&self, seen: Seen) -> String {
        let describe = |mean| quant_state_json(self.quant_type, self.block, self.dtype, &self.shape, mean);
        if !self.is_nested {
            return describe(None);
        }
        let width = describe(Some(0.0)).len() + MEAN_CHARS;
        format!("{:<width$}", describe(Some(seen.mean)))
    }
}

impl TileEncoder for FourBit {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn scale_values(&self) -> u64 {
        self.block as u64
    }

    fn granule(&self) -> u64 {
        (self.block * if self.is_nested { NESTED_BLOCK_SIZE } else { 1 }) as u64
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Range<u64>>) {
        let block = self.block as u64;
        let blocks = range.start / block..range.end.div_ceil(block);
        let scale_bytes = if self.is_nested { 1 } else { 4 };
        let with_first = |bytes: usize| if range.start == 0 { 0..bytes as u64 } else { 0..0 };
        places.push(range.start / 2..range.end.div_ceil(2));
        places.push(blocks.start * scale_bytes..blocks.end * scale_bytes);
        places.push(with_first(self.map.len()));
        places.push(with_first(self.outputs.get(QUANT_STATE).map_or(0, |state| state.shape[0])));
        if self.is_nested {
            let nested = NESTED_BLOCK_SIZE as u64;
            places.push(blocks.start / nested * 4..blocks.end.div_ceil(nested) * 4);
            places.push(with_first(self.nested_map.len()));
        }
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        let mean = || ScaleMean { block: self.block, scales: Vec::new(), mean: NestedMean::new(self.blocks) };
        self.is_nested.then(|| Box::new(mean()) as Box<dyn Observer>)
    }

    fn encode(
        &self,
        _range: &Range<u64>,
        values: &[f32],
        seen: &Seen,
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<()> {
        let blocks = values.len().div_ceil(self.block);
        let nested_blocks = if self.is_nested { blocks.div_ceil(NESTED_BLOCK_SIZE) } else { 0 };
        let level = context.level();
        let (scales, nested) = context.floats(blocks + nested_blocks).split_at_mut(blocks);
        encode_4bit_blocks(level, values, self.block, self.quant_type, outs[CODES], scales)?;
        if self.is_nested {
            encode_nested_scales(level, scales, seen.mean, outs[ABSMAX], nested);
            write_floats(nested, outs[NESTED_ABSMAX]);
        } else {
            write_floats(scales, outs[ABSMAX]);
        }
        if !outs[QUANT_MAP].is_empty() {
            outs[QUANT_MAP].copy_from_slice(&self.map);
            outs[QUANT_STATE].copy_from_slice(self.state(*seen).as_bytes());
            if self.is_nested {
                outs[NESTED_QUANT_MAP].copy_from_slice(&self.nested_map);
            }
        }
        Ok(())
    }

    fn decode(
        &self,
        range: &Range<u64>,
        outs: &[&mut [u8]],
        seen: &Seen,
        decoded: &mut [u8],
        context: &mut Context,
    ) -> Result<()> {
        let nested = self.is_nested.then_some(Nested { block: NESTED_BLOCK_SIZE as u64, offset: seen.mean });
        let values = range.end - range.start;
        let decoder = Bnb4Decoder { elements: values, block: self.block as u64, nested };
        let nested_absmax: &[u8] = outs.get(NESTED_ABSMAX).map_or(&[], |out| out);
        let inputs: [&[u8]; 5] = [outs[CODES], outs[ABSMAX], &self.map, nested_absmax, &self.nested_map];
        decoder.decode(0..values, &inputs, TargetDtype::F32, decoded, context)
    }

    fn describe(&self) -> String {
        let nested = if self.is_nested { ", double-quantised" } else { "" };
        format!("BitsAndBytes {}, blocks of {}{nested}", self.quant_type.name().to_ascii_uppercase(), self.block)
    }
}

/// The mean of a weight's scales.
struct ScaleMean {
    block: usize,
    scales: Vec<f32>,
    mean: NestedMean,
}

impl Observer for ScaleMean {
    fn observe(&mut self, values: &[f32], context: &mut Context) -> Result<()> {
        self.scales.resize(values.len().div_ceil(self.block), 0.0);
        absmax_of_blocks(context.level(), values, self.block, &mut self.scales)?;
        self.mean.push(&self.scales);
        Ok(())
    }

    fn finish(&self) -> Result<Seen> {
        Ok(Seen { mean: self.mean.mean()? })
    }
}

/// An eight-bit weight.
struct Int8 {
    cols: usize,
    /// Codes, scales, and the layout of the codes.
    outputs: [EncodedTensor; 3],
}

impl Int8 {
    fn new(name: &str, shape: &[usize]) -> Result<Self> {
        let &[rows, cols] = shape else {
            let why = format!("tensor {} has shape {shape:?}; a matrix is needed", quoted(name));
            return Err(AnamnesisError::unsupported("bnb-int8", why));
        };
        if cols > MAX_ROW_VALUES {
            let message = format!("tensor {} has rows of {cols} values, {MAX_ROW_VALUES} are allowed", quoted(name));
            return Err(AnamnesisError::limit("MAX_ROW_VALUES", message));
        }
        let module = name.strip_suffix("weight").unwrap_or(name);
        let tensor = |name: String, dtype, shape: &[usize]| EncodedTensor { name, dtype, shape: shape.to_vec() };
        let outputs = [
            tensor(name.to_owned(), Dtype::I8, shape),
            tensor(format!("{module}SCB"), Dtype::F32, &[rows]),
            tensor(format!("{module}weight_format"), Dtype::U8, &[]),
        ];
        Ok(Self { cols, outputs })
    }
}

/// Halfway between the largest F16 and the next power of two: from here on, rounding gives infinity.
const F16_OVERFLOW: f32 = 65520.0;

impl TileEncoder for Int8 {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn granule(&self) -> u64 {
        self.cols as u64
    }

    fn scale_values(&self) -> u64 {
        self.cols as u64
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Range<u64>>) {
        let cols = self.cols as u64;
        places.push(range.clone());
        places.push(range.start / cols * 4..range.end / cols * 4);
        places.push(if range.start == 0 { 0..1 } else { 0..0 });
    }

    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        _seen: &Seen,
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<()> {
        if let Some(place) = values.iter().position(|value| value.abs() >= F16_OVERFLOW) {
            let (index, value) = (range.start + place as u64, values[place]);
            let why = format!("value {index} is {value}; INT8 weights pass through F16, which ends at 65504");
            return Err(AnamnesisError::parse(why));
        }
        let level = context.level();
        let scales = context.floats(values.len() / self.cols);
        // The layout of the codes is 0, rows, which is what the output is made of.
        encode_int8_rows(level, values, self.cols, outs[0], scales)?;
        write_floats(scales, outs[1]);
        Ok(())
    }

    fn decode(
        &self,
        range: &Range<u64>,
        outs: &[&mut [u8]],
        _seen: &Seen,
        decoded: &mut [u8],
        context: &mut Context,
    ) -> Result<()> {
        let decoder = BnbInt8Decoder { cols: self.cols as u64 };
        decoder.decode(0..range.end - range.start, &[&*outs[0], &*outs[1]], TargetDtype::F32, decoded, context)
    }

    fn describe(&self) -> String {
        "BitsAndBytes INT8, a scale per row".to_owned()
    }
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn write_floats(values: &[f32], out: &mut [u8]) {
    for (bytes, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *bytes = value.to_le_bytes();
    }
}
