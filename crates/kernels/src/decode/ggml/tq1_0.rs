//! TQ1_0: 256 digits of base three with one scale; a value is `(digit − 1) × scale`.
//!
//! | offset | bytes | digits |
//! |---|---|---|
//! | 0 | 32 | 160: digit `n` of byte `i` is element `32 n + i` |
//! | 32 | 16 | 80: digit `n` of byte `i` is element `160 + 16 n + i` |
//! | 48 | 4 | 16: digit `n` of byte `i` is element `240 + 4 n + i` |
//! | 52 | 2 | scale, F16 |
//!
//! A byte is a fraction of 256: multiplied by three, its integer part is the first digit and its fraction the rest.
//!
//! Follows `dequantize_row_tq1_0` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, half};
use super::ternary::few_words;
use crate::base::GROUP;
use crate::base::output::{F32, Output};
use crate::base::simd::Simd;

/// The type TQ1_0.
#[derive(Clone, Copy, Debug)]
pub struct Tq1_0;

/// The factor that moves each digit of a byte to the front, in the upper half of a word so that the product wraps to the
/// fraction.
const POWERS: [u16; 5] = [1 << 8, 3 << 8, 9 << 8, 27 << 8, 81 << 8];

/// The powers of each group's digits.
static FACTORS: [[u16; GROUP]; 8] = {
    let mut factors = [[0; GROUP]; 8];
    let mut element = 0;
    while element < 256 {
        let digit = match element {
            0..160 => element / 32,
            160..240 => (element - 160) / 16,
            _ => (element - 240) / 4,
        };
        factors[element / GROUP][element % GROUP] = POWERS[digit];
        element += 1;
    }
    factors
};

/// The bytes of a group's digits.
#[inline(always)]
fn sources(block: &[u8], group: usize) -> [u8; GROUP] {
    if group < 5 {
        return bytes(block, 0);
    }
    let mut sources = [0; GROUP];
    sources[..16].copy_from_slice(&block[32..48]);
    if group < 7 {
        sources[16..].copy_from_slice(&block[32..48]);
    } else {
        for four in sources[16..].as_chunks_mut::<4>().0 {
            four.copy_from_slice(&block[48..52]);
        }
    }
    sources
}

impl GgmlBlock for Tq1_0 {
    const NAME: &'static str = "TQ1_0";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 54;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 52)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, group: usize) -> [f32; GROUP] {
        map!(word in Self::words::<S, F32>(simd, block, scale, group) => f32::from_bits(word))
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scale: &f32, group: usize) -> [O::Word; GROUP] {
        let codes = simd.digits(&sources(block, group), &FACTORS[group]);
        few_words::<S, O>(simd, *scale, &codes)
    }
}
