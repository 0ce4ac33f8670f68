//! Packed codes without any hand-written instruction.

use super::{Codes, SMALL_TABLE, Windows};
use crate::GROUP;
use crate::packing::Packing;
use crate::simd::Portable;

impl Codes for Portable {
    #[inline(always)]
    fn codes<P: Packing>(self, packed: &[u8; GROUP]) -> [u8; GROUP] {
        let mut codes = [0; GROUP];
        for (i, code) in codes.iter_mut().enumerate() {
            // The byte behind a group is zero or another group's, and no code reaches into it.
            let first = usize::from(Windows::<P>::BYTES[i][0]);
            let window = u16::from_le_bytes([packed[first], packed[(first + 1) % GROUP]]);
            *code = (window >> Windows::<P>::SHIFTS[i]) as u8 & ((1 << P::BITS) - 1);
        }
        codes
    }

    #[inline(always)]
    fn words<P: Packing>(self, table: &[u16; SMALL_TABLE], packed: &[u8; GROUP]) -> [u16; GROUP] {
        map!(code in self.codes::<P>(packed) => table[usize::from(code) % SMALL_TABLE])
    }

    #[inline(always)]
    fn values<P: Packing>(self, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        map!(code in self.codes::<P>(packed) => table[usize::from(code) % SMALL_TABLE])
    }
}
