//! TQ1_0: 256 digits of base three with one scale; a value is `(digit − 1) × scale`.
//!
//! | offset | bytes | digits |
//! |---|---|---|
//! | 0 | 32 | 160: digit `n` of byte `i` is element `32 n + i` |
//! | 32 | 16 | 80: digit `n` of byte `i` is element `160 + 16 n + i` |
//! | 48 | 4 | 16: digit `n` of byte `i` is element `240 + 4 n + i` |
//! | 52 | 2 | scale, F16 |
//!
//! A byte is a fraction of 256: times three, its whole part is the first digit and its fraction the rest. There are three
//! values in a block, which are looked up.

use super::GgmlBlock;
use super::fields::{bytes, double_word, half};
use super::memory::in_memory;
use crate::base::GROUP;
use crate::base::output::{F32, Output};
use crate::base::packing::Packing;
use crate::base::simd::{SMALL_TABLE, Simd};

/// The type TQ1_0.
#[derive(Clone, Copy, Debug)]
pub struct Tq1_0;

/// Small codes that have a byte each.
#[derive(Clone, Copy, Debug)]
struct Digits;

impl Packing for Digits {
    const NAME: &'static str = "digits";
    const BITS: usize = 4;
    const UNIT: usize = GROUP;
    const POSITIONS: [u8; GROUP] = {
        let mut positions = [0; GROUP];
        let mut i = 0;
        while i < GROUP {
            positions[i] = 8 * i as u8;
            i += 1;
        }
        positions
    };
}

/// What brings each digit of a byte to its front.
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// What the digits stand for; there is no digit behind the third.
const MAP: [f32; SMALL_TABLE] = [-1.0, 0.0, 1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0, 1.0, 0.0];

/// The bytes of a group, and what brings the digit of each to its front.
#[inline(always)]
fn fractions(block: &[u8], group: usize) -> ([u8; GROUP], [u8; GROUP]) {
    if group < 5 {
        return (bytes(block, 0), [POWERS[group]; GROUP]);
    }
    let (mut fractions, mut powers) = ([0; GROUP], [0; GROUP]);
    let middle: [u8; 16] = bytes(block, 32);
    let first = 2 * (group - 5);
    fractions[..16].copy_from_slice(&middle);
    powers[..16].fill(POWERS[first]);
    if group < 7 {
        fractions[16..].copy_from_slice(&middle);
        powers[16..].fill(POWERS[first + 1]);
    } else {
        for (i, four) in fractions[16..].as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *four = double_word(block, 48).to_le_bytes();
            powers[16 + 4 * i..20 + 4 * i].fill(POWERS[i]);
        }
        fractions = in_memory(fractions);
    }
    (fractions, powers)
}

impl GgmlBlock for Tq1_0 {
    const NAME: &'static str = "TQ1_0";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 54;
    /// The values of the digits.
    type Scales = [f32; SMALL_TABLE];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; SMALL_TABLE] {
        let scale = half(simd, block, 52);
        in_memory(&MAP).map(|entry| entry * scale)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &[f32; SMALL_TABLE], group: usize) -> [f32; GROUP] {
        map!(word in Self::words::<S, F32>(simd, block, scales, group) => f32::from_bits(word))
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scales: &[f32; SMALL_TABLE], group: usize) -> [O::Word; GROUP] {
        let (fractions, powers) = fractions(block, group);
        let mut digits = [0; GROUP];
        for i in 0..GROUP {
            // In the upper half of a word a product wraps as it should, and the half above is the digit.
            let fraction = (u16::from(fractions[i]) << 8).wrapping_mul(powers[i].into());
            digits[i] = ((u32::from(fraction) * 3) >> 16) as u8;
        }
        let mut values = [0.0; GROUP];
        values[..SMALL_TABLE].copy_from_slice(scales);
        let mut table = [O::Word::default(); SMALL_TABLE];
        table.copy_from_slice(&O::round_products(simd, &values)[..SMALL_TABLE]);
        O::look_up_packed(simd, Digits::PLACES, &table, &digits)
    }
}
