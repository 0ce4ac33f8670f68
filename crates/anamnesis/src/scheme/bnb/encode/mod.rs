//! Values to BitsAndBytes weights: the bytes that bitsandbytes 0.50 itself writes on a CPU.
//!
//! | what | how |
//! |---|---|
//! | scale of a block | its largest magnitude; a short last block's is at least 1e-38 |
//! | four-bit code | `value * (1 / max(scale, 1e-38))`, in a short last block `value / scale`; then how many of the midpoints between the sorted entries are below it |
//! | nested scales | minus their mean, then in blocks of 256 by their own largest magnitude to the nearest of 65536 values from −1 to 1, and that to the nearest of 256 entries |
//! | eight-bit code | rounded to F16 first, whatever the values were; `value * ((1 / scale) * 127)`, halves to even |
//!
//! A value that is no finite number takes every other of its block with it, so it is refused.
//!
//! The mean is `torch.mean` of one thread, which gives the same bits on every x86-64 CPU. Torch splits more than 32768
//! scales among its threads, so the last bit of its own mean depends on how many there are.

mod four_bit;
mod int8;
mod mean;
mod nested;
mod nested_map;
mod quant_state;
#[cfg(test)]
mod tests;

pub(crate) use four_bit::{FP4_MAP, NF4_MAP, QuantType, absmax_of_blocks, encode_4bit_blocks};
pub(crate) use int8::encode_int8_rows;
pub(crate) use mean::NestedMean;
pub(crate) use nested::{NESTED_BLOCK_SIZE, encode_nested_scales};
pub(crate) use nested_map::nested_quant_map;
pub(crate) use quant_state::quant_state_json;
