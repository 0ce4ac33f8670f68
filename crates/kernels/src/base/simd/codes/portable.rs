//! The portable operations on packed codes.

use super::{Arrangement, Codes, SMALL_TABLE, arrange, tables};
use crate::base::GROUP;
use crate::base::float::bf16;
use crate::base::packing::Packing;
use crate::base::simd::{Portable, baseline};

impl Codes for Portable {
    const SHUFFLES: bool = tables::SHUFFLES;
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
        tables::unpack::<P>(packed)
    }

    #[inline(always)]
    fn bf16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        let mut words = [0; SMALL_TABLE];
        // A loop: `map` is not inlined on all targets.
        for i in 0..SMALL_TABLE {
            words[i] = bf16::encode(values[i]);
        }
        arrange::<A, _>(&words)
    }

    #[inline(always)]
    fn f16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        arrange::<A, _>(&baseline::narrow_f16(values))
    }

    #[inline(always)]
    fn words<P: Packing>(self, table: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        let [table, _] = halves(table);
        tables::words([table; 2], &self.codes::<P>(packed))
    }

    #[inline(always)]
    fn words_of_few(self, table: &[u16; GROUP], codes: &[u16; GROUP]) -> [u16; GROUP] {
        let [table, _] = halves(table);
        tables::words([table; 2], &few(codes))
    }

    #[inline(always)]
    fn values_of_few(self, table: &[u32; SMALL_TABLE], codes: &[u16; GROUP]) -> [u32; GROUP] {
        tables::values([table; 2], &few(codes))
    }

    #[inline(always)]
    fn values<P: Packing>(self, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        tables::values([table; 2], &self.codes::<P>(packed))
    }

    #[inline(always)]
    fn words_by_half<P: Packing>(self, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        tables::words(halves(tables), &self.codes::<P>(packed))
    }

    #[inline(always)]
    fn values_by_half<P: Packing>(self, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP] {
        tables::values(halves(tables), &self.codes::<P>(packed))
    }
}

/// The tables of both halves of a group.
#[inline(always)]
fn halves<W>(tables: &[W; GROUP]) -> [&[W; SMALL_TABLE]; 2] {
    let (halves, _) = tables.as_chunks::<SMALL_TABLE>();
    [&halves[0], &halves[1]]
}

/// Codes of two bits as bytes.
#[inline(always)]
fn few(codes: &[u16; GROUP]) -> [u8; GROUP] {
    map!(code in codes => (code % 4) as u8)
}
