//! Encodes values as packed four-bit codes by a search among fifteen limits.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::base::GROUP;

/// Fifteen ascending limits, searched in four steps, and the codes between them.
///
/// Values are compared by their `key`. −0.0 has its own code.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LimitTree {
    limits: [i32; 15],
    codes: [u8; 16],
    negative_zero: u8,
    /// By an index that gains one bit per step: the 2, 4 and 8 limits of the next step.
    by_step: [[i32; 8]; 3],
    /// By an index that starts at 0 or 8 and grows by 4 and then by 2: the limit of the next step.
    by_index: [[i32; 16]; 3],
    /// By the last such index: the codes below and above the limit.
    ends: [[i32; 16]; 2],
}

/// The range that a [`LimitTree`] decides: `-NEAR` to `NEAR`.
pub(crate) const NEAR: f32 = 16.0;

/// The key of −0.0.
pub(crate) const NEGATIVE_ZERO: i32 = -1;

/// An integer that orders like the value, −0.0 before +0.0.
#[inline(always)]
pub(crate) fn key(value: f32) -> i32 {
    let bits = value.to_bits() as i32;
    bits ^ ((bits >> 31) & i32::MAX)
}

impl LimitTree {
    pub(crate) fn new(limits: [i32; 15], codes: [u8; 16], negative_zero: u8) -> Self {
        // The distance from the index to the middle limit of the remaining range after the first, second and third
        // step.
        let offsets = [3, 1, 0];
        let mut tree =
            Self { limits, codes, negative_zero, by_step: [[0; 8]; 3], by_index: [[0; 16]; 3], ends: [[0; 16]; 2] };
        for (step, offset) in offsets.into_iter().enumerate() {
            for index in (0..16).step_by(8 >> step) {
                tree.by_step[step][index >> (3 - step)] = limits[index + offset];
                tree.by_index[step][index] = limits[index + offset];
            }
        }
        for index in (0..16).step_by(2) {
            tree.ends[0][index] = i32::from(codes[index]);
            tree.ends[1][index] = i32::from(codes[index + 1]);
        }
        tree
    }

    /// The code of a value that is not NaN.
    pub(crate) fn code(&self, number: f32) -> u8 {
        let key = key(number);
        if key == NEGATIVE_ZERO {
            return self.negative_zero;
        }
        self.codes[self.limits.iter().filter(|&&limit| key > limit).count()]
    }

    /// The code above all limits.
    pub(crate) fn last(&self) -> u8 {
        self.codes[15]
    }
}

/// The search of a CPU level.
pub trait Nibbles {
    /// The codes of a group of values, two per byte, the first in the high nibble, and whether the tree decides all of
    /// them: none is NaN or beyond `NEAR`.
    fn nibbles(self, tree: &LimitTree, numbers: &[f32; GROUP]) -> ([u8; GROUP / 2], bool);
}

/// Two codes per byte, the first in the high nibble.
#[inline(always)]
pub(crate) fn pack(codes: &[u8; GROUP]) -> [u8; GROUP / 2] {
    let mut packed = [0; GROUP / 2];
    for (byte, pair) in packed.iter_mut().zip(codes.as_chunks::<2>().0) {
        *byte = pair[0] << 4 | pair[1];
    }
    packed
}
