//! Unpacking and look-ups by shuffles of bytes, which every AArch64 CPU has.
//!
//! A table of words is split into tables of bytes: all first bytes, all second ones and so on, in the order in which they
//! are in memory. Each is looked up by itself, and a store puts the bytes together again.

use std::arch::aarch64::*;

use super::{SMALL_TABLE, Windows};
use crate::base::GROUP;
use crate::base::packing::Packing;

/// Whether look-ups are shuffles of bytes.
pub(super) const SHUFFLES: bool = true;

/// Bytes of a register.
const REGISTER: usize = 16;

impl<P: Packing> Windows<P> {
    /// The first byte of each window, and the second one.
    const PLANES: [[u8; GROUP]; 2] = {
        let mut planes = [[0; GROUP]; 2];
        let mut i = 0;
        while i < GROUP {
            planes[0][i] = Self::BYTES[i][0];
            planes[1][i] = Self::BYTES[i][1];
            i += 1;
        }
        planes
    };

    /// The shifts of both bytes that move a code to the lowest bits: to the right and to the left.
    const PLANE_SHIFTS: [[i8; GROUP]; 2] = {
        let mut shifts = [[0; GROUP]; 2];
        let mut i = 0;
        while i < GROUP {
            shifts[0][i] = -(Self::SHIFTS[i] as i8);
            shifts[1][i] = 8 - Self::SHIFTS[i] as i8;
            i += 1;
        }
        shifts
    };
}

/// The codes of a group.
#[inline(always)]
pub(super) fn unpack<P: Packing>(packed: &[u8; GROUP]) -> [u8; GROUP] {
    let mut codes = [0; GROUP];
    for start in [0, REGISTER] {
        let half = if Windows::<P>::IN_HALVES { start } else { 0 };
        // SAFETY: AArch64 has NEON; loads and stores are unaligned, and cover the bytes from `start` or `half` on, of which
        // each of these arrays has sixteen.
        unsafe {
            let bytes = vld1q_u8(packed.as_ptr().add(half));
            let part = |plane: usize| {
                let places = vld1q_u8(Windows::<P>::PLANES[plane].as_ptr().add(start));
                let shifts = vld1q_s8(Windows::<P>::PLANE_SHIFTS[plane].as_ptr().add(start));
                vshlq_u8(vqtbl1q_u8(bytes, places), shifts)
            };
            let mask = vdupq_n_u8((1 << P::BITS) - 1);
            vst1q_u8(codes.as_mut_ptr().add(start), vandq_u8(vorrq_u8(part(0), part(1)), mask));
        }
    }
    codes
}

/// `table[code]` of 16-bit words, with a table for each half of the codes, which are below 16.
#[inline(always)]
pub(super) fn words(tables: [&[u16; SMALL_TABLE]; 2], codes: &[u8; GROUP]) -> [u16; GROUP] {
    let mut found = [0; GROUP];
    for (table, start) in tables.into_iter().zip([0, REGISTER]) {
        // SAFETY: AArch64 has NEON; loads and stores are unaligned, of sixteen codes and of sixteen words as bytes.
        unsafe {
            let codes = vld1q_u8(codes.as_ptr().add(start));
            let planes = vld2q_u8(table.as_ptr().cast());
            let looked_up = uint8x16x2_t(vqtbl1q_u8(planes.0, codes), vqtbl1q_u8(planes.1, codes));
            vst2q_u8(found.as_mut_ptr().add(start).cast(), looked_up);
        }
    }
    found
}

/// [`words`] of 32 bits.
#[inline(always)]
pub(super) fn values(tables: [&[u32; SMALL_TABLE]; 2], codes: &[u8; GROUP]) -> [u32; GROUP] {
    let mut found = [0; GROUP];
    for (table, start) in tables.into_iter().zip([0, REGISTER]) {
        // SAFETY: AArch64 has NEON; loads and stores are unaligned, of sixteen codes and of sixteen words as bytes.
        unsafe {
            let codes = vld1q_u8(codes.as_ptr().add(start));
            let planes = vld4q_u8(table.as_ptr().cast());
            let looked_up = uint8x16x4_t(
                vqtbl1q_u8(planes.0, codes),
                vqtbl1q_u8(planes.1, codes),
                vqtbl1q_u8(planes.2, codes),
                vqtbl1q_u8(planes.3, codes),
            );
            vst4q_u8(found.as_mut_ptr().add(start).cast(), looked_up);
        }
    }
    found
}
