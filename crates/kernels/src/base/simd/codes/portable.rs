//! The portable operations on packed codes.

use super::{Arrangement, Codes, SMALL_TABLE, Windows, arrange};
use crate::base::GROUP;
use crate::base::float::{bf16, f16};
use crate::base::packing::Packing;
use crate::base::simd::Portable;

impl Codes for Portable {
    const SHUFFLES: bool = false;
    const NUMBERS: bool = false;

    #[inline(always)]
    fn unsigned(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        map!(byte in bytes => f32::from(byte))
    }

    #[inline(always)]
    fn signed(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        map!(byte in bytes => f32::from(byte.cast_signed()))
    }

    #[inline(always)]
    fn fields(self, words: &[[u8; 4]; GROUP], shift: u32, mask: u32) -> [f32; GROUP] {
        map!(word in words => ((u32::from_le_bytes(word) >> shift) & mask) as i32 as f32)
    }

    #[inline(always)]
    fn digits(self, bytes: &[u8; GROUP], factors: &[u16; GROUP]) -> [u16; GROUP] {
        let mut digits = [0; GROUP];
        for i in 0..GROUP {
            let fraction = u16::from(bytes[i]).wrapping_mul(factors[i]);
            digits[i] = ((u32::from(fraction) * 3) >> 16) as u16;
        }
        digits
    }

    #[inline(always)]
    fn codes<P: Packing>(self, packed: &[u8; GROUP]) -> [u8; GROUP] {
        let mut codes = [0; GROUP];
        for (i, code) in codes.iter_mut().enumerate() {
            let [first, second] = Windows::<P>::BYTES[i].map(usize::from);
            let half = if Windows::<P>::IN_HALVES { i / (GROUP / 2) * (GROUP / 2) } else { 0 };
            // A window without a second byte has no code that crosses into it.
            let window = u16::from_le_bytes([packed[half + first], packed[(half + second) % GROUP]]);
            *code = (window >> Windows::<P>::SHIFTS[i]) as u8 & ((1 << P::BITS) - 1);
        }
        codes
    }

    #[inline(always)]
    fn bf16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        arrange::<A, _>(&values.map(bf16::encode))
    }

    #[inline(always)]
    fn f16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        arrange::<A, _>(&values.map(f16::encode))
    }

    #[inline(always)]
    fn words<P: Packing>(self, table: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        map!(code in self.codes::<P>(packed) => table[usize::from(code) % SMALL_TABLE])
    }

    #[inline(always)]
    fn words_of_few(self, table: &[u16; GROUP], codes: &[u16; GROUP]) -> [u16; GROUP] {
        map!(code in codes => table[usize::from(code) % 4])
    }

    #[inline(always)]
    fn values_of_few(self, table: &[u32; SMALL_TABLE], codes: &[u16; GROUP]) -> [u32; GROUP] {
        map!(code in codes => table[usize::from(code) % 4])
    }

    #[inline(always)]
    fn values<P: Packing>(self, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        map!(code in self.codes::<P>(packed) => table[usize::from(code) % SMALL_TABLE])
    }

    #[inline(always)]
    fn words_by_half<P: Packing>(self, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        by_half(tables, &self.codes::<P>(packed))
    }

    #[inline(always)]
    fn values_by_half<P: Packing>(self, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP] {
        by_half(tables, &self.codes::<P>(packed))
    }
}

#[inline(always)]
fn by_half<W: Copy + Default>(tables: &[W; GROUP], codes: &[u8; GROUP]) -> [W; GROUP] {
    let mut found = [W::default(); GROUP];
    for i in 0..GROUP {
        found[i] = tables[i / SMALL_TABLE * SMALL_TABLE + usize::from(codes[i]) % SMALL_TABLE];
    }
    found
}
