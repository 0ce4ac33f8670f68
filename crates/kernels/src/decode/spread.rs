//! Codes of any layout brought into bytes of their own, for the layouts that no [`Packing`](crate::Packing) describes.
//!
//! | kernel | code `i` lies |
//! |---|---|
//! | [`spread_words`] | in word `i / (32 / bits)`; what is left over at the top of a word is empty |
//! | [`spread_plane`] | at bit `shift` of unit `i`, which is a byte or a word |

use crate::base::level::Level;
use crate::base::simd::Simd;

/// Brings codes of one to eight bits, as many in each little-endian word as fit whole, into bytes of their own.
pub fn spread_words(level: Level, words: &[u8], bits: u8, out: &mut [u8]) {
    if matches!(bits, 1..=8) {
        words_kernel(level, words.as_chunks::<4>().0, bits.into(), out);
    }
}

/// Brings the `bits` bits from bit `shift` of each byte (`UNIT` 1) or little-endian word (`UNIT` 4) into bytes of their own.
pub fn spread_plane<const UNIT: usize>(level: Level, units: &[u8], shift: u32, bits: u8, out: &mut [u8]) {
    let mask = ((1u16 << bits.min(8)) - 1) as u8;
    match UNIT {
        1 => plane_bytes(level, units, shift % 8, mask, out),
        _ => plane_words(level, units.as_chunks::<4>().0, shift % 32, mask, out),
    }
}

kernel! {
    fn words_kernel(words: &[[u8; 4]], bits: u32, out: &mut [u8]) = words_body
}

kernel! {
    fn plane_bytes(units: &[u8], shift: u32, mask: u8, out: &mut [u8]) = plane_bytes_body
}

kernel! {
    fn plane_words(units: &[[u8; 4]], shift: u32, mask: u8, out: &mut [u8]) = plane_words_body
}

#[inline(always)]
fn words_body<S: Simd>(_simd: S, words: &[[u8; 4]], bits: u32, out: &mut [u8]) {
    let (each, mask) = (32 / bits, ((1u16 << bits) - 1) as u8);
    for (word, out) in words.iter().zip(out.chunks_mut(each as usize)) {
        let word = u32::from_le_bytes(*word);
        for (i, code) in out.iter_mut().enumerate() {
            *code = (word >> (i as u32 * bits)) as u8 & mask;
        }
    }
}

#[inline(always)]
fn plane_bytes_body<S: Simd>(_simd: S, units: &[u8], shift: u32, mask: u8, out: &mut [u8]) {
    for (unit, code) in units.iter().zip(out) {
        *code = (unit >> shift) & mask;
    }
}

#[inline(always)]
fn plane_words_body<S: Simd>(_simd: S, units: &[[u8; 4]], shift: u32, mask: u8, out: &mut [u8]) {
    for (unit, code) in units.iter().zip(out) {
        *code = (u32::from_le_bytes(*unit) >> shift) as u8 & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code at a bit, one bit at a time.
    fn slowly(packed: &[u8], at: usize, bits: usize) -> u8 {
        (0..bits).map(|bit| (packed[(at + bit) / 8] >> ((at + bit) % 8) & 1) << bit).sum()
    }

    #[test]
    fn every_layout_and_length_comes_out_code_by_code_at_every_level() {
        let packed: Vec<u8> = (0..64u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for level in Level::available() {
            for bits in 1..=8 {
                let each = 32 / bits;
                for count in [0, 1, each, each + 1, 16 * each] {
                    let mut out = vec![0xEE; count];
                    spread_words(level, &packed, bits as u8, &mut out);
                    let at = |i: usize| i / each * 32 + i % each * bits;
                    assert_eq!(out, (0..count).map(|i| slowly(&packed, at(i), bits)).collect::<Vec<_>>());
                }
            }
            for (shift, bits) in [(0, 4), (4, 4), (6, 2), (7, 1), (0, 8)] {
                let mut out = vec![0xEE; 61];
                spread_plane::<1>(level, &packed, shift, bits, &mut out);
                let at = |i: usize| slowly(&packed, i * 8 + shift as usize, bits.into());
                assert_eq!(out, (0..61).map(at).collect::<Vec<_>>());
            }
            for (shift, bits) in [(0, 3), (27, 3), (24, 8)] {
                let mut out = vec![0xEE; 16];
                spread_plane::<4>(level, &packed, shift, bits, &mut out);
                let at = |i: usize| slowly(&packed, i * 32 + shift as usize, bits.into());
                assert_eq!(out, (0..16).map(at).collect::<Vec<_>>());
            }
        }
    }
}
