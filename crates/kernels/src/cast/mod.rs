//! Conversions between `f32` and the other float types.

pub mod half;
pub mod round;
pub mod widen;

pub use half::half_times;
pub use round::{narrow, round_slice};
pub use widen::{TopExponent, widen_bf16, widen_e8m0, widen_f16, widen_f32, widen_format8};
