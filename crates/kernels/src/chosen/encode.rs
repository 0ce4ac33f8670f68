//! Encoding kernels.

use crate::base::level::Level;
use crate::base::output::{Bf16, F16, F32};
use crate::encode::{Codebook, Scaling, Steps};

/// Values to encode, as they are stored.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Little-endian BF16.
    Bf16(&'a [[u8; 2]]),
    /// Little-endian half precision.
    F16(&'a [[u8; 2]]),
    /// `f32`.
    F32(&'a [f32]),
}

/// `with_values!(values, slice, I => body)`: the body with `I` as the type of the values in `slice`.
macro_rules! with_values {
    ($values:expr, $slice:ident, $input:ident => $body:expr) => {
        with_values!(@arms $values, $slice, $input => $body, Bf16 F16 F32)
    };
    (@arms $values:expr, $slice:ident, $input:ident => $body:expr, $($type:ident)+) => {
        match $values {
            $( Values::$type($slice) => { type $input = $type; $body } )+
        }
    };
}

/// [`block_largest`](crate::block_largest).
#[must_use = "output past the returned count keeps its old contents"]
pub fn block_largest(level: Level, values: Values<'_>, block: usize, out: &mut [f32]) -> usize {
    with_values!(values, values, I => crate::block_largest::<I>(level, values, block, out))
}

/// [`block_largest_number`](crate::block_largest_number).
#[must_use = "output past the returned count keeps its old contents"]
pub fn block_largest_number(level: Level, values: Values<'_>, block: usize, out: &mut [f32]) -> usize {
    with_values!(values, values, I => crate::block_largest_number::<I>(level, values, block, out))
}

/// [`nearest_codes`](crate::nearest_codes).
#[must_use = "output past the returned count keeps its old contents"]
pub fn nearest_codes(
    level: Level,
    values: Values<'_>,
    codebook: &Codebook,
    scales: &[f32],
    block: usize,
    scaling: Scaling,
    out: &mut [u8],
) -> usize {
    with_values!(values, values, I => crate::nearest_codes::<I>(level, values, codebook, scales, block, scaling, out))
}

/// [`row_codes`](crate::row_codes).
#[must_use = "output past the returned count keeps its old contents"]
pub fn row_codes(level: Level, values: Values<'_>, scales: &[f32], row: usize, steps: Steps, out: &mut [u8]) -> usize {
    with_values!(values, values, I => crate::row_codes::<I>(level, values, scales, row, steps, out))
}
