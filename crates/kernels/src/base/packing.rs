//! How integer codes of a few bits lie in bytes.
//!
//! | packing | bits | code `i` of a group of 32 starts at bit |
//! |---|---|---|
//! | [`LowNibbles`] | 4 | `4 i`: the low half of a byte comes first |
//! | [`HighNibbles`] | 4 | `4 (i ^ 1)`: the high half of a byte comes first |
//! | [`AwqNibbles`] | 4 | `32 (i / 8) + 4 [0, 4, 1, 5, 2, 6, 3, 7][i % 8]`: words of eight codes |
//! | [`Bits2`] | 2 | `2 i` |
//! | [`Bits3`] | 3 | `3 i`, across bytes and words |
//! | [`Bytes`], [`SignedBytes`] | 8 | `8 i` |
//! | the others of [`Places::dense`] | 1, 5, 6, 7 | `bits i`, across bytes and words |
//!
//! Bits are counted from the lowest of the first byte. A group of 32 codes always fills whole bytes, and the next
//! group follows at once.
//!
//! A kernel is compiled once for all packings: what it knows of one are its [`Places`], which are loaded into registers
//! before the first group.

use crate::base::GROUP;

/// Bytes from which half of a group's codes are taken.
pub(crate) const HALF_BYTES: usize = 16;

/// A way to pack codes.
pub trait Packing: Copy + Send + Sync + 'static {
    /// The packing's name.
    const NAME: &'static str;
    /// Bits per code, one to eight.
    const BITS: usize;
    /// Whether codes are numbers in two's complement.
    const SIGNED: bool = false;
    /// The bytes that codes are scattered over; less than that holds no code.
    const UNIT: usize = 1;
    /// The lowest bit of each code of a group.
    const POSITIONS: [u8; GROUP];

    /// The same as a value.
    const PLACES: &'static Places = &Places::of::<Self>();
}

/// Where the codes of a [`Packing`] lie, as shuffles and shifts want to know it.
///
/// Every code of up to eight bits lies in a window of two bytes. The lower half of a group's codes is taken from sixteen
/// bytes, the upper half from sixteen others: the same, where all codes fit in.
#[derive(Debug)]
pub struct Places {
    /// The packing's name.
    pub name: &'static str,
    /// Bits per code.
    pub bits: usize,
    /// Whether codes, of eight bits then, are numbers in two's complement.
    pub is_signed: bool,
    /// The bytes that codes are scattered over; less than that holds no code.
    pub unit: usize,
    /// Where in a group the bytes of the upper half of its codes begin.
    pub(crate) upper: usize,
    /// The two bytes of each code's window, among the sixteen of its half; 0x80, which shuffles as zero, behind the last.
    pub(crate) bytes: [[u8; 2]; GROUP],
    /// `bytes` for windows of four bytes, the upper two empty.
    pub(crate) wide_bytes: [[u8; 4]; GROUP],
    /// Where in its window each code starts.
    pub(crate) shifts: [u16; GROUP],
    /// `shifts` for windows of four bytes.
    pub(crate) wide_shifts: [u32; GROUP],
    /// What brings each code to the top of its window: a shift where there are only multiplications.
    pub(crate) factors: [u16; GROUP],
}

impl Places {
    /// Those of a packing.
    const fn of<P: Packing>() -> Self {
        Self::new(P::NAME, P::BITS, P::SIGNED, P::UNIT, &P::POSITIONS)
    }

    const fn new(name: &'static str, bits: usize, is_signed: bool, unit: usize, positions: &[u8; GROUP]) -> Self {
        let (mut bytes, mut wide_bytes) = ([[0; 2]; GROUP], [[0x80; 4]; GROUP]);
        let (mut shifts, mut wide_shifts, mut factors) = ([0; GROUP], [0; GROUP], [0; GROUP]);
        let mut highest = 0;
        let mut i = 0;
        while i < GROUP {
            highest = if positions[i] > highest { positions[i] } else { highest };
            i += 1;
        }
        let upper = if highest as usize / 8 < HALF_BYTES { 0 } else { positions[GROUP / 2] as usize / 8 };
        i = 0;
        while i < GROUP {
            let first = positions[i] / 8 - if i < GROUP / 2 { 0 } else { upper as u8 };
            let second = if first as usize + 1 < HALF_BYTES { first + 1 } else { 0x80 };
            bytes[i] = [first, second];
            wide_bytes[i] = [first, second, 0x80, 0x80];
            shifts[i] = positions[i] as u16 % 8;
            wide_shifts[i] = positions[i] as u32 % 8;
            factors[i] = 1 << (16 - bits as u16 - shifts[i]);
            i += 1;
        }
        Self { name, bits, is_signed, unit, upper, bytes, wide_bytes, shifts, wide_shifts, factors }
    }

    /// Codes of so many bits that follow each other from the lowest on, without gaps.
    ///
    /// ```
    /// use anamnesis_kernels::Places;
    ///
    /// assert_eq!(Places::dense(5).map(|places| places.bits), Some(5));
    /// assert!(Places::dense(9).is_none());
    /// ```
    pub fn dense(bits: u8) -> Option<&'static Self> {
        const fn positions(bits: usize) -> [u8; GROUP] {
            super::packing::positions(bits, [0])
        }
        static BITS_1: Places = Places::new("1 bit", 1, false, 1, &positions(1));
        static BITS_5: Places = Places::new("5 bits", 5, false, 1, &positions(5));
        static BITS_6: Places = Places::new("6 bits", 6, false, 1, &positions(6));
        static BITS_7: Places = Places::new("7 bits", 7, false, 1, &positions(7));
        match bits {
            1 => Some(&BITS_1),
            2 => Some(Bits2::PLACES),
            3 => Some(Bits3::PLACES),
            4 => Some(LowNibbles::PLACES),
            5 => Some(&BITS_5),
            6 => Some(&BITS_6),
            7 => Some(&BITS_7),
            8 => Some(Bytes::PLACES),
            _ => None,
        }
    }

    /// How many codes are packed in so many bytes.
    #[inline(always)]
    pub fn codes_in(&self, bytes: usize) -> usize {
        let bytes = bytes - bytes % self.unit.max(1);
        let bits = self.bits.max(1);
        bytes / bits * 8 + bytes % bits * 8 / bits
    }
}

