//! Forgetting: encoding values as quantised weights, the inverse of decoding.

pub mod bnb;
pub mod bnb_writer;
pub mod gguf;
pub mod round_trip;

pub use crate::scheme::QuantScheme;
pub use bnb::{
    FP4_CODEBOOK, NF4_BLOCK_SIZE, NF4_CODEBOOK, encode_bnb_int8, encode_bnb_int8_compute_scb, encode_bnb4,
    encode_bnb4_compute_absmax, encode_bnb4_double_quant,
};
pub use bnb_writer::{
    BnbNf4WriteStats, BnbWriteInput, classify_inputs, is_eligible_for_nf4, write_bnb_nf4_safetensors,
    write_bnb_nf4_safetensors_bytes,
};
pub use round_trip::{assert_bnb_int8_decode_encode_round_trip, assert_bnb4_decode_encode_round_trip};
