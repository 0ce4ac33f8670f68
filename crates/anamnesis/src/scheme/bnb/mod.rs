//! BitsAndBytes: NF4, FP4 and INT8.
//!
//! Four bits, two codes per byte, the **high nibble first**; blocks of codes share a scale:
//!
//! | tensor | type | holds |
//! |---|---|---|
//! | `X` | U8 `[n/2, 1]` (or any type, by its bytes) | the codes |
//! | `X.absmax` | F32, or U8 where the scales are quantised too | one scale per block |
//! | `X.quant_map` | F32 `[16]` | the value of each code |
//! | `X.quant_state.bitsandbytes__nf4` / `__fp4` | U8 | JSON: `shape`, `blocksize`, `nested_offset`, … |
//! | `X.nested_absmax`, `X.nested_quant_map` | F32, F32 `[256]` | what quantised scales are made of |
//!
//! `value = map[code] * absmax`, with `absmax = nested_map[byte] * nested_absmax + offset` in two roundings where nested.
//! A code of the upper half whose value is +0.0 decodes to −0.0, as the encoder meant it.
//!
//! Eight bits: `X.weight` I8 `[out, in]` with `X.SCB` F32 `[out]`, `value = (code * SCB) * (1/127)` in two roundings.
//! Layouts other than rows (`weight_format` not 0) are refused.

mod claim;
mod config;
pub(crate) mod encode;
mod encoder;
mod four_bit;
mod int8;
mod quant_state;

pub(crate) use claim::Bnb;
pub(crate) use config::quantization_config;
pub(crate) use encoder::{BnbKind, encoder};
pub(crate) use four_bit::{Bnb4Decoder, Nested};
pub(crate) use int8::BnbInt8Decoder;
