//! The portable search, which counts limits: compilers vectorise that.

use super::{LimitTree, NEAR, NEGATIVE_ZERO, Nibbles, key, pack};
use crate::base::GROUP;
use crate::base::simd::Portable;

impl Nibbles for Portable {
    #[inline(always)]
    fn nibbles(self, tree: &LimitTree, numbers: &[f32; GROUP]) -> ([u8; GROUP / 2], bool) {
        let keys = map!(number in numbers => key(number));
        let (low, high) = (key(-NEAR), key(NEAR));
        let mut is_far = 0;
        for key in keys {
            is_far |= i32::from(key < low) | i32::from(key > high);
        }
        let mut codes = [i32::from(tree.codes[0]); GROUP];
        for (limit, pair) in tree.limits.iter().zip(tree.codes.windows(2)) {
            let growth = i32::from(pair[1]) - i32::from(pair[0]);
            for i in 0..GROUP {
                codes[i] += if keys[i] > *limit { growth } else { 0 };
            }
        }
        for i in 0..GROUP {
            codes[i] = if keys[i] == NEGATIVE_ZERO { i32::from(tree.negative_zero) } else { codes[i] };
        }
        (pack(&map!(code in codes => code as u8)), is_far == 0)
    }
}
