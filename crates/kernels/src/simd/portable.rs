//! The level without any hand-written instruction.

use super::{Simd, TABLE};
use crate::GROUP;
use crate::float::f16;

/// The target's baseline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portable;

impl Simd for Portable {
    const HALF: bool = false;
    const TABLES: bool = true;

    #[inline(always)]
    fn widen_f16(self, halves: &[u16; GROUP]) -> [f32; GROUP] {
        halves.map(f16::decode)
    }

    #[inline(always)]
    fn narrow_f16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        values.map(f16::encode)
    }

    #[inline(always)]
    fn look_up(self, table: &[u16; TABLE], codes: &[u8; GROUP]) -> [u16; GROUP] {
        codes.map(|code| table[usize::from(code & 0x7F)] ^ (u16::from(code & 0x80) << 8))
    }
}
