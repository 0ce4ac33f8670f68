//! Whole numbers under scales, as the schemes tell of them that pack the same codes: MLX, GPTQ, AWQ and
//! compressed-tensors.
//!
//! | | codes, in 32-bit words | scales | offsets |
//! |---|---|---|---|
//! | MLX | `[out, in]` | `[out, groups]` | biases, stored as the scales are |
//! | compressed-tensors | `[out, in]` | `[out, groups]` | none, or zero points packed down the outputs |
//! | GPTQ | `[in, out]` | `[groups, out]` | zero points packed along the outputs |
//! | AWQ | `[in, out]`, eight outputs in a word | `[groups, out]` | the same, in its own order |
//!
//! Codes are the same whole numbers everywhere. Whether they stand for the same values is another question:
//! [`Integers::agree`] answers it for a group.

use anamnesis_kernels::float::{bf16, f16};

use super::scale::ScaleType;

/// A matrix of whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Integers {
    pub bits: u8,
    /// Outputs.
    pub rows: u64,
    /// Inputs, whose codes fill whole words.
    pub cols: u64,
    /// Values of a row under one scale; divides the columns.
    pub group: u64,
    pub words: CodeOrder,
    pub scale: ScaleType,
    pub offsets: Zeros,
}

/// Which codes share a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CodeOrder {
    /// Inputs of an output, whose words follow each other: `[out, in]`.
    Rows,
    /// Inputs of an output, whose words stand below each other: `[in, out]`.
    Columns,
    /// Eight outputs of an input, in the order of AWQ: `[in, out]`.
    Awq,
}

/// How it is told which code is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Zeros {
    /// It is the same for all and stored nowhere.
    Constant(u8),
    /// By what is added to the product of code and scale, stored as the scales are.
    Biases,
    /// By I8 in the order of the scales, counted from the middle of the codes.
    Bytes,
    /// In 32-bit words, packed down the outputs: without gaps, or as many in a word as fit whole.
    Down { dense: bool },
    /// In 32-bit words, packed along the outputs without gaps, by eights in the order of AWQ where codes are. `less`
    /// where one is taken from all, with the borrows of a whole word, or of each code of three bits.
    Along { less: bool },
}

/// What an encoder makes, where it makes such a matrix.
pub(crate) struct MadeIntegers {
    pub integers: Integers,
    /// The zero point that loaders take for granted.
    pub zero: Option<u8>,
    /// Whether scales may be of any float type.
    pub any_scale: bool,
    /// The contents of the outputs behind codes, scales and offsets.
    pub constants: Vec<Vec<u8>>,
}

impl Integers {
    /// The matrix, where its codes fill whole words and its groups divide it.
    pub(crate) fn checked(self) -> Option<Self> {
        let Self { bits, rows, cols, group, offsets, .. } = self;
        let is_whole = |codes: u64| codes.checked_mul(bits.into()).is_some_and(|all| all.is_multiple_of(32));
        let is_packed = match offsets {
            Zeros::Along { .. } => is_whole(rows),
            Zeros::Constant(_) | Zeros::Biases | Zeros::Bytes | Zeros::Down { .. } => true,
        };
        let is_packed = is_packed && (self.words != CodeOrder::Awq || (bits == 4 && rows.is_multiple_of(8)));
        let is_float = matches!(self.scale, ScaleType::F32 | ScaleType::Bf16 | ScaleType::F16);
        let divides = group > 0 && rows > 0 && cols > 0 && cols.is_multiple_of(group);
        (matches!(bits, 1..=8) && is_float && divides && is_whole(cols) && is_packed).then_some(self)
    }

    /// Whether words and scales lie `[in, out]`. Offsets then come before the scales.
    pub(crate) fn is_transposed(&self) -> bool {
        self.words != CodeOrder::Rows
    }

    /// Words that the codes of an output fill.
    pub(in crate::scheme) const fn words_of_row(&self) -> u64 {
        self.cols * self.bits as u64 / 32
    }

    /// Scales of a row.
    pub(crate) const fn groups(&self) -> u64 {
        self.cols / self.group
    }

    /// The part that scales are; codes are the first.
    pub(crate) fn scales_part(&self) -> usize {
        if self.is_transposed() { 2 } else { 1 }
    }

