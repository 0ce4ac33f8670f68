//! The fields of blocks: integers and F16 at an offset, nibbles, single bits.

use super::map::SplitNibbles;
use super::memory::in_memory;
use crate::base::GROUP;
use crate::base::float::canonical_nan;
use crate::base::float::f16;
use crate::base::packing::Packing;
use crate::base::simd::Simd;

/// The bytes from offset `at` on.
#[inline(always)]
pub(super) fn bytes<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&block[at..at + N]);
    bytes
}

/// The 16-bit word at offset `at`.
#[inline(always)]
pub(super) fn word(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes(block, at))
}

/// The 32-bit word at offset `at`.
#[inline(always)]
pub(super) fn double_word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes(block, at))
}

/// The bytes from offset `at` on, as indices.
#[inline(always)]
pub(super) fn indices<const N: usize>(block: &[u8], at: usize) -> [usize; N] {
    let mut indices = [0; N];
    for (index, byte) in indices.iter_mut().zip(&block[at..at + N]) {
        *index = usize::from(*byte);
    }
    indices
}

/// The F16 at offset `at`, NaN canonical.
#[inline(always)]
pub(super) fn half<S: Simd>(simd: S, block: &[u8], at: usize) -> f32 {
    if !S::HALF {
        return canonical_nan(f16::decode(word(block, at)));
    }
    // One instruction loads and converts eight F16; near the end of a block the last eight are loaded.
    let start = at.min(block.len() - 16);
    // Keeps the compiler from extracting the first group of the block from this register.
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

/// The value of an F16, NaN canonical.
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

/// The fields of sixteen bytes at the positions of a packing.
#[inline(always)]
pub(super) fn fields<S: Simd, P: Packing, const N: usize>(simd: S, block: &[u8], at: usize) -> [u8; N] {
    let mut packed = [0; GROUP];
    packed[..16].copy_from_slice(&block[at..at + 16]);
    let mut fields = [0; N];
    fields.copy_from_slice(&simd.codes::<P>(&packed)[..N]);
    fields
}

/// Fields of four bits in sixteen bytes, every `STEP` bits from bit `FIRST` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nibbles<const FIRST: usize, const STEP: usize>;

impl<const FIRST: usize, const STEP: usize> Packing for Nibbles<FIRST, STEP> {
    const NAME: &'static str = "strided nibbles";
    const BITS: usize = 4;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = strided(FIRST, STEP);
}

/// Fields of two bits in sixteen bytes, every `STEP` bits from bit `FIRST` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs<const FIRST: usize, const STEP: usize>;

impl<const FIRST: usize, const STEP: usize> Packing for Pairs<FIRST, STEP> {
    const NAME: &'static str = "strided bit pairs";
    const BITS: usize = 2;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = strided(FIRST, STEP);
}

/// Every `step`-th bit from `first` on, modulo the 128 bits of sixteen bytes.
const fn strided(first: usize, step: usize) -> [u8; GROUP] {
    let mut positions = [0; GROUP];
    let mut i = 0;
    while i < GROUP {
        positions[i] = ((first + step * i) % 128) as u8;
        i += 1;
    }
    positions
}

/// The low nibbles of sixteen bytes, then the high nibbles.
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

/// `set` or `clear` by each bit, lowest first.
#[inline(always)]
pub(super) fn choose(bits: u32, set: f32, clear: f32) -> [f32; GROUP] {
    let mut chosen = [0.0; GROUP];
    for (i, number) in chosen.iter_mut().enumerate() {
        *number = if bits & (1 << i) != 0 { set } else { clear };
    }
    chosen
}

/// Flips the sign of each value whose bit is set.
#[inline(always)]
pub(super) fn negate(values: [f32; GROUP], bits: u32) -> [f32; GROUP] {
    let mut negated = values;
    for (i, value) in negated.iter_mut().enumerate() {
        let sign = if bits & (1 << i) != 0 { 0x8000_0000 } else { 0 };
        *value = f32::from_bits(value.to_bits() ^ sign);
    }
    negated
}

/// The first half of a group times the first factor, the second half times the second.
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

/// The two scales of a group, which has one per half.
#[inline(always)]
pub(super) fn pair<const N: usize>(scales: &[f32; N], group: usize) -> [f32; 2] {
    [scales[2 * group], scales[2 * group + 1]]
}
