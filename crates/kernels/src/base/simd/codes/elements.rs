//! Unpacking and look-ups, an element at a time.

use super::{SMALL_TABLE, Windows};
use crate::base::GROUP;
use crate::base::packing::Packing;

/// Whether look-ups are shuffles of bytes.
pub(super) const SHUFFLES: bool = false;

/// The codes of a group.
#[inline(always)]
pub(super) fn unpack<P: Packing>(packed: &[u8; GROUP]) -> [u8; GROUP] {
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

/// `table[code]` of 16-bit words, with a table for each half of the codes, which are below 16.
#[inline(always)]
pub(super) fn words(tables: [&[u16; SMALL_TABLE]; 2], codes: &[u8; GROUP]) -> [u16; GROUP] {
    entries(tables, codes)
}

/// [`words`] of 32 bits.
#[inline(always)]
pub(super) fn values(tables: [&[u32; SMALL_TABLE]; 2], codes: &[u8; GROUP]) -> [u32; GROUP] {
    entries(tables, codes)
}

#[inline(always)]
fn entries<W: Copy + Default>(tables: [&[W; SMALL_TABLE]; 2], codes: &[u8; GROUP]) -> [W; GROUP] {
    let mut found = [W::default(); GROUP];
    for i in 0..GROUP {
        found[i] = tables[i / SMALL_TABLE][usize::from(codes[i]) % SMALL_TABLE];
    }
    found
}
