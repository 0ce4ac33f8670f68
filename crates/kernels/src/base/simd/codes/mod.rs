//! Packed codes into numbers, and through tables of 16 entries held in registers.
//!
//! Every code lies in a window of two bytes. A byte shuffle brings the windows of a group into words, a shift per word
//! brings the codes to the bottom, and a packing is nothing but the shuffle's and the shifts' constants: its [`Places`].

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::base::GROUP;
use crate::base::packing::Places;

/// Entries of a table for codes of up to four bits.
pub const SMALL_TABLE: usize = 16;

/// A CPU level's operations on packed codes.
///
/// The packed bytes of a group are those it begins with, as many as can be of any use. Tables are for codes of up to four
/// bits, and repeat after the last code.
pub trait Codes: Copy {
    /// Whether codes are unpacked and looked up by shuffling bytes in registers, which beats arithmetic.
    const SHUFFLES: bool;

    /// Bytes as numbers.
    fn unsigned(self, bytes: &[u8; GROUP]) -> [f32; GROUP];

    /// Bytes as numbers, in two's complement.
    fn signed(self, bytes: &[u8; GROUP]) -> [f32; GROUP];

    /// The codes of a group.
    fn codes(self, places: &Places, packed: &[u8; GROUP]) -> [u8; GROUP];

    /// The codes of a group as numbers.
    fn numbers(self, places: &Places, packed: &[u8; GROUP]) -> [f32; GROUP];

    /// [`numbers`](Self::numbers) in an order of the level's own, which [`join_bf16`](Self::join_bf16) ends: on its way to
    /// words of half the size, a group that was taken apart by even and odd places is put together without a shuffle.
    fn numbers_apart(self, places: &Places, packed: &[u8; GROUP]) -> [f32; GROUP];

    /// What was calculated of [numbers apart](Self::numbers_apart), in order and rounded to BF16 to nearest even. NaNs are
    /// quiet and not all ones.
    fn join_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP];

    /// `table[code]` for a group of packed codes, 16-bit words.
    fn words(self, places: &Places, table: &[u16; SMALL_TABLE], packed: &[u8; GROUP]) -> [u16; GROUP];

    /// `table[code]` for a group of packed codes, 32-bit words.
    fn values(self, places: &Places, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP];

    /// [`words`](Self::words) with a table for each half of the group.
    fn words_by_half(self, places: &Places, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP];

    /// [`values`](Self::values) with a table for each half of the group.
    fn values_by_half(self, places: &Places, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP];
}
