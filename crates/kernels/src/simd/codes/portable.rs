//! Packed codes without any hand-written instruction.

use super::{Codes, SMALL_TABLE};
use crate::GROUP;
use crate::packing::Packing;
use crate::simd::Portable;

/// `take!(P, code in packed => expression)`: a group of the expression's values.
///
/// Eight codes at a time: their positions repeat, and a loop of eight is unrolled, which turns them into constants.
macro_rules! take {
    ($packing:ident, $code:ident in $packed:expr => $value:expr) => {{
        let mut results = [Default::default(); GROUP];
        for (index, results) in results.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let word = eight::<$packing>($packed, index);
            for i in 0..8 {
                let $code = (word >> $packing::POSITIONS[i]) as usize & ((1 << $packing::BITS) - 1);
                results[i] = $value;
            }
        }
        results
    }};
}

impl Codes for Portable {
    #[inline(always)]
    fn unsigned(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        map!(byte in bytes => f32::from(byte))
    }

    #[inline(always)]
    fn signed(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        map!(byte in bytes => f32::from(byte.cast_signed()))
    }

    #[inline(always)]
    fn codes<P: Packing>(self, packed: &[u8; GROUP]) -> [u8; GROUP] {
        take!(P, code in packed => code as u8)
    }

    #[inline(always)]
    fn words<P: Packing>(self, table: &[u16; SMALL_TABLE], packed: &[u8; GROUP]) -> [u16; GROUP] {
        take!(P, code in packed => table[code % SMALL_TABLE])
    }

    #[inline(always)]
    fn values<P: Packing>(self, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        take!(P, code in packed => table[code % SMALL_TABLE])
    }
}

/// The word that holds eight codes, and what follows them.
#[inline(always)]
fn eight<P: Packing>(packed: &[u8; GROUP], index: usize) -> u32 {
    let start = index * P::BITS + if P::BITS == 3 && index >= 2 { 4 } else { 0 };
    u32::from_le_bytes([packed[start], packed[start + 1], packed[start + 2], packed[start + 3]])
}
