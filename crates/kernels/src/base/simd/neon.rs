//! Half precision and look-ups of AArch64's baseline.

use std::arch::aarch64::*;
use std::arch::asm;

use super::TABLE;
use crate::base::GROUP;

/// Whether half precision conversion is one instruction.
pub(super) const HALF: bool = true;

/// Values of a register.
const FOUR: usize = 4;

/// Entries of a register.
const REGISTER: usize = 16;

/// Half precision to `f32`, exactly; signalling NaN becomes quiet.
#[inline(always)]
pub(super) fn widen_f16(halves: &[u16; GROUP]) -> [f32; GROUP] {
    let mut values = [0.0; GROUP];
    for (to, from) in values.as_chunks_mut::<FOUR>().0.iter_mut().zip(halves.as_chunks::<FOUR>().0) {
        // SAFETY: AArch64 has NEON; load and store are unaligned and cover the four elements; the instruction only reads
        // and writes registers.
        unsafe {
            let halves = vld1_u16(from.as_ptr());
            let wide: float32x4_t;
            asm!("fcvtl {wide:v}.4s, {halves:v}.4h", wide = lateout(vreg) wide, halves = in(vreg) halves,
                options(pure, nomem, nostack, preserves_flags));
            vst1q_f32(to.as_mut_ptr(), wide);
        }
    }
    values
}

/// `f32` to half precision, to nearest even; NaN keeps its sign and upper payload and becomes quiet.
#[inline(always)]
pub(super) fn narrow_f16<const N: usize>(values: &[f32; N]) -> [u16; N] {
    const { assert!(N.is_multiple_of(FOUR)) };
    let mut halves = [0; N];
    for (to, from) in halves.as_chunks_mut::<FOUR>().0.iter_mut().zip(values.as_chunks::<FOUR>().0) {
        // SAFETY: AArch64 has NEON; load and store are unaligned and cover the four elements; the instruction only reads
        // and writes registers.
        unsafe {
            let wide = vld1q_f32(from.as_ptr());
            let narrow: uint16x4_t;
            asm!("fcvtn {narrow:v}.4h, {wide:v}.4s", narrow = lateout(vreg) narrow, wide = in(vreg) wide,
                options(pure, nomem, nostack, preserves_flags));
            vst1_u16(to.as_mut_ptr(), narrow);
        }
    }
    halves
}

/// `table[code & 0x7F]`.
#[inline(always)]
pub(super) fn look_up(table: &[u16; TABLE], codes: &[u8; GROUP]) -> [u16; GROUP] {
    let mut found = [0; GROUP];
    for start in [0, REGISTER] {
        // SAFETY: AArch64 has NEON; loads and stores are unaligned, of sixteen codes and of sixteen words as bytes, of which
        // the table has eight times as many.
        unsafe {
            let places = vandq_u8(vld1q_u8(codes.as_ptr().add(start)), vdupq_n_u8(0x7F));
            let upper = vsubq_u8(places, vdupq_n_u8(64));
            let part = |at: usize| vld2q_u8(table.as_ptr().add(at * REGISTER).cast());
            let quarter = |at: usize| (part(at), part(at + 1), part(at + 2), part(at + 3));
            let (a, b, c, d) = quarter(0);
            let (e, f, g, h) = quarter(4);
            // Places out of the range of a table give zero.
            let first = vorrq_u8(
                vqtbl4q_u8(uint8x16x4_t(a.0, b.0, c.0, d.0), places),
                vqtbl4q_u8(uint8x16x4_t(e.0, f.0, g.0, h.0), upper),
            );
            let second = vorrq_u8(
                vqtbl4q_u8(uint8x16x4_t(a.1, b.1, c.1, d.1), places),
                vqtbl4q_u8(uint8x16x4_t(e.1, f.1, g.1, h.1), upper),
            );
            vst2q_u8(found.as_mut_ptr().add(start).cast(), uint8x16x2_t(first, second));
        }
    }
    found
}
