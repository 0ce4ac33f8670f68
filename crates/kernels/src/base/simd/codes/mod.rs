//! Operations on packed codes: unpacking, and look-ups in tables of 16 entries held in registers.
//!
//! Every code of fewer than eight bits is within a window of two bytes. A byte shuffle moves the windows of a group
//! into words, and a shift per word moves the codes to the lowest bits; a packing is defined by the constants of the
//! shuffle and the shifts.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg_attr(target_arch = "aarch64", path = "neon.rs")]
#[cfg_attr(not(target_arch = "aarch64"), path = "elements.rs")]
mod tables;

use std::marker::PhantomData;

use crate::base::GROUP;
use crate::base::packing::Packing;

/// Entries of a table for codes of up to four bits.
pub const SMALL_TABLE: usize = 16;

/// The order in which the rounded words of sixteen values fill a group, eight at a time.
pub trait Arrangement {
    /// The half of the sixteen values (0 or 1) that fills each eight of a group.
    const EIGHTS: [usize; 4];
    /// Whether the values may be NaN with a payload.
    const HAS_NAN: bool;
}

/// All sixteen twice: a repeated table.
#[derive(Clone, Copy, Debug)]
pub struct Twice;

/// [`Twice`] for values whose NaNs are quiet and not all ones.
#[derive(Clone, Copy, Debug)]
pub struct ProductsTwice;

/// The lower eight twice and the upper eight twice, for values whose NaNs are quiet and not all ones.
#[derive(Clone, Copy, Debug)]
pub struct EachTwice;

impl Arrangement for Twice {
    const EIGHTS: [usize; 4] = [0, 1, 0, 1];
    const HAS_NAN: bool = true;
}

impl Arrangement for ProductsTwice {
    const EIGHTS: [usize; 4] = [0, 1, 0, 1];
    const HAS_NAN: bool = false;
}

impl Arrangement for EachTwice {
    const EIGHTS: [usize; 4] = [0, 0, 1, 1];
    const HAS_NAN: bool = false;
}

/// The words of sixteen values in the order of `A`.
#[inline(always)]
pub(crate) fn arrange<A: Arrangement, W: Copy + Default>(words: &[W; SMALL_TABLE]) -> [W; GROUP] {
    let mut arranged = [W::default(); GROUP];
    for (to, eight) in arranged.as_chunks_mut::<8>().0.iter_mut().zip(A::EIGHTS) {
        to.copy_from_slice(&words[8 * eight..][..8]);
    }
    arranged
}

/// A CPU level's operations on packed codes of two to seven bits, and on tables for those of up to four.
///
/// Tables repeat after `2^BITS` entries. Packed three-bit codes are passed as the first eight and the last eight of
/// their twelve bytes, codes of more than four bits as the first and the last sixteen bytes.
pub trait Codes: Copy {
    /// Whether codes are unpacked and looked up by shuffling bytes in registers, which beats arithmetic.
    const SHUFFLES: bool;
    /// Whether looking up values is faster than converting bytes.
    const NUMBERS: bool;

    /// Unsigned bytes as `f32`.
    fn unsigned(self, bytes: &[u8; GROUP]) -> [f32; GROUP];

    /// Signed bytes as `f32`.
    fn signed(self, bytes: &[u8; GROUP]) -> [f32; GROUP];

    /// Bit fields of words from bit `shift` on, below 32, as `f32`; `mask` has fewer than 31 bits.
    fn fields(self, words: &[[u8; 4]; GROUP], shift: u32, mask: u32) -> [f32; GROUP];

    /// `(bytes * factors) % 2^16 * 3 / 2^16`: digits of base three.
    fn digits(self, bytes: &[u8; GROUP], factors: &[u16; GROUP]) -> [u16; GROUP];

    /// The codes of a group.
    fn codes<P: Packing>(self, packed: &[u8; GROUP]) -> [u8; GROUP];

    /// Sixteen results of arithmetic rounded to BF16.
    fn bf16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP];

    /// Sixteen results of arithmetic rounded to half precision.
    fn f16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP];

    /// `table[code]` for a group of packed codes, 16-bit words.
    fn words<P: Packing>(self, table: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP];

    /// `table[code % 4]`, 16-bit words; the table repeats after four entries.
    fn words_of_few(self, table: &[u16; GROUP], codes: &[u16; GROUP]) -> [u16; GROUP];

    /// `table[code % 4]`, 32-bit words; the table repeats after four entries.
    fn values_of_few(self, table: &[u32; SMALL_TABLE], codes: &[u16; GROUP]) -> [u32; GROUP];

    /// `table[code]` for a group of packed codes, 32-bit words.
    fn values<P: Packing>(self, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP];

    /// [`words`](Self::words) of four-bit codes with a table for each half of the group.
    fn words_by_half<P: Packing>(self, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP];

    /// [`values`](Self::values) of four-bit codes with a table for each half of the group.
    fn values_by_half<P: Packing>(self, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP];
}

/// The constants of a packing.
struct Windows<P>(PhantomData<P>);

impl<P: Packing> Windows<P> {
    /// Whether each half of the codes has its own sixteen bytes.
    const IN_HALVES: bool = P::BITS > 4;

    /// The two bytes of the window of each code; 0x80, which shuffles to zero, past the end of the group.
    const BYTES: [[u8; 2]; GROUP] = {
        let mut bytes = [[0; 2]; GROUP];
        let mut i = 0;
        while i < GROUP {
            let first = P::POSITIONS[i] / 8;
            let last = first as usize + 1 == 4 * P::BITS;
            let first = match (P::BITS, i >= GROUP / 2) {
                // The last eight of twelve bytes are loaded at index 8, for the upper half of the codes.
                (3, true) => first + 4,
                (5.., true) => first + 16 - 4 * P::BITS as u8,
                _ => first,
            };
            bytes[i] = [first, if last { 0x80 } else { first + 1 }];
            i += 1;
        }
        bytes
    };

    /// [`BYTES`](Self::BYTES) for windows of four bytes, the upper two empty.
    #[cfg(target_arch = "x86_64")]
    const WIDE_BYTES: [[u8; 4]; GROUP] = {
        let mut bytes = [[0x80; 4]; GROUP];
        let mut i = 0;
        while i < GROUP {
            bytes[i] = [Self::BYTES[i][0], Self::BYTES[i][1], 0x80, 0x80];
            i += 1;
        }
        bytes
    };

    /// The bit of its window at which each code starts.
    const SHIFTS: [u16; GROUP] = {
        let mut shifts = [0; GROUP];
        let mut i = 0;
        while i < GROUP {
            shifts[i] = P::POSITIONS[i] as u16 % 8;
            i += 1;
        }
        shifts
    };

    /// [`SHIFTS`](Self::SHIFTS) for windows of four bytes.
    #[cfg(target_arch = "x86_64")]
    const WIDE_SHIFTS: [u32; GROUP] = {
        let mut shifts = [0; GROUP];
        let mut i = 0;
        while i < GROUP {
            shifts[i] = Self::SHIFTS[i] as u32;
            i += 1;
        }
        shifts
    };

    /// The factors that move each code to the top of its window: shifts by multiplication.
    #[cfg(target_arch = "x86_64")]
    const FACTORS: [u16; GROUP] = {
        let mut factors = [0; GROUP];
        let mut i = 0;
        while i < GROUP {
            factors[i] = 1 << (16 - P::BITS as u16 - Self::SHIFTS[i]);
            i += 1;
        }
        factors
    };
}
