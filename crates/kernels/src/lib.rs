//! The number kernels of anamnesis: pure functions over slices, compiled once per CPU level.
//!
//! Nothing here reads files, allocates or fails. A kernel takes the [`Level`] it shall run at, its input slices and its
//! output slice; it works through as many elements as all of them hold and leaves the rest alone.
//!
//! | room | holds |
//! |---|---|
//! | [`float`] | scalar conversions of the small float formats, and [`Format8`] for the eight-bit ones |
//! | [`output`] | what decoded values are rounded to: [`Bf16`], [`F16`], [`F32`] |
//! | [`streamed`] | the same, stored past the caches |
//! | [`level`], [`simd`] | which instructions may be used, and the few operations written by hand for them |
//! | [`scaled`](mod@scaled), [`runs`], [`block`] | eight-bit floats times scales |
//! | [`packing`] | how codes of a few bits lie in bytes |
//! | [`coded`], [`affine`] | packed codes with zero points and scales |
//! | [`twice`], [`nested`] | eight-bit integers, and scales stored as codes |
//! | [`ggml`] | the block types of GGUF files |
//! | [`transpose`] | words and nibbles by columns |
//! | [`encode`] | numbers back to codes |
//! | [`round`], [`widen`] | `f32` to and from everything else |
//!
//! Every level gives the same bits for every input; only where an operation meets two NaNs, which of them comes out is
//! the CPU's choice. Arithmetic is `f32`, one rounding per operation, never fused.

#[macro_use]
mod group;
#[macro_use]
mod kernel;
#[macro_use]
mod walk;

pub mod affine;
pub mod block;
pub mod coded;
pub mod encode;
pub mod float;
pub mod ggml;
pub mod level;
pub mod nested;
pub mod output;
pub mod packing;
pub mod round;
pub mod runs;
pub mod scaled;
pub mod simd;
pub mod streamed;
pub mod transpose;
pub mod twice;
pub mod widen;

pub use affine::{affine_codes, affine_fields, coded_indexed, unpack_codes};
pub use block::scaled_block_rows;
pub use coded::coded_blocks;
pub use encode::{
    Codebook, Input, SMALLEST_SCALE, Scaling, Steps, block_largest, block_largest_number, nearest_codes, row_codes,
};
pub use float::{E4m3, E4m3Fnuz, E5m2, E5m2Fnuz, E8m0, Format8};
pub use level::Level;
pub use nested::nested_scales;
pub use output::{Bf16, F16, F32, Output};
pub use packing::{AwqNibbles, Bits2, Bits3, Bytes, HighNibbles, LowNibbles, Packing};
pub use round::{narrow, round_slice};
pub use runs::scaled_runs;
pub use scaled::{cast, scaled};
pub use streamed::Streamed;
pub use transpose::{transpose_awq, transpose_words};
pub use twice::scaled_twice;
pub use widen::{TopExponent, widen_bf16, widen_e8m0, widen_f16, widen_f32, widen_format8};

/// Elements that go through a kernel's body together: one 512-bit register of 16-bit words.
pub const GROUP: usize = 32;
