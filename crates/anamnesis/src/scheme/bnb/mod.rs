//! BitsAndBytes: NF4, FP4 and INT8.
//!
//! Four bits, two codes per byte, the **high nibble first**; blocks of codes share a scale:
//!
//! | tensor | type | holds |
//! |---|---|---|
//! | `X` | U8 `[n/2, 1]` (or any type, by its bytes) | the codes |
//! | `X.absmax` | F32, or U8 if the scales are quantised too | one scale per block |
//! | `X.quant_map` | F32 `[16]` | the value of each code |
//! | `X.quant_state.bitsandbytes__nf4` / `__fp4` | U8 | JSON: `shape`, `blocksize`, `nested_offset`, … |
//! | `X.nested_absmax`, `X.nested_quant_map` | F32, F32 `[256]` | scales and lookup table of quantised scales |
//!
//! `value = map[code] * absmax`, with `absmax = nested_map[byte] * nested_absmax + offset` in two roundings if nested.
//! A code above 7 whose table entry is +0.0 decodes to −0.0: it is FP4's negative zero.
//!
//! Eight bits: `X.weight` I8 `[out, in]` with `X.SCB` F32 `[out]`, `value = (code * SCB) * (1/127)` in two roundings.
//! Layouts other than rows (`weight_format` not 0) are refused.
//!
//! Encoding produces the bytes that bitsandbytes 0.50 itself writes on a CPU:
//!
//! | quantity | computation |
//! |---|---|
//! | scale of a block | its largest magnitude; a short last block's is at least 1e-38 |
//! | four-bit code | `value * (1 / max(scale, 1e-38))`, in a short last block `value / scale`; then how many of the midpoints between the sorted entries are below it |
//! | nested scales | minus their mean, then in blocks of 256 by their own largest magnitude to the nearest of 65536 values from −1 to 1, and that to the nearest of 256 entries |
//! | eight-bit code | rounded to F16 first, whatever the values were; `value * ((1 / scale) * 127)`, halves to even |
//!
//! An infinite or NaN value would ruin all values of its block, so it is refused.
//!
//! The mean of nested scales is that of single-threaded `torch.mean`, which gives the same bits on every x86-64 CPU.
//! Torch splits more than 32768 scales among its threads, so the last bit of its mean depends on the number of threads.

mod claim;
mod config;
mod four_bit;
mod int8;
mod kind;
#[cfg(feature = "encode")]
mod quantiser;
#[cfg(test)]
mod tests;

pub(crate) use claim::Bnb;
pub(crate) use four_bit::{Bnb4Decoder, FP4_MAP, NF4_MAP, Nested};
pub(crate) use int8::BnbInt8Decoder;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;

/// Writes scales as little-endian F32.
fn write_floats(values: &[f32], out: &mut [u8]) -> usize {
    for (bytes, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *bytes = value.to_le_bytes();
    }
    4 * values.len().min(out.len() / 4)
}
