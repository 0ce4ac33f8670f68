//! The portable level: the target's baseline, without hand-written instructions but those of AArch64.

use super::{Simd, TABLE, baseline};
use crate::base::GROUP;
use crate::base::float::{E4m3, Format8, bf16};

/// The target's baseline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Portable;

impl Simd for Portable {
    const HALF: bool = baseline::HALF;
    const TABLES: bool = true;

    #[inline(always)]
    fn widen_f16(self, halves: &[u16; GROUP]) -> [f32; GROUP] {
        baseline::widen_f16(halves)
    }

    #[inline(always)]
    fn widen_e4m3(self, codes: &[u8; GROUP]) -> [f32; GROUP] {
        map!(code in codes => E4m3::decode(code))
    }

    #[inline(always)]
    fn narrow_f16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        baseline::narrow_f16(values)
    }

    #[inline(always)]
    fn round_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        map!(value in values => bf16::encode(value))
    }

    #[inline(always)]
    fn narrow_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        map!(value in values => bf16::encode_number(value))
    }

    #[inline(always)]
    fn truncate(self, values: &[f32; GROUP]) -> [i32; GROUP] {
        // The largest f32 below 2^31 is an integer.
        map!(value in values => if (-2_147_483_648.0..2_147_483_648.0).contains(&value) { value as i32 } else { i32::MIN })
    }

    #[inline(always)]
    fn larger(self, a: &[i32; GROUP], b: &[i32; GROUP]) -> [i32; GROUP] {
        let mut larger = *a;
        for i in 0..GROUP {
            larger[i] = larger[i].max(b[i]);
        }
        larger
    }

    #[inline(always)]
    fn look_up(self, table: &[u16; TABLE], codes: &[u8; GROUP]) -> [u16; GROUP] {
        let mut words = baseline::look_up(table, codes);
        for i in 0..GROUP {
            words[i] ^= u16::from(codes[i] & 0x80) << 8;
        }
        words
    }
}
