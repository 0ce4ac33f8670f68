//! Weights quantised for ONNX Runtime: integers and small floats that operations of the graph read together with scales
//! and zero points.
//!
//! | operations | weight |
//! |---|---|
//! | `DequantizeLinear` | `(code - zero) * scale`, one scale for the tensor, along an axis, or in blocks along it |
//! | `QLinearMatMul`, `QLinearConv`, `QLinearAdd` and others, `QGemm`, `DynamicQuantizeMatMul`, `MatMulIntegerToFloat` | the same |
//! | `MatMulInteger`, `ConvInteger`, and any other reader of `X_quantized` | the same with `X_scale` and `X_zero_point` |
//! | `GatherBlockQuantized` | the same, in blocks; codes in bytes may be packed |
//! | `MatMulNBits` | blocks of packed codes; the weight is that of the `MatMul` it replaces, `[K, N]` |
//! | `MatMulBnb4` | NF4 and FP4 of bitsandbytes, `[K, N]` |
//!
//! Which tensors belong together is read from the operations alone. All tensors that no operation quantises are plain
//! data, whatever their names. Every weight is decoded in F32, as the CPU kernels do it.
//!
//! Refused by name: other operations outside the default domain that read codes, such as `QMoE` and `QAttention`.

mod claim;
mod columns;
mod names;
mod operators;
mod unpacked_part;
mod weights;

use crate::scheme::claim::{About, Claims, Scheme};

/// The scheme.
pub(crate) struct OnnxRuntime;

/// Its name in reports.
const NAME: &str = "ONNX Runtime";

impl Scheme for OnnxRuntime {
    fn claim(&self, claims: &mut Claims<'_>) {
        claim::claim(claims);
    }

    fn about(&self) -> About {
        About::Decoded(NAME, "DequantizeLinear, QLinear*, MatMulInteger, MatMulNBits, MatMulBnb4, GatherBlockQuantized")
    }
}
