//! Forgetting: numbers back into quantised weights, so that decoding gives the same numbers again.

pub mod bnb;

pub use bnb::{
    FP4_CODEBOOK, NF4_BLOCK_SIZE, NF4_CODEBOOK, encode_bnb_int8, encode_bnb_int8_compute_scb, encode_bnb4,
    encode_bnb4_compute_absmax, encode_bnb4_double_quant,
};
