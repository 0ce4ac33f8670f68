//! Recovering numbers: whole checkpoints through a plan, and single weights through functions over slices.

pub mod fp8;
mod options;
mod output_element;
mod plan;

pub use fp8::{
    dequantize_fp8, dequantize_fp8_to_bf16, dequantize_per_channel_fp8, dequantize_per_channel_fp8_to_bf16,
    dequantize_per_tensor_fp8, dequantize_per_tensor_fp8_to_bf16,
};
pub use options::RememberOptions;
pub use output_element::{Bf16Out, F16Out, F32Out, OutputElement};
pub use plan::{PlannedOutput, RememberPlan};
