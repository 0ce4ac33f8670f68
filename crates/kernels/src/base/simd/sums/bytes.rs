//! The sums of a group, byte by byte.

use super::{Points, Tables};
use crate::base::GROUP;

/// The sums of a group, saturated at 255.
#[inline(always)]
pub(super) fn sums(tables: &Tables, [lower, upper]: &Points) -> [u8; GROUP] {
    let mut sums = [0; GROUP];
    for i in 0..GROUP {
        let nibbles = [lower[i] & 15, lower[i] >> 4, upper[i] & 15, upper[i] >> 4];
        let found = |nibble: usize| tables[nibble][usize::from(nibbles[nibble])];
        sums[i] = found(0).saturating_add(found(1)).saturating_add(found(2)).saturating_add(found(3));
    }
    sums
}
