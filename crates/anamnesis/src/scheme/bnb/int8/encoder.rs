//! Encoding eight-bit weights and their companions.

use std::ops::Range;

use super::codes::{F16_OVERFLOW, encode_int8_rows};
use super::decoder::BnbInt8Decoder;
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::bnb::write_floats;
use crate::scheme::coder::{Context, EncodedTensor, TileDecoder, TileEncoder, Window};

/// The longest row that is encoded. A row is buffered whole, because its scale depends on all its values.
const MAX_ROW_VALUES: usize = 1 << 24;

/// The encoder of an eight-bit weight.
#[derive(Debug, Hash)]
pub(crate) struct Int8Encoder {
    cols: usize,
    decoder: BnbInt8Decoder,
    /// Codes, scales and `weight_format`.
    outputs: [EncodedTensor; 3],
}

impl Int8Encoder {
    pub(crate) fn new(name: &str, shape: &[usize]) -> Result<Self> {
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
        Ok(Self { cols, decoder: BnbInt8Decoder { cols: cols as u64 }, outputs })
    }
}

impl TileEncoder for Int8Encoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn granule(&self) -> u64 {
        self.cols as u64
    }

    fn scale_values(&self) -> u64 {
        self.cols as u64
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        let mut push = |place| places.push(Window::between(places.len(), place));
        let cols = self.cols as u64;
        push(range.clone());
        push(range.start / cols * 4..range.end / cols * 4);
        push(if range.start == 0 { 0..1 } else { 0..0 });
    }

    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        if let Some(place) = values.iter().position(|value| value.abs() >= F16_OVERFLOW) {
            let (index, value) = (range.start + place as u64, values[place]);
            let why = format!("value {index} is {value}; INT8 weights pass through F16, which ends at 65504");
            return Err(AnamnesisError::parse(why));
        }
        let level = context.level();
        let scales = context.floats(values.len() / self.cols);
        let written = encode_int8_rows(level, values, self.cols, outs[0], scales)? + write_floats(scales, outs[1]);
        // `weight_format` 0: row-major.
        outs[2].fill(0);
        Ok(written + outs[2].len())
    }

    fn decoder(&self) -> Option<&dyn TileDecoder> {
        Some(&self.decoder)
    }

    fn describe(&self) -> String {
        "BitsAndBytes INT8, a scale per row".to_owned()
    }
}
