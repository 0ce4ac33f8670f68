//! The names that earlier versions had at the root.

pub use super::lethe::{
    BnbNf4WriteStats, BnbWriteInput, FP4_CODEBOOK, NF4_BLOCK_SIZE, NF4_CODEBOOK,
    assert_bnb_int8_decode_encode_round_trip, assert_bnb4_decode_encode_round_trip, classify_inputs, encode_bnb_int8,
    encode_bnb_int8_compute_scb, encode_bnb4, encode_bnb4_compute_absmax, encode_bnb4_double_quant,
    is_eligible_for_nf4, write_bnb_nf4_safetensors, write_bnb_nf4_safetensors_bytes,
};
pub use super::model::{
    ParsedModel, parse, parse_bytes, parse_bytes_with_limits, parse_from_reader, parse_from_reader_with_limits,
    parse_with_limits, parse_with_options,
};
pub use super::parse::names::*;
pub use super::remember::{
    Bf16Out, F16Out, F32Out, OutputElement, dequantize_awq, dequantize_awq_to_bf16, dequantize_bnb_int8,
    dequantize_bnb_int8_to_bf16, dequantize_bnb4, dequantize_bnb4_double_quant, dequantize_bnb4_double_quant_to_bf16,
    dequantize_bnb4_to_bf16, dequantize_fp8, dequantize_fp8_to_bf16, dequantize_gguf, dequantize_gguf_blocks,
    dequantize_gguf_blocks_to_bf16, dequantize_gguf_to_bf16, dequantize_gptq, dequantize_gptq_to_bf16,
    dequantize_nvfp4, dequantize_nvfp4_to_bf16, dequantize_per_channel_fp8, dequantize_per_channel_fp8_to_bf16,
    dequantize_per_tensor_fp8, dequantize_per_tensor_fp8_to_bf16, npz_to_safetensors, npz_to_safetensors_bytes,
    pth_to_safetensors, pth_to_safetensors_bytes,
};
