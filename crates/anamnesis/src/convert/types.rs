//! Which types the values of an output get.

use crate::architecture::types::{Weights, stays_f32};
use crate::catalog::{BlockType, Dtype, TargetDtype};

/// Which types the values of an output get.
#[derive(Clone, Copy)]
pub(super) enum Types {
    /// Quantised weights become `dtype`, and plain floats too where `cast_all`.
    Decoded {
        dtype: TargetDtype,
        cast_all: bool,
        /// Whether blocks that are quantised anew are decoded to F32 for that, as llama.cpp does by default.
        exact_blocks: bool,
    },
    /// As llama.cpp's converter has them.
    LlamaCpp {
        weights: Weights,
        /// The type of quantised weights before they are quantised anew.
        decoded: TargetDtype,
        /// Whether NaN and infinities are quantised.
        allow_nonfinite: bool,
    },
}

/// The values that get a type.
pub(super) struct TypedValues<'a> {
    pub output_name: &'a str,
    pub shape: &'a [usize],
    /// Whether any of it is quantised.
    pub is_quantised: bool,
    /// Whether it is stored as blocks.
    pub is_block: bool,
    /// The type of all tensors it is made of, where they are plain and have one type.
    pub stored: Option<Dtype>,
}

/// The types of a tensor.
pub(super) struct ValueTypes {
    /// In the output, where it is not quantised; a plain tensor of this type is copied.
    pub output: Dtype,
    /// What it is decoded to.
    pub dtype: TargetDtype,
    /// What it is rounded to before it is quantised.
    pub encoded_from: TargetDtype,
}

impl Types {
    /// The types of a tensor; `None` where llama.cpp's converter has it as Q8_0.
    pub(super) fn of(self, values: &TypedValues<'_>) -> Option<ValueTypes> {
        let of_stored = match values.stored {
            Some(Dtype::BF16) => TargetDtype::BF16,
            Some(Dtype::F16) => TargetDtype::F16,
            _ => TargetDtype::F32,
        };
        match self {
            Self::Decoded { dtype, exact_blocks, .. } if values.is_quantised => {
                let encoded_from = if exact_blocks && values.is_block { TargetDtype::F32 } else { dtype };
                Some(ValueTypes { output: dtype.dtype(), dtype, encoded_from })
            }
            Self::Decoded { dtype, cast_all: true, .. } => {
                Some(ValueTypes { output: dtype.dtype(), dtype, encoded_from: dtype })
            }
            // Where plain floats are quantised, exactly the stored values; only F64 has values that F32 has not.
            Self::Decoded { cast_all: false, .. } => Some(ValueTypes {
                output: values.stored.unwrap_or(of_stored.dtype()),
                dtype: of_stored,
                encoded_from: TargetDtype::F32,
            }),
            Self::LlamaCpp { weights, decoded, .. } => {
                let dtype = llama_cpp(weights, values)?;
                // What is changed on the way is of the type it was before it is quantised, as if it had been written in between.
                let encoded_from = if values.is_quantised { decoded } else { of_stored };
                Some(ValueTypes { output: dtype.dtype(), dtype, encoded_from })
            }
        }
    }
}

/// The type that llama.cpp's converter gives a tensor; `None` is Q8_0.
fn llama_cpp(weights: Weights, values: &TypedValues<'_>) -> Option<TargetDtype> {
    let row = values.shape.last().map_or(0, |&row| row as u64);
    match weights {
        _ if stays_f32(values.output_name, values.shape.len()) => Some(TargetDtype::F32),
        Weights::Plain(dtype) => Some(dtype),
        Weights::Q8_0 if row.is_multiple_of(BlockType::Q8_0.block_elements()) => None,
        Weights::Q8_0 => Some(TargetDtype::F16),
    }
}
