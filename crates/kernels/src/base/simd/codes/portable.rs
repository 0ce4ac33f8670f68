//! Packed codes without any hand-written instruction.

use super::{Codes, SMALL_TABLE};
use crate::base::GROUP;
use crate::base::float::bf16;
use crate::base::packing::{HALF_BYTES, Places};
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
    fn codes(self, places: &Places, packed: &[u8; GROUP]) -> [u8; GROUP] {
        let mut codes = [0; GROUP];
        let mask = ((1u16 << places.bits) - 1) as u8;
        for (i, code) in codes.iter_mut().enumerate() {
            let start = if i < GROUP / 2 { 0 } else { places.upper };
            // Where a window has no second byte, no code reaches into it.
            let [first, second] = places.bytes[i].map(|byte| packed[(start + usize::from(byte) % HALF_BYTES) % GROUP]);
            *code = (u16::from_le_bytes([first, second]) >> places.shifts[i]) as u8 & mask;
        }
        codes
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn numbers(self, places: &Places, packed: &[u8; GROUP]) -> [f32; GROUP] {
        let codes = self.codes(places, packed);
        if places.is_signed { self.signed(&codes) } else { self.unsigned(&codes) }
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn numbers_apart(self, places: &Places, packed: &[u8; GROUP]) -> [f32; GROUP] {
        self.numbers(places, packed)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn join_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP] {
        map!(value in values => bf16::encode_number(value))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn words(self, places: &Places, table: &[u16; SMALL_TABLE], packed: &[u8; GROUP]) -> [u16; GROUP] {
        map!(code in self.codes(places, packed) => table[usize::from(code) % SMALL_TABLE])
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn values(self, places: &Places, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        map!(code in self.codes(places, packed) => table[usize::from(code) % SMALL_TABLE])
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn words_by_half(self, places: &Places, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        by_half(tables, &self.codes(places, packed))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn values_by_half(self, places: &Places, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP] {
        by_half(tables, &self.codes(places, packed))
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
