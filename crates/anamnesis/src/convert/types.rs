//! Choosing the types of output values.

use crate::architecture::types::{TypeRules, Weights};
use crate::catalog::{BlockType, Dtype, TargetDtype};

/// How the types of output values are chosen.
#[derive(Clone, Copy)]
pub(super) enum Types {
    /// Quantised weights are decoded to `dtype`; plain floats are cast to it too if `cast_all`.
    Decoded {
        dtype: TargetDtype,
        cast_all: bool,
        /// Whether blocks that are quantised again are decoded to F32 first, as llama.cpp does by default.
        exact_blocks: bool,
    },
    /// The types of llama.cpp's converter.
    LlamaCpp {
        weights: Weights,
        /// The exceptions of the architecture.
        rules: TypeRules,
        /// The type that quantised weights are decoded to before they are quantised again.
        decoded: TargetDtype,
        /// Whether NaN and infinities may be quantised.
        allow_nonfinite: bool,
        /// Whether matrices that are stored as FP8 become Q8_0.
        fp8_as_q8: bool,
    },
}

/// Properties of a tensor's values that decide its type.
pub(super) struct TypedValues<'a> {
    pub output_name: &'a str,
    pub shape: &'a [usize],
    /// Whether any of its sources is quantised.
    pub is_quantised: bool,
    /// Whether it is stored as blocks.
    pub is_block: bool,
    /// Whether it is stored as FP8 with scales.
    pub is_fp8: bool,
    /// The common type of its source tensors, if all are plain and of the same type.
    pub stored: Option<Dtype>,
}

/// The types chosen for a tensor.
pub(super) struct ValueTypes {
    /// The type in the output, if it is not quantised; a plain tensor of this type is copied.
    pub output: Dtype,
    /// The type it is decoded to.
    pub dtype: TargetDtype,
    /// The type it is rounded to before it is quantised.
    pub encoded_from: TargetDtype,
}

impl Types {
    /// The types of a tensor; `None` if llama.cpp's converter writes it as Q8_0.
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
            // Plain floats are quantised from exactly the stored values; F64 is rounded to F32.
            Self::Decoded { cast_all: false, .. } => Some(ValueTypes {
                output: values.stored.unwrap_or(of_stored.dtype()),
                dtype: of_stored,
                encoded_from: TargetDtype::F32,
            }),
            Self::LlamaCpp { weights, rules, decoded, fp8_as_q8, .. } => {
                let dtype = llama_cpp(weights, rules, values, fp8_as_q8)?;
                // Values changed by the mapping are rounded to their stored type before they are quantised, as if a
                // plain GGUF file had been written in between.
                let encoded_from = if values.is_quantised { decoded } else { of_stored };
                Some(ValueTypes { output: dtype.dtype(), dtype, encoded_from })
            }
        }
    }
}

/// The type that llama.cpp's converter gives a tensor; `None` means Q8_0.
fn llama_cpp(weights: Weights, rules: TypeRules, values: &TypedValues<'_>, fp8_as_q8: bool) -> Option<TargetDtype> {
    let row = values.shape.last().map_or(0, |&row| row as u64);
    let (name, rank) = (values.output_name, values.shape.len());
    let is_kept = rules.are_as_stored();
    let weights = match (rules.forced(name, rank, weights), values.stored) {
        (Some(forced), _) => return Some(forced),
        (None, Some(Dtype::F32)) if is_kept => return Some(TargetDtype::F32),
        (None, Some(Dtype::BF16)) if is_kept => return Some(TargetDtype::BF16),
        (None, _) if (fp8_as_q8 || is_kept) && values.is_fp8 => Weights::Q8_0,
        (None, _) => match rules.fixed(name, rank, weights) {
            Some(fixed) => return Some(fixed),
            None => weights,
        },
    };
    match weights {
        Weights::Plain(dtype) => Some(dtype),
        Weights::Q8_0 if row.is_multiple_of(BlockType::Q8_0.block_elements()) => None,
        Weights::Q8_0 => Some(TargetDtype::F16),
    }
}
