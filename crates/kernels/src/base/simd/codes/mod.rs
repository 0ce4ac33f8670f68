//! Packed codes into codes, and through tables of 16 entries held in registers.
//!
//! Every code of fewer than eight bits lies in a window of two bytes. A byte shuffle brings the windows of a group into
//! words, a shift per word brings the codes to the bottom, and the packing is nothing but the shuffle's and the shifts'
//! constants.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::marker::PhantomData;

use crate::base::GROUP;
use crate::base::packing::Packing;

/// Entries of a table for codes of up to four bits.
pub const SMALL_TABLE: usize = 16;

/// A CPU level's operations on packed codes of two to four bits.
///
/// Tables repeat after `2^BITS` entries. Of three-bit codes the packed bytes are the first eight and
/// the last eight of their twelve.
pub trait Codes: Copy {
    /// Whether codes are unpacked and looked up by shuffling bytes in registers, which beats arithmetic.
    const SHUFFLES: bool;

    /// Bytes as numbers.
    fn unsigned(self, bytes: &[u8; GROUP]) -> [f32; GROUP];

    /// Bytes as numbers, in two's complement.
    fn signed(self, bytes: &[u8; GROUP]) -> [f32; GROUP];

    /// The codes of a group.
    fn codes<P: Packing>(self, packed: &[u8; GROUP]) -> [u8; GROUP];

    /// `table[code]` for a group of packed codes, 16-bit words.
    fn words<P: Packing>(self, table: &[u16; SMALL_TABLE], packed: &[u8; GROUP]) -> [u16; GROUP];

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
    /// The two bytes of each code's window; 0x80, which shuffles as zero, past the group's end.
    const BYTES: [[u8; 2]; GROUP] = {
        let mut bytes = [[0; 2]; GROUP];
        let mut i = 0;
        while i < GROUP {
            let first = P::POSITIONS[i] / 8;
            let last = first as usize + 1 == 4 * P::BITS;
            // Of twelve bytes the last eight are loaded from the ninth place on, for the upper half of the codes.
            let shift = if P::BITS == 3 && i >= GROUP / 2 { 4 } else { 0 };
            bytes[i] = [first + shift, if last { 0x80 } else { first + shift + 1 }];
            i += 1;
        }
        bytes
    };

    /// [`BYTES`](Self::BYTES) for windows of four bytes, the upper two empty.
    const WIDE_BYTES: [[u8; 4]; GROUP] = {
        let mut bytes = [[0x80; 4]; GROUP];
        let mut i = 0;
        while i < GROUP {
            bytes[i] = [Self::BYTES[i][0], Self::BYTES[i][1], 0x80, 0x80];
            i += 1;
        }
        bytes
    };

    /// Where in its window each code starts.
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
    const WIDE_SHIFTS: [u32; GROUP] = {
        let mut shifts = [0; GROUP];
        let mut i = 0;
        while i < GROUP {
            shifts[i] = Self::SHIFTS[i] as u32;
            i += 1;
        }
        shifts
    };

    /// What brings each code to the top of its window: a shift where there are only multiplications.
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
