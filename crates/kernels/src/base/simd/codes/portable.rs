//! Packed codes without any hand-written instruction.

use super::{Codes, SMALL_TABLE, Windows};
use crate::base::GROUP;
use crate::base::packing::Packing;
use crate::base::simd::Portable;

impl Codes for Portable {
    const SHUFFLES: bool = false;

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn unsigned(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        map!(byte in bytes => f32::from(byte))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn signed(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        map!(byte in bytes => f32::from(byte.cast_signed()))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn codes<P: Packing>(self, packed: &[u8; GROUP]) -> [u8; GROUP] {
        let mut codes = [0; GROUP];
        for (i, code) in codes.iter_mut().enumerate() {
            let [first, second] = Windows::<P>::BYTES[i];
            // Where a window has no second byte, no code reaches into it.
            let window = u16::from_le_bytes([packed[usize::from(first)], packed[usize::from(second) % GROUP]]);
            *code = (window >> Windows::<P>::SHIFTS[i]) as u8 & ((1 << P::BITS) - 1);
        }
        codes
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn words<P: Packing>(self, table: &[u16; SMALL_TABLE], packed: &[u8; GROUP]) -> [u16; GROUP] {
        map!(code in self.codes::<P>(packed) => table[usize::from(code) % SMALL_TABLE])
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn values<P: Packing>(self, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        map!(code in self.codes::<P>(packed) => table[usize::from(code) % SMALL_TABLE])
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn words_by_half<P: Packing>(self, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        by_half(tables, &self.codes::<P>(packed))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
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
