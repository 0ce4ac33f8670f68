//! Half precision and look-ups, an element at a time: the compiler vectorises the conversions.

use super::TABLE;
use crate::base::GROUP;
use crate::base::float::f16;

/// Whether half precision conversion is one instruction.
pub(super) const HALF: bool = false;

/// Half precision to `f32`, exactly; signalling NaN becomes quiet.
#[inline(always)]
pub(super) fn widen_f16(halves: &[u16; GROUP]) -> [f32; GROUP] {
    map!(half in halves => f16::decode(half))
}

/// `f32` to half precision, to nearest even; NaN keeps its sign and upper payload and becomes quiet.
#[inline(always)]
pub(super) fn narrow_f16<const N: usize>(values: &[f32; N]) -> [u16; N] {
    let mut halves = [0; N];
    for i in 0..N {
        halves[i] = f16::encode(values[i]);
    }
    halves
}

/// `table[code & 0x7F]`.
#[inline(always)]
pub(super) fn look_up(table: &[u16; TABLE], codes: &[u8; GROUP]) -> [u16; GROUP] {
    map!(code in codes => table[usize::from(code & 0x7F)])
}