    /// The part that offsets are, where they are stored.
    pub(crate) fn offsets_part(&self) -> Option<usize> {
        match self.offsets {
            Zeros::Constant(_) => None,
            _ if self.is_transposed() => Some(1),
            _ => Some(2),
        }
    }

    fn is_biased(&self) -> bool {
        self.offsets == Zeros::Biases
    }

    /// Whether the codes of one are those of the other, and every group of `to` lies in one of its own.
    pub(crate) fn has_codes_of(&self, to: &Self) -> bool {
        let same = (self.bits, self.rows, self.cols) == (to.bits, to.rows, to.cols);
        same && self.group.is_multiple_of(to.group) && to.offsets != Zeros::Down { dense: false }
    }

    /// Whether the libraries of both do the same operations in the same type.
    pub(crate) fn calculates_like(&self, to: &Self) -> bool {
        self.is_biased() == to.is_biased() && self.scale == to.scale
    }

    /// What a group with this scale and offset has for an offset in `to`, if all of its numbers are the same there: a
    /// zero point, or a bias where `to` has biases. `strictly` where they must also be the same as the libraries of
    /// both calculate them, in the types of their scales.
    pub(in crate::scheme) fn agree(&self, to: &Self, scale: f32, offset: f32, strictly: bool) -> Option<f32> {
        let is_held = |value: f32| to.held(value).to_bits() == value.to_bits();
        if (self.scale != to.scale || scale.is_nan()) && !is_held(scale) {
            return None;
        }
        if self.is_biased() && to.is_biased() {
            return (is_held(offset) && (!strictly || self.calculates_like(to))).then_some(offset);
        }
        let highest = f32::from(u8::MAX >> (8 - self.bits));
        let zero = match self.is_biased() {
            true if offset == 0.0 => 0.0,
            true => -offset / scale,
            false => offset,
        };
        let is_whole = f32::from(zero as u8).to_bits() == (zero + 0.0).to_bits();
        if !is_whole || zero > highest {
            return None;
        }
        if self.is_biased() == to.is_biased() {
            let are_same = !strictly || self.calculates_like(to) || self.is_same_in_libraries(to, scale, zero, 0.0);
            return are_same.then_some(zero);
        }
        // Products and sums are exact, so that the order of operations does not count. A negative scale makes a zero of
        // a product negative, and one of a sum not.
        let bias = 0.0 - zero * scale;
        let is_exact = significant_bits(scale) + u32::from(self.bits) <= f32::MANTISSA_DIGITS;
        let is_positive = scale > 0.0 || (scale.to_bits() == 0 && zero == 0.0);
        let is_bias = if self.is_biased() { offset == bias } else { is_held(bias) };
        let are_same = is_exact && is_positive && is_bias && (scale * highest).is_finite();
        let are_same = are_same && (!strictly || self.is_same_in_libraries(to, scale, zero, bias));
        are_same.then_some(if to.is_biased() { bias } else { zero })
    }

    /// Whether the libraries of both calculate the same numbers of all codes.
    fn is_same_in_libraries(&self, to: &Self, scale: f32, zero: f32, bias: f32) -> bool {
        let highest = u8::MAX >> (8 - self.bits);
        let of = |matrix: &Self, code: u8| match matrix.is_biased() {
            true => matrix.held(matrix.held(f32::from(code) * scale) + bias),
            false => matrix.held((f32::from(code) - zero) * scale),
        };
        (0..=highest).all(|code| of(self, code).to_bits() == of(to, code).to_bits())
    }

    /// The nearest number of the type of scales.
    fn held(&self, value: f32) -> f32 {
        match self.scale {
            ScaleType::Bf16 => bf16::decode(bf16::encode(value)),
            ScaleType::F16 => f16::decode(f16::encode(value)),
            _ => value,
        }
    }
}

