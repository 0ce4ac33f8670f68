//! Unpacking of codes to one byte each, for layouts that no [`Packing`] describes.
//!
//! | kernel | position of code `i` |
//! |---|---|
//! | [`spread_bits`] | at bit `i * bits`, across bytes and words |
//! | [`spread_words`] | in word `i / (32 / bits)`; the remaining upper bits of a word are unused |
//! | [`spread_plane`] | at bit `shift` of unit `i`, which is a byte or a word |

use crate::base::GROUP;
use crate::base::level::Level;
use crate::base::packing::{Packing, load, unpack};
use crate::base::simd::{Portable, Simd};

/// Codes unpacked together on levels without byte shuffles: they fill whole bytes.
const EIGHT: usize = 8;

/// Codes of four to seven bits, lowest first, without gaps.
#[derive(Clone, Copy, Debug)]
struct Dense<const BITS: usize>;

impl<const BITS: usize> Packing for Dense<BITS> {
    const NAME: &'static str = "dense";
    const BITS: usize = BITS;
    const POSITIONS: [u8; GROUP] = {
        let mut positions = [0; GROUP];
        let mut i = 0;
        while i < GROUP {
            positions[i] = (BITS * i) as u8;
            i += 1;
        }
        positions
    };
}

/// Unpacks codes of one to eight bits, stored without gaps, to one byte each.
///
/// Writes as many as `packed` holds completely and `out` has room for; any other `bits` writes nothing.
///
/// ```
/// use anamnesis_kernels::{Level, spread_bits};
///
/// let mut codes = [0; 3];
/// spread_bits(Level::detect(), &[0b010_00001, 0b1_11111_00], 5, &mut codes);
/// assert_eq!(codes, [1, 2, 31]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn spread_bits(level: Level, packed: &[u8], bits: u8, out: &mut [u8]) -> usize {
    match bits {
        // Kernels decode two and three bits packed, and one bit is rare.
        1 => dense_body::<Portable, 1>(Portable, packed, out),
        2 => dense_body::<Portable, 2>(Portable, packed, out),
        3 => dense_body::<Portable, 3>(Portable, packed, out),
        4 => bits_4(level, packed, out),
        5 => bits_5(level, packed, out),
        6 => bits_6(level, packed, out),
        7 => bits_7(level, packed, out),
        8 => {
            let count = packed.len().min(out.len());
            out[..count].copy_from_slice(&packed[..count]);
            count
        }
        _ => 0,
    }
}

/// Unpacks codes of one to eight bits, as many per little-endian word as fit completely, to one byte each.
#[must_use = "output past the returned count keeps its old contents"]
pub fn spread_words(level: Level, words: &[u8], bits: u8, out: &mut [u8]) -> usize {
    match bits {
        1..=8 => words_kernel(level, words.as_chunks::<4>().0, bits.into(), out),
        _ => 0,
    }
}

/// Unpacks the `bits` bits from bit `shift` on of each byte (`UNIT` 1) or little-endian word (`UNIT` 4) to one byte each.
#[must_use = "output past the returned count keeps its old contents"]
pub fn spread_plane<const UNIT: usize>(level: Level, units: &[u8], shift: u32, bits: u8, out: &mut [u8]) -> usize {
    let mask = ((1u16 << bits.min(8)) - 1) as u8;
    match UNIT {
        1 => plane_bytes(level, units, shift % 8, mask, out),
        _ => plane_words(level, units.as_chunks::<4>().0, shift % 32, mask, out),
    }
}

macro_rules! dense {
    ($($name:ident, $body:ident, $bits:literal);*) => {$(
        kernel! {
            fn $name(packed: &[u8], out: &mut [u8]) = $body
        }

        #[inline(always)]
        fn $body<S: Simd>(simd: S, packed: &[u8], out: &mut [u8]) -> usize {
            dense_body::<S, $bits>(simd, packed, out)
        }
    )*};
}
dense!(bits_4, body_4, 4; bits_5, body_5, 5; bits_6, body_6, 6; bits_7, body_7, 7);

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
fn dense_body<S: Simd, const BITS: usize>(simd: S, packed: &[u8], out: &mut [u8]) -> usize {
    let written = (packed.len() / BITS * 8 + packed.len() % BITS * 8 / BITS).min(out.len());
    let groups = if S::SHUFFLES { (packed.len() / (4 * BITS)).min(out.len() / GROUP) } else { 0 };
    let (whole, packed) = packed.split_at(groups * 4 * BITS);
    let (codes, out) = out.split_at_mut(groups * GROUP);
    for (packed, codes) in whole.chunks_exact(4 * BITS).zip(codes.as_chunks_mut::<GROUP>().0) {
        *codes = unpack::<S, Dense<BITS>>(simd, &load::<Dense<BITS>>(packed));
    }
    let (eights, rest) = packed.as_chunks::<BITS>();
    let (whole, tail) = out.as_chunks_mut::<EIGHT>();
    let done = eights.len().min(whole.len());
    for (packed, out) in eights.iter().zip(whole) {
        *out = eight::<BITS>(packed);
    }
    let (packed, out): (&[u8], &mut [u8]) = match eights.get(done) {
        Some(last) => (last, tail),
        None => (rest, &mut out[done * EIGHT..]),
    };
    let mut last = [0; BITS];
    for (to, from) in last.iter_mut().zip(packed) {
        *to = *from;
    }
    for (out, code) in out.iter_mut().zip(eight::<BITS>(&last)).take(packed.len() * 8 / BITS) {
        *out = code;
    }
    written
}

