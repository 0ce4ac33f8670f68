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
//! | [`round`], [`widen`] | `f32` to and from everything else |
//!
//! Every level gives the same bits for every input. Arithmetic is `f32`, one rounding per operation, never fused.

#[macro_use]
mod group;
#[macro_use]
mod kernel;

pub mod block;
pub mod float;
pub mod level;
pub mod output;
pub mod round;
pub mod runs;
pub mod scaled;
pub mod simd;
pub mod streamed;
pub mod widen;

pub use block::scaled_block_rows;
pub use float::{E4m3, E4m3Fnuz, E5m2, E5m2Fnuz, E8m0, Format8};
pub use level::Level;
pub use output::{Bf16, F16, F32, Output};
pub use round::{narrow, round_slice};
pub use runs::scaled_runs;
pub use scaled::{cast, scaled};
pub use streamed::Streamed;
pub use widen::{TopExponent, widen_bf16, widen_e8m0, widen_f16, widen_f32, widen_format8};

/// Elements that go through a kernel's body together: one 512-bit register of 16-bit words.
pub const GROUP: usize = 32;
