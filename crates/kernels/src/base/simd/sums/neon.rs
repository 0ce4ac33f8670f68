//! The sums of a group by look-ups in registers, which every AArch64 CPU has.

use std::arch::aarch64::*;

use super::{Points, Tables};
use crate::base::GROUP;

/// Bytes of a register.
const REGISTER: usize = 16;

/// The sums of a group, saturated at 255.
#[inline(always)]
pub(super) fn sums(tables: &Tables, [lower, upper]: &Points) -> [u8; GROUP] {
    let mut sums = [0; GROUP];
    for start in [0, REGISTER] {
        // SAFETY: AArch64 has NEON; loads and stores are unaligned, and cover the sixteen bytes of a table, and those from
        // `start` on, of which each of the groups has sixteen.
        unsafe {
            let table = |nibble: usize| vld1q_u8(tables[nibble].as_ptr());
            let (lower, upper) = (vld1q_u8(lower.as_ptr().add(start)), vld1q_u8(upper.as_ptr().add(start)));
            let pair = |first: usize, points: uint8x16_t| {
                let low = vqtbl1q_u8(table(first), vandq_u8(points, vdupq_n_u8(15)));
                vqaddq_u8(low, vqtbl1q_u8(table(first + 1), vshrq_n_u8::<4>(points)))
            };
            vst1q_u8(sums.as_mut_ptr().add(start), vqaddq_u8(pair(0, lower), pair(2, upper)));
        }
    }
    sums
}
