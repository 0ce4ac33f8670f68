//! Blocks of GGUF files as quantised tensors of candle.

use std::borrow::Cow;

use anamnesis::{Checkpoint, Dtype};
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Error, Result, Tensor};

/// A quantised tensor, and whether its blocks are those of the file.
pub struct Quantized {
    /// The tensor.
    pub tensor: QTensor,
    /// Where its blocks come from.
    pub blocks: Blocks,
}

/// The blocks of a quantised tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocks {
    /// The bytes of the file.
    Kept,
    /// candle does not have the type of the file: the values are quantised again, to the type of the tensor.
    Requantised {
        /// The type of the file.
        from: String,
    },
}

/// The types of candle, by their names in ggml.
const TYPES: [(&str, GgmlDType); 15] = [
    ("F32", GgmlDType::F32),
    ("F16", GgmlDType::F16),
    ("BF16", GgmlDType::BF16),
    ("Q4_0", GgmlDType::Q4_0),
    ("Q4_1", GgmlDType::Q4_1),
    ("Q5_0", GgmlDType::Q5_0),
    ("Q5_1", GgmlDType::Q5_1),
    ("Q8_0", GgmlDType::Q8_0),
    ("Q8_1", GgmlDType::Q8_1),
    ("Q2_K", GgmlDType::Q2K),
    ("Q3_K", GgmlDType::Q3K),
    ("Q4_K", GgmlDType::Q4K),
    ("Q5_K", GgmlDType::Q5K),
    ("Q6_K", GgmlDType::Q6K),
    ("Q8_K", GgmlDType::Q8K),
];

pub(crate) fn load(checkpoint: &Checkpoint, name: &str, device: &Device) -> Result<Quantized> {
    let missing = || Error::CannotFindTensor { path: name.to_owned() }.bt();
    if let Some(stored) = checkpoint.stored(name)
        && let Some(dtype) = kept_type(checkpoint, name, stored.dtype)
    {
        let bytes = checkpoint.tensor_data(name).map_err(Error::wrap)?.ok_or_else(missing)?;
        let words = aligned(&bytes);
        let blocks = Cow::Borrowed(&bytemuck::cast_slice(&words)[..bytes.len()]);
        let storage = QStorage::from_data(blocks, device, dtype)?;
        return Ok(Quantized { tensor: QTensor::new(storage, stored.shape)?, blocks: Blocks::Kept });
    }
    let weight = checkpoint.weight(name).ok_or_else(missing)?;
    let shape = weight.shape.ok_or_else(missing)?;
    let values: Vec<f32> = checkpoint.decode(name).map_err(Error::wrap)?;
    // Eight bits lose least; rows that are no whole blocks stay floats.
    let is_whole = shape.last().is_some_and(|columns| columns % GgmlDType::Q8_0.block_size() == 0);
    let dtype = if is_whole { GgmlDType::Q8_0 } else { GgmlDType::F32 };
    let tensor = QTensor::quantize(&Tensor::from_vec(values, shape, device)?, dtype)?;
    Ok(Quantized { tensor, blocks: Blocks::Requantised { from: weight.scheme } })
}

/// The type of candle for stored blocks or floats; `None` if it has none, or if the blocks have a scale of their own.
fn kept_type(checkpoint: &Checkpoint, name: &str, dtype: Dtype) -> Option<GgmlDType> {
    if checkpoint.weight(name).is_some_and(|weight| weight.parts.len() > 1) {
        return None;
    }
    let text = dtype.to_string();
    TYPES.iter().find(|(known, _)| *known == text).map(|&(_, dtype)| dtype)
}

/// A copy at an address that blocks can be read from: candle reads them as structures of 2-byte and 4-byte fields.
fn aligned(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}