/// Eight codes from the bytes they fill.
#[inline(always)]
fn eight<const BITS: usize>(packed: &[u8; BITS]) -> [u8; EIGHT] {
    let mut bytes = [0; EIGHT];
    bytes[..BITS].copy_from_slice(packed);
    let all = u64::from_le_bytes(bytes);
    let mut codes = [0; EIGHT];
    for (i, code) in codes.iter_mut().enumerate() {
        *code = (all >> (i * BITS)) as u8 & ((1u16 << BITS) - 1) as u8;
    }
    codes
}

#[inline(always)]
fn words_body<S: Simd>(_simd: S, words: &[[u8; 4]], bits: u32, out: &mut [u8]) -> usize {
    let (each, mask) = (32 / bits, ((1u16 << bits) - 1) as u8);
    let written = words.len().saturating_mul(each as usize).min(out.len());
    for (word, out) in words.iter().zip(out.chunks_mut(each as usize)) {
        let word = u32::from_le_bytes(*word);
        for (i, code) in out.iter_mut().enumerate() {
            *code = (word >> (i as u32 * bits)) as u8 & mask;
        }
    }
    written
}

#[inline(always)]
fn plane_bytes_body<S: Simd>(_simd: S, units: &[u8], shift: u32, mask: u8, out: &mut [u8]) -> usize {
    let written = units.len().min(out.len());
    for (unit, code) in units.iter().zip(out) {
        *code = (unit >> shift) & mask;
    }
    written
}

#[inline(always)]
fn plane_words_body<S: Simd>(_simd: S, units: &[[u8; 4]], shift: u32, mask: u8, out: &mut [u8]) -> usize {
    let written = units.len().min(out.len());
    for (unit, code) in units.iter().zip(out) {
        *code = (u32::from_le_bytes(*unit) >> shift) as u8 & mask;
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code at bit `at`, read bit by bit.
    fn slowly(packed: &[u8], at: usize, bits: usize) -> u8 {
        (0..bits).map(|bit| (packed[(at + bit) / 8] >> ((at + bit) % 8) & 1) << bit).sum()
    }

    #[test]
    fn every_layout_and_length_is_unpacked_at_every_level() {
        let packed: Vec<u8> = (0..64u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for level in Level::available() {
            for bits in 1..=8 {
                for count in 0..=packed.len() * 8 / bits {
                    let mut out = vec![0xEE; count];
                    assert_eq!(spread_bits(level, &packed, bits as u8, &mut out), count);
                    let expected: Vec<u8> = (0..count).map(|i| slowly(&packed, i * bits, bits)).collect();
                    assert_eq!(out, expected, "{bits} bits, {count} codes");
                }
                let each = 32 / bits;
                for count in [0, 1, each, each + 1, 16 * each] {
                    let mut out = vec![0xEE; count];
                    assert_eq!(spread_words(level, &packed, bits as u8, &mut out), count);
                    let at = |i: usize| i / each * 32 + i % each * bits;
                    assert_eq!(out, (0..count).map(|i| slowly(&packed, at(i), bits)).collect::<Vec<_>>());
                }
            }
            for (shift, bits) in [(0, 4), (4, 4), (6, 2), (7, 1), (0, 8)] {
                let mut out = vec![0xEE; 61];
                assert_eq!(spread_plane::<1>(level, &packed, shift, bits, &mut out), 61);
                let at = |i: usize| slowly(&packed, i * 8 + shift as usize, bits.into());
                assert_eq!(out, (0..61).map(at).collect::<Vec<_>>());
            }
            for (shift, bits) in [(0, 3), (27, 3), (24, 8)] {
                let mut out = vec![0xEE; 16];
                assert_eq!(spread_plane::<4>(level, &packed, shift, bits, &mut out), 16);
                let at = |i: usize| slowly(&packed, i * 32 + shift as usize, bits.into());
                assert_eq!(out, (0..16).map(at).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn incomplete_codes_are_not_written() {
        let mut out = [0xEE; 8];
        assert_eq!(spread_bits(Level::portable(), &[0xFF, 0xFF], 5, &mut out), 3);
        assert_eq!(out[..3], [31; 3]);
        assert_eq!(out[3..], [0xEE; 5]);
        assert_eq!(spread_bits(Level::portable(), &[0xFF], 9, &mut out), 0);
        assert_eq!(out[3..], [0xEE; 5]);
    }
}
