//! Casts.

use super::{Rounded, with_rounded};
use crate::base::float::E4m3;
use crate::base::level::Level;

/// [`round_slice`](crate::round_slice).
#[must_use = "output past the returned count keeps its old contents"]
pub fn round_slice(level: Level, to: Rounded, values: &[f32], out: &mut [u8]) -> usize {
    with_rounded!(to, O => crate::round_slice::<O>(level, values, out))
}

/// [`narrow`](crate::narrow) to E4M3, the type of stored scales.
#[must_use = "output past the returned count keeps its old contents"]
pub fn narrow_e4m3(level: Level, values: &[f32], out: &mut [u8]) -> usize {
    crate::narrow::<E4m3>(level, values, out)
}