/// Packed codes as they are read group by group.
///
/// Of a group 32 bytes are read, wherever its codes end. The last groups, behind which there are not so many, are read from a
/// copy with zeros behind it.
pub(crate) struct Stream<'a> {
    bytes: &'a [u8],
    /// Bytes of a group, at most 32.
    step: usize,
    /// Groups before those that are read from the copy.
    near: usize,
    copy: [u8; 2 * GROUP],
}

impl<'a> Stream<'a> {
    #[inline(always)]
    pub(crate) fn new(places: &Places, bytes: &'a [u8]) -> Self {
        let step = 4 * places.bits.clamp(1, 8);
        let near = bytes.len().checked_sub(GROUP).map_or(0, |start| start / step + 1);
        let mut copy = [0; 2 * GROUP];
        for (to, from) in copy.iter_mut().zip(bytes.get(near * step..).unwrap_or_default()) {
            *to = *from;
        }
        Self { bytes, step, near, copy }
    }

    /// All bytes, for [`next`](Self::next).
    #[inline(always)]
    pub(crate) fn start(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next group, which is taken off the bytes; none where it must be read from the copy.
    #[inline(always)]
    pub(crate) fn next(&self, bytes: &mut &'a [u8]) -> Option<&'a [u8; GROUP]> {
        let group = bytes.first_chunk()?;
        *bytes = &bytes[self.step.min(GROUP)..];
        Some(group)
    }

    /// Any group.
    #[inline(always)]
    pub(crate) fn group(&self, group: usize) -> &[u8; GROUP] {
        let (bytes, group) = match group.checked_sub(self.near) {
            Some(group) => (&self.copy[..], group),
            None => (self.bytes, group),
        };
        bytes.get(group * self.step..).and_then(|bytes| bytes.first_chunk()).unwrap_or(&[0; GROUP])
    }
}

/// Four bits, the low half of a byte first.
#[derive(Clone, Copy, Debug)]
pub struct LowNibbles;

/// Four bits, the high half of a byte first.
#[derive(Clone, Copy, Debug)]
pub struct HighNibbles;

/// Four bits in little-endian words of eight codes, the even nibbles of which come from the lower half of the word.
#[derive(Clone, Copy, Debug)]
pub struct AwqNibbles;

/// Two bits, lowest first.
#[derive(Clone, Copy, Debug)]
pub struct Bits2;

/// Three bits, lowest first, without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Bits3;

/// A code per byte.
#[derive(Clone, Copy, Debug)]
pub struct Bytes;

/// A code per byte, in two's complement.
#[derive(Clone, Copy, Debug)]
pub struct SignedBytes;

/// The positions of codes in `nibbles` of `bits` each, in an order that repeats.
const fn positions<const N: usize>(bits: usize, order: [usize; N]) -> [u8; GROUP] {
    let mut positions = [0; GROUP];
    let mut i = 0;
    while i < GROUP {
        positions[i] = (bits * (i / N * N + order[i % N])) as u8;
        i += 1;
    }
    positions
}

impl Packing for LowNibbles {
    const NAME: &'static str = "low nibbles";
    const BITS: usize = 4;
    const POSITIONS: [u8; GROUP] = positions(4, [0]);
}

impl Packing for HighNibbles {
    const NAME: &'static str = "high nibbles";
    const BITS: usize = 4;
    const POSITIONS: [u8; GROUP] = positions(4, [1, 0]);
}

impl Packing for AwqNibbles {
    const NAME: &'static str = "awq nibbles";
    const BITS: usize = 4;
    const UNIT: usize = 4;
    const POSITIONS: [u8; GROUP] = positions(4, [0, 4, 1, 5, 2, 6, 3, 7]);
}

impl Packing for Bits2 {
    const NAME: &'static str = "2 bits";
    const BITS: usize = 2;
    const POSITIONS: [u8; GROUP] = positions(2, [0]);
}

impl Packing for Bits3 {
    const NAME: &'static str = "3 bits";
    const BITS: usize = 3;
    const POSITIONS: [u8; GROUP] = positions(3, [0]);
}

impl Packing for Bytes {
    const NAME: &'static str = "bytes";
    const BITS: usize = 8;
    const POSITIONS: [u8; GROUP] = positions(8, [0]);
}

impl Packing for SignedBytes {
    const NAME: &'static str = "signed bytes";
    const BITS: usize = 8;
    const SIGNED: bool = true;
    const POSITIONS: [u8; GROUP] = positions(8, [0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_hold_so_many_codes() {
        let codes = |places: &Places, bytes: &[usize]| bytes.iter().map(|&n| places.codes_in(n)).collect::<Vec<_>>();
        assert_eq!(codes(LowNibbles::PLACES, &[3]), [6]);
        assert_eq!(codes(AwqNibbles::PLACES, &[7]), [8]);
        assert_eq!(codes(Bits3::PLACES, &[1, 2, 3, 4]), [2, 5, 8, 10]);
        assert_eq!(codes(Bytes::PLACES, &[0, 5, usize::MAX]), [0, 5, usize::MAX - usize::MAX % 8 + 7]);
    }
}
