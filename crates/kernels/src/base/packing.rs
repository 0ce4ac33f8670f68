//! How small integer codes are packed into bytes.
//!
//! | packing | bits | code `i` of a group of 32 starts at bit |
//! |---|---|---|
//! | [`LowNibbles`] | 4 | `4 i`: the low half of a byte comes first |
//! | [`HighNibbles`] | 4 | `4 (i ^ 1)`: the high half of a byte comes first |
//! | [`AwqNibbles`] | 4 | `32 (i / 8) + 4 [0, 4, 1, 5, 2, 6, 3, 7][i % 8]`: words of eight codes |
//! | [`Bits2`] | 2 | `2 i` |
//! | [`Bits3`] | 3 | `3 i`, across bytes and words |
//! | [`Bytes`], [`SignedBytes`] | 8 | `8 i` |
//!
//! Bits are counted from the lowest of the first byte. A group of 32 codes always fills whole bytes, and the next group
//! follows without padding.

use crate::base::GROUP;
use crate::base::simd::{SMALL_TABLE, Simd};

/// A way to pack codes.
pub trait Packing: Copy + Send + Sync + 'static {
    /// The packing's name.
    const NAME: &'static str;
    /// Bits per code: 2 to 8.
    const BITS: usize;
    /// Whether codes are in two's complement.
    const SIGNED: bool = false;
    /// Bytes per unit of packing; a partial unit holds no code.
    const UNIT: usize = 1;
    /// The lowest bit of each code of a group.
    const POSITIONS: [u8; GROUP];

    /// The number of codes in `bytes` bytes.
    #[inline(always)]
    fn codes_in(bytes: usize) -> usize {
        let bytes = bytes - bytes % Self::UNIT;
        bytes / Self::BITS * 8 + bytes % Self::BITS * 8 / Self::BITS
    }

    /// Unpacks a group of codes from `4 * BITS` bytes; missing bytes count as zero.
    #[inline(always)]
    fn unpack<S: Simd>(simd: S, packed: &[u8]) -> [u8; GROUP] {
        unpack::<S, Self>(simd, &load::<Self>(packed))
    }
}

/// Four bits, the low half of a byte first.
#[derive(Clone, Copy, Debug)]
pub struct LowNibbles;

/// Four bits, the high half of a byte first.
#[derive(Clone, Copy, Debug)]
pub struct HighNibbles;

/// Four bits in little-endian words of eight codes in the order of AWQ: 0, 2, 4, 6, 1, 3, 5, 7 from the lowest nibble.
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

/// The bit positions of codes of `bits` each, in an order that repeats every `N` codes.
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

/// Loads the bytes of one group, or of a partial one.
///
/// Twelve bytes are loaded as their first and last eight, more than sixteen as their first and last sixteen: each part
/// holds half of the codes.
#[inline(always)]
pub(crate) fn load<P: Packing>(bytes: &[u8]) -> [u8; GROUP] {
    let mut group = [0; GROUP];
    if let Some(bytes) = bytes.get(..4 * P::BITS) {
        if P::BITS == 3 {
            group[..8].copy_from_slice(&bytes[..8]);
            group[8..16].copy_from_slice(&bytes[4..]);
        } else if P::BITS > 4 && P::BITS < 8 {
            group[..16].copy_from_slice(&bytes[..16]);
            group[16..].copy_from_slice(&bytes[4 * P::BITS - 16..]);
        } else {
            group[..4 * P::BITS].copy_from_slice(bytes);
        }
    } else {
        group = crate::base::group::pad(bytes);
        if P::BITS == 3 {
            group.copy_within(4..12, 8);
        } else if P::BITS > 4 && P::BITS < 8 {
            group.copy_within(4 * P::BITS - 16..4 * P::BITS, 16);
        }
    }
    group
}

/// The codes of a loaded group.
#[inline(always)]
pub(crate) fn unpack<S: Simd, P: Packing>(simd: S, group: &[u8; GROUP]) -> [u8; GROUP] {
    if P::BITS == 8 { *group } else { simd.codes::<P>(group) }
}

/// The bits of 0.0 to 2^`bits` - 1 as `f32`, repeated.
const fn integer_table(bits: usize) -> [u32; SMALL_TABLE] {
    let mut numbers = [0; SMALL_TABLE];
    let mut code = 0;
    while code < SMALL_TABLE {
        numbers[code] = ((code % (1 << bits)) as f32).to_bits();
        code += 1;
    }
    numbers
}

/// The codes of a loaded group as `f32`.
#[inline(always)]
pub(crate) fn numbers<S: Simd, P: Packing>(simd: S, group: &[u8; GROUP]) -> [f32; GROUP] {
    if S::NUMBERS && P::BITS <= 4 {
        return map!(word in simd.values::<P>(&const { integer_table(P::BITS) }, group) => f32::from_bits(word));
    }
    let codes = unpack::<S, P>(simd, group);
    if P::SIGNED { simd.signed(&codes) } else { simd.unsigned(&codes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_codes_in_bytes() {
        assert_eq!((LowNibbles::codes_in(3), AwqNibbles::codes_in(7), Bits2::codes_in(3)), (6, 8, 12));
        assert_eq!((Bits3::codes_in(1), Bits3::codes_in(2), Bits3::codes_in(3), Bits3::codes_in(4)), (2, 5, 8, 10));
        assert_eq!((Bytes::codes_in(0), Bytes::codes_in(5)), (0, 5));
        assert_eq!(Bytes::codes_in(usize::MAX), usize::MAX - usize::MAX % 8 + 7);
    }
}
