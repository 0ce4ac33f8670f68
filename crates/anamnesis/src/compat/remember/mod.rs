//! Recovering values: whole checkpoints through a plan, and single weights through functions on slices.

pub mod awq;
pub mod bnb;
pub mod fp8;
pub mod gguf;
pub mod gptq;
pub mod npz;
pub mod nvfp4;

pub mod output;
pub mod pth;
mod slices;

pub use crate::convert::{
    DirectoryOptions, DirectoryPlan, DirectoryReport, Part, PlannedOutput, RememberPlan, Sidecar, SidecarFate,
};
pub use crate::pipeline::RememberOptions;
pub use awq::{dequantize_awq, dequantize_awq_to_bf16};
pub use bnb::{
    dequantize_bnb_int8, dequantize_bnb_int8_to_bf16, dequantize_bnb4, dequantize_bnb4_double_quant,
    dequantize_bnb4_double_quant_to_bf16, dequantize_bnb4_to_bf16,
};
pub use fp8::{
    dequantize_fp8, dequantize_fp8_to_bf16, dequantize_per_channel_fp8, dequantize_per_channel_fp8_to_bf16,
    dequantize_per_tensor_fp8, dequantize_per_tensor_fp8_to_bf16,
};
pub use gguf::{dequantize_gguf, dequantize_gguf_blocks, dequantize_gguf_blocks_to_bf16, dequantize_gguf_to_bf16};
pub use gptq::{dequantize_gptq, dequantize_gptq_to_bf16};
pub use npz::{npz_to_safetensors, npz_to_safetensors_bytes};
pub use nvfp4::{dequantize_nvfp4, dequantize_nvfp4_to_bf16};
pub use output::{Bf16Out, F16Out, F32Out, OutputElement};
pub use pth::{pth_to_safetensors, pth_to_safetensors_bytes};
