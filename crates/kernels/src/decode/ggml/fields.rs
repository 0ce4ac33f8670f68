//! The pieces that blocks are made of: numbers at a place, codes in halves of bytes, single bits.

use super::map::SplitNibbles;
use super::memory::in_memory;
use crate::base::GROUP;
use crate::base::float::canonical_nan;
use crate::base::float::f16;
use crate::base::packing::Packing;
use crate::base::simd::Simd;

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

/// The bytes from a place on, as indices.
#[inline(always)]
pub(super) fn indices<const N: usize>(block: &[u8], at: usize) -> [usize; N] {
    let mut indices = [0; N];
    for (index, byte) in indices.iter_mut().zip(&block[at..at + N]) {
        *index = usize::from(*byte);
    }
    indices
}

/// The F16 at a place, NaN in one form.
#[inline(always)]
pub(super) fn half<S: Simd>(simd: S, block: &[u8], at: usize) -> f32 {
    if !S::HALF {
        return canonical_nan(f16::decode(word(block, at)));
    }
    // One instruction loads and converts eight of them; at the end of a block these are the last eight.
    let start = at.min(block.len() - 16);
    // The compiler shall not take the block's first group from this register.
    let eight = in_memory(&block[start..start + 16].as_chunks::<16>().0[0]);
    let mut halves = [0; GROUP];
    for (half, bytes) in halves.iter_mut().zip(eight.as_chunks::<2>().0) {
        *half = u16::from_le_bytes(*bytes);
    }
    let values = simd.widen_f16(&halves);
    let mut eight = [0.0; 8];
    for (to, value) in eight.iter_mut().zip(values) {
        *to = canonical_nan(value);
    }
    in_memory(eight)[(at - start) / 2]
}

/// The value of an F16, NaN in one form.
#[inline(always)]
pub(super) fn widen<S: Simd>(simd: S, bits: u16) -> f32 {
    canonical_nan(if S::HALF { simd.widen_f16(&[bits; GROUP])[0] } else { f16::decode(bits) })
}

/// A scale times signed integers.
#[inline(always)]
pub(super) fn scaled<S: Simd, const N: usize>(simd: S, scale: f32, integers: [u8; N]) -> [f32; N] {
    let mut group = [0; GROUP];
    group[..N].copy_from_slice(&integers);
    let integers = simd.signed(&group);
    let mut products = [0.0; N];
    for (product, integer) in products.iter_mut().zip(integers) {
        *product = scale * integer;
    }
    in_memory(products)
}

/// Fields of a few bits, at the places in sixteen bytes that a packing names.
#[inline(always)]
pub(super) fn fields<S: Simd, P: Packing, const N: usize>(simd: S, block: &[u8], at: usize) -> [u8; N] {
    let mut packed = [0; GROUP];
    packed[..16].copy_from_slice(&block[at..at + 16]);
    let mut fields = [0; N];
    fields.copy_from_slice(&simd.codes::<P>(&packed)[..N]);
    fields
}

/// Fields of four bits, `STEP` bits apart, from a bit of sixteen bytes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nibbles<const FIRST: usize, const STEP: usize>;

impl<const FIRST: usize, const STEP: usize> Packing for Nibbles<FIRST, STEP> {
    const NAME: &'static str = "nibbles apart";
    const BITS: usize = 4;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = apart(FIRST, STEP);
}

/// Fields of two bits, `STEP` bits apart, from a bit of sixteen bytes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs<const FIRST: usize, const STEP: usize>;

impl<const FIRST: usize, const STEP: usize> Packing for Pairs<FIRST, STEP> {
    const NAME: &'static str = "pairs of bits apart";
    const BITS: usize = 2;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = apart(FIRST, STEP);
}

/// Positions so far apart, in circles through sixteen bytes.
const fn apart(first: usize, step: usize) -> [u8; GROUP] {
    let mut positions = [0; GROUP];
    let mut i = 0;
    while i < GROUP {
        positions[i] = ((first + step * i) % 128) as u8;
        i += 1;
    }
    positions
}

/// The low halves of sixteen bytes, then their high halves.
#[inline(always)]
pub(super) fn split_nibbles<S: Simd>(simd: S, packed: [u8; 16]) -> [u8; GROUP] {
    let mut codes = [0; GROUP];
    if S::SHUFFLES {
        codes[..16].copy_from_slice(&packed);
        return simd.codes::<SplitNibbles>(&codes);
    }
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
