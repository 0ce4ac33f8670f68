//! TQ1_0: 256 digits of base three with one scale; a value is `(digit − 1) × scale`.
//!
//! | offset | bytes | digits |
//! |---|---|---|
//! | 0 | 32 | 160: digit `n` of byte `i` is element `32 n + i` |
//! | 32 | 16 | 80: digit `n` of byte `i` is element `160 + 16 n + i` |
//! | 48 | 4 | 16: digit `n` of byte `i` is element `240 + 4 n + i` |
//! | 52 | 2 | scale, F16 |
//!
//! A byte is a fraction of 256: times three, its whole part is the first digit and its fraction the rest.

use super::GgmlBlock;
use super::fields::{bytes, double_word, half};
use super::memory::in_memory;
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type TQ1_0.
#[derive(Clone, Copy, Debug)]
pub struct Tq1_0;

/// What brings each digit of a byte to its front.
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

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
        let mut fractions = [0u8; GROUP];
        if group < 5 {
            fractions = bytes(block, 0);
            fractions = map!(byte in fractions => byte.wrapping_mul(POWERS[group]));
        } else {
            let middle: [u8; 16] = bytes(block, 32);
            let first = 2 * (group - 5);
            for i in 0..16 {
                fractions[i] = middle[i].wrapping_mul(POWERS[first]);
            }
            if group < 7 {
                for i in 0..16 {
                    fractions[i + 16] = middle[i].wrapping_mul(POWERS[first + 1]);
                }
            } else {
                let mut last = [0; 16];
                for (to, four) in last.as_chunks_mut::<4>().0.iter_mut().zip(in_memory([double_word(block, 48); 4])) {
                    *to = four.to_le_bytes();
                }
                for i in 0..16 {
                    fractions[i + 16] = last[i].wrapping_mul(POWERS[i / 4]);
                }
            }
        }
        if group == 7 {
            fractions = in_memory(fractions);
        }
        let integers = map!(fraction in fractions => (((u16::from(fraction) * 3) >> 8) as u8).wrapping_sub(1));
        map!(integer in simd.signed(&integers) => integer * scale)
    }
}