/// Bits from the first one to the last.
fn significant_bits(value: f32) -> u32 {
    let bits = value.to_bits();
    let fraction = bits & 0x007F_FFFF;
    let all = if bits & 0x7F80_0000 == 0 { fraction } else { fraction | 0x0080_0000 };
    if all == 0 { 0 } else { u32::BITS - all.leading_zeros() - all.trailing_zeros() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(bits: u8, scale: ScaleType, offsets: Zeros) -> Integers {
        let words = if matches!(offsets, Zeros::Along { .. }) { CodeOrder::Columns } else { CodeOrder::Rows };
        Integers { bits, rows: 32, cols: 64, group: 32, words, scale, offsets }
    }

    const GPTQ: Zeros = Zeros::Along { less: true };

    #[test]
    fn a_bias_that_is_a_multiple_of_the_scale_is_a_zero_point() {
        let (mlx, gptq) = (matrix(4, ScaleType::F16, Zeros::Biases), matrix(4, ScaleType::F16, GPTQ));
        assert_eq!(mlx.agree(&gptq, 0.5, -4.0, true), Some(8.0));
        assert_eq!(gptq.agree(&mlx, 0.5, 8.0, true), Some(-4.0));
        assert_eq!(mlx.agree(&gptq, 0.5, 0.0, true), Some(0.0));
        for (scale, bias) in [(0.5, -4.25), (0.5, -8.0), (0.5, 0.5), (-0.5, 4.0), (0.0, -1.0), (f32::NAN, 0.0)] {
            assert_eq!(mlx.agree(&gptq, scale, bias, false), None, "{scale} {bias}");
        }
        assert_eq!(gptq.agree(&mlx, 0.0, 8.0, false), None, "negative zeros are not among the sums");
        let short = matrix(4, ScaleType::Bf16, Zeros::Biases);
        assert_eq!(gptq.agree(&short, 1.0 + 1.0 / 512.0, 8.0, false), None, "the scale is none of BF16");
    }

    #[test]
    fn what_half_precision_rounds_twice_is_not_strictly_the_same() {
        let (mlx, gptq) = (matrix(4, ScaleType::F16, Zeros::Biases), matrix(4, ScaleType::F16, GPTQ));
        let scale = 1.0 + 3.0 / 1024.0;
        assert_eq!(gptq.agree(&mlx, scale, 8.0, false), Some(-8.0 * scale));
        assert_eq!(gptq.agree(&mlx, scale, 8.0, true), None);
        // A zero point that is no power of two: its bias has more bits than F16.
        assert_eq!(gptq.agree(&mlx, scale, 7.0, false), None);
        assert_eq!(gptq.agree(&gptq, scale, 7.0, true), Some(7.0), "the same arithmetic");
    }

    /// Every scale of F16 and every zero point, by the arithmetic itself.
    #[test]
    fn agreeing_groups_have_the_same_numbers() {
        let (mlx, gptq) = (matrix(3, ScaleType::F16, Zeros::Biases), matrix(3, ScaleType::F16, GPTQ));
        let mut agreeing = [0, 0];
        for (bits, zero) in (0..=u16::MAX).flat_map(|bits| (0..8u8).map(move |zero| (bits, f32::from(zero)))) {
            let scale = f16::decode(bits);
            for (strictly, agreeing) in [false, true].into_iter().zip(&mut agreeing) {
                let Some(bias) = gptq.agree(&mlx, scale, zero, strictly) else { continue };
                *agreeing += 1;
                assert_eq!(mlx.agree(&gptq, scale, bias, strictly), Some(zero));
                for code in (0..8u8).map(f32::from) {
                    let (product, sum) = ((code - zero) * scale, code * scale + bias);
                    assert_eq!(product.to_bits(), sum.to_bits(), "{code} {zero} {scale}");
                    if strictly {
                        let sum = gptq.held(gptq.held(code * scale) + bias);
                        assert_eq!(gptq.held(product).to_bits(), sum.to_bits(), "{code} {zero} {scale}");
                    }
                }
            }
        }
        assert!(agreeing[0] > agreeing[1] && agreeing[1] > 1000, "{agreeing:?}");
    }

    #[test]
    fn bits_are_counted_from_the_first_to_the_last() {
        for (value, bits) in [(0.0, 0), (1.0, 1), (-0.75, 2), (f32::from_bits(5), 3), (1.0 + f32::EPSILON, 24)] {
            assert_eq!(significant_bits(value), bits, "{value}");
        }
    }
}
