//! The pieces that blocks are made of: numbers at a place, codes in halves of bytes, single bits.

use crate::GROUP;
use crate::float::f16;
use crate::scaled::tame;
use crate::simd::Simd;

/// The bytes from a place on.
#[inline(always)]
pub(super) fn bytes<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&block[at..at + N]);
    bytes
}

/// The 16-bit word at a place.
#[inline(always)]
pub(super) fn word(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes(block, at))
}

/// The 32-bit word at a place.
#[inline(always)]
pub(super) fn double_word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes(block, at))
}

/// The F16 at a place, NaN in one form.
#[inline(always)]
pub(super) fn half<S: Simd>(simd: S, block: &[u8], at: usize) -> f32 {
    if !S::HALF {
        return tame(f16::decode(word(block, at)));
    }
    // One instruction loads and converts eight of them; at the end of a block these are the last eight.
    let start = at.min(block.len() - 16);
    let eight: [u8; 16] = bytes(block, start);
    let mut halves = [0; GROUP];
    for (half, bytes) in halves.iter_mut().zip(eight.as_chunks::<2>().0) {
        *half = u16::from_le_bytes(*bytes);
    }
    tame(simd.widen_f16(&halves)[(at - start) / 2])
}

/// The value of an F16, NaN in one form.
#[inline(always)]
pub(super) fn widen<S: Simd>(simd: S, bits: u16) -> f32 {
    tame(if S::HALF { simd.widen_f16(&[bits; GROUP])[0] } else { f16::decode(bits) })
}

/// The numbers of up to a group's worth of bytes.
#[inline(always)]
pub(super) fn numbers<S: Simd, const N: usize>(simd: S, codes: [u8; N]) -> [f32; N] {
    let mut group = [0; GROUP];
    group[..N].copy_from_slice(&codes);
    let mut numbers = [0.0; N];
    numbers.copy_from_slice(&simd.unsigned(&group)[..N]);
    numbers
}

/// The low and high halves of bytes, in turn.
#[inline(always)]
pub(super) fn nibbles<const N: usize>(packed: &[u8]) -> [u8; N] {
    let mut codes = [0; N];
    for (pair, byte) in codes.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
        *pair = [byte & 0x0F, byte >> 4];
    }
    codes
}

/// The low halves of sixteen bytes, then their high halves.
#[inline(always)]
pub(super) fn split_nibbles(packed: [u8; 16]) -> [u8; GROUP] {
    let mut codes = [0; GROUP];
    for i in 0..16 {
        codes[i] = packed[i] & 0x0F;
        codes[i + 16] = packed[i] >> 4;
    }
    codes
}

/// One number where a bit is set, another where it is not, bit by bit from the lowest.
#[inline(always)]
pub(super) fn choose(bits: u32, set: f32, clear: f32) -> [f32; GROUP] {
    let mut chosen = [0.0; GROUP];
    for (i, number) in chosen.iter_mut().enumerate() {
        *number = if bits & (1 << i) != 0 { set } else { clear };
    }
    chosen
}

/// Values with their signs flipped where a bit is set.
#[inline(always)]
pub(super) fn negate(values: [f32; GROUP], bits: u32) -> [f32; GROUP] {
    let mut negated = values;
    for (i, value) in negated.iter_mut().enumerate() {
        let sign = if bits & (1 << i) != 0 { 0x8000_0000 } else { 0 };
        *value = f32::from_bits(value.to_bits() ^ sign);
    }
    negated
}

/// One factor for the first half of a group, another for the second.
#[inline(always)]
pub(super) fn in_halves(values: [f32; GROUP], [first, second]: [f32; 2]) -> [f32; GROUP] {
    let mut products = values;
    for value in &mut products[..GROUP / 2] {
        *value *= first;
    }
    for value in &mut products[GROUP / 2..] {
        *value *= second;
    }
    products
}

/// Two scales of the many of a block, from an even place on.
#[inline(always)]
pub(super) fn pair<const N: usize>(scales: &[f32; N], group: usize) -> [f32; 2] {
    [scales[2 * group], scales[2 * group + 1]]
}
