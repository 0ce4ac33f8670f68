//! Integer codes with scales, in a form common to the schemes that pack the same codes: MLX, GPTQ, AWQ and
//! compressed-tensors.
//!
//! | | codes, in 32-bit words | scales | offsets |
//! |---|---|---|---|
//! | MLX | `[out, in]` | `[out, groups]` | biases, stored like the scales |
//! | compressed-tensors | `[out, in]` | `[out, groups]` | none, or zero points packed down the outputs |
//! | GPTQ | `[in, out]` | `[groups, out]` | zero points packed along the outputs |
//! | AWQ | `[in, out]`, eight outputs in a word | `[groups, out]` | the same, in its own order |
//!
//! Codes are the same integers in all of them. Whether they also decode to the same values is decided for each group by
//! [`Integers::offset_in`].

use anamnesis_kernels::float::{bf16, f16};

use super::scale::ScaleType;

/// A matrix of integer codes, and how it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Integers {
    pub bits: u8,
    /// Output features.
    pub rows: u64,
    /// Input features, whose codes fill whole words.
    pub cols: u64,
    /// Values of a row that share a scale; divides the columns.
    pub group: u64,
    pub words: CodeOrder,
    pub scale: ScaleType,
    pub offsets: OffsetLayout,
}

/// Which codes share a word, and the order of the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CodeOrder {
    /// Inputs of one output; row-major words `[out, in]`.
    Rows,
    /// Inputs of one output; words transposed to `[in, out]`.
    Columns,
    /// Eight outputs of one input in AWQ's order; words `[in, out]`.
    Awq,
}

/// How the offsets of groups (zero points or biases) are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OffsetLayout {
    /// The same zero point for all groups, which is not stored.
    Constant(u8),
    /// Biases, which are added to the product of code and scale; stored like the scales.
    Biases,
    /// I8 zero points in the order of the scales, relative to the middle code.
    Bytes,
    /// Zero points in 32-bit words, packed down the outputs: without gaps if `dense`, otherwise only whole codes in a
    /// word.
    Down { dense: bool },
    /// Zero points in 32-bit words, packed along the outputs without gaps; in AWQ's order if the codes are. If
    /// `minus_one`, they are stored less one: one is subtracted from every field of a word with borrows between fields,
    /// or for three bits from each code by itself.
    Along { minus_one: bool },
}

/// The matrix of integer codes that an encoder produces.
pub(crate) struct EncodedIntegers {
    pub integers: Integers,
    /// The zero point of all groups, if loaders assume it without reading it.
    pub zero: Option<u8>,
    /// Whether the scales may have any float type.
    pub any_scale: bool,
    /// The contents of the outputs after codes, scales and offsets.
    pub constants: Vec<Vec<u8>>,
}

impl Integers {
    /// The matrix itself if its codes fill whole words and its groups divide the columns; otherwise `None`.
    pub(crate) fn checked(self) -> Option<Self> {
        let Self { bits, rows, cols, group, offsets, .. } = self;
        let is_whole = |codes: u64| codes.checked_mul(bits.into()).is_some_and(|all| all.is_multiple_of(32));
        let is_packed = match offsets {
            OffsetLayout::Along { .. } => is_whole(rows),
            OffsetLayout::Constant(_) | OffsetLayout::Biases | OffsetLayout::Bytes | OffsetLayout::Down { .. } => true,
        };
        let is_packed = is_packed && (self.words != CodeOrder::Awq || (bits == 4 && rows.is_multiple_of(8)));
        let is_float = matches!(self.scale, ScaleType::F32 | ScaleType::Bf16 | ScaleType::F16);
        let divides = group > 0 && rows > 0 && cols > 0 && cols.is_multiple_of(group);
        (matches!(bits, 1..=8) && is_float && divides && is_whole(cols) && is_packed).then_some(self)
    }

    /// Whether words and scales are stored as `[in, out]`. Then the offsets precede the scales.
    pub(crate) fn is_transposed(&self) -> bool {
        self.words != CodeOrder::Rows
    }

    /// The words of one output's codes.
    pub(in crate::scheme) const fn words_of_row(&self) -> u64 {
        self.cols * self.bits as u64 / 32
    }

    /// The scales per row.
    pub(crate) const fn groups(&self) -> u64 {
        self.cols / self.group
    }

    /// The part index of the scales; the codes are part 0.
    pub(crate) fn scales_part(&self) -> usize {
        if self.is_transposed() { 2 } else { 1 }
    }

    /// The part index of the offsets, if they are stored.
    pub(crate) fn offsets_part(&self) -> Option<usize> {
        match self.offsets {
            OffsetLayout::Constant(_) => None,
            _ if self.is_transposed() => Some(1),
            _ => Some(2),
        }
    }

    fn is_biased(&self) -> bool {
        self.offsets == OffsetLayout::Biases
    }

    /// Whether `to` can store the same codes: every group of `to` must be inside one group of this matrix.
    pub(crate) fn has_codes_of(&self, to: &Self) -> bool {
        let same = (self.bits, self.rows, self.cols) == (to.bits, to.rows, to.cols);
        same && self.group.is_multiple_of(to.group) && to.offsets != OffsetLayout::Down { dense: false }
    }

    /// Whether the libraries of both formats use the same operations in the same type.
    pub(crate) fn calculates_like(&self, to: &Self) -> bool {
        self.is_biased() == to.is_biased() && self.scale == to.scale
    }

    /// The offset that a group with this scale and offset has in `to` (a zero point, or a bias if `to` has biases);
    /// `None` if any code would decode to another value there. If `strictly`, the libraries of both formats, which
    /// calculate in the types of their scales, must also decode every code to the same value.
    pub(in crate::scheme) fn offset_in(&self, to: &Self, scale: f32, offset: f32, strictly: bool) -> Option<f32> {
        let is_representable = |value: f32| to.rounded(value).to_bits() == value.to_bits();
        if (self.scale != to.scale || scale.is_nan()) && !is_representable(scale) {
            return None;
        }
        if self.is_biased() && to.is_biased() {
            return (is_representable(offset) && (!strictly || self.calculates_like(to))).then_some(offset);
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
        // If products and sums are exact, the order of operations does not matter. With a negative scale a product may
        // be −0 where the sum is +0.
        let bias = 0.0 - zero * scale;
        let is_exact = significant_bits(scale) + u32::from(self.bits) <= f32::MANTISSA_DIGITS;
        let is_positive = scale > 0.0 || (scale.to_bits() == 0 && zero == 0.0);
        let is_bias = if self.is_biased() { offset == bias } else { is_representable(bias) };
        let are_same = is_exact && is_positive && is_bias && (scale * highest).is_finite();
        let are_same = are_same && (!strictly || self.is_same_in_libraries(to, scale, zero, bias));
        are_same.then_some(if to.is_biased() { bias } else { zero })
    }

    /// Whether the libraries of both formats decode every code to the same value.
    fn is_same_in_libraries(&self, to: &Self, scale: f32, zero: f32, bias: f32) -> bool {
        let highest = u8::MAX >> (8 - self.bits);
        let of = |matrix: &Self, code: u8| match matrix.is_biased() {
            true => matrix.rounded(matrix.rounded(f32::from(code) * scale) + bias),
            false => matrix.rounded((f32::from(code) - zero) * scale),
        };
        (0..=highest).all(|code| of(self, code).to_bits() == of(to, code).to_bits())
    }

    /// Rounds a value to the type of the scales.
    fn rounded(&self, value: f32) -> f32 {
        match self.scale {
            ScaleType::Bf16 => bf16::decode(bf16::encode(value)),
            ScaleType::F16 => f16::decode(f16::encode(value)),
            _ => value,
        }
    }
}

/// The number of bits from the first set bit to the last.
fn significant_bits(value: f32) -> u32 {
    let bits = value.to_bits();
    let fraction = bits & 0x007F_FFFF;
    let all = if bits & 0x7F80_0000 == 0 { fraction } else { fraction | 0x0080_0000 };
    if all == 0 { 0 } else { u32::BITS - all.leading_zeros() - all.trailing_zeros() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(bits: u8, scale: ScaleType, offsets: OffsetLayout) -> Integers {
        let words = if matches!(offsets, OffsetLayout::Along { .. }) { CodeOrder::Columns } else { CodeOrder::Rows };
        Integers { bits, rows: 32, cols: 64, group: 32, words, scale, offsets }
    }

    const GPTQ: OffsetLayout = OffsetLayout::Along { minus_one: true };

    #[test]
    fn a_bias_that_is_a_multiple_of_the_scale_is_a_zero_point() {
        let (mlx, gptq) = (matrix(4, ScaleType::F16, OffsetLayout::Biases), matrix(4, ScaleType::F16, GPTQ));
        assert_eq!(mlx.offset_in(&gptq, 0.5, -4.0, true), Some(8.0));
        assert_eq!(gptq.offset_in(&mlx, 0.5, 8.0, true), Some(-4.0));
        assert_eq!(mlx.offset_in(&gptq, 0.5, 0.0, true), Some(0.0));
        for (scale, bias) in [(0.5, -4.25), (0.5, -8.0), (0.5, 0.5), (-0.5, 4.0), (0.0, -1.0), (f32::NAN, 0.0)] {
            assert_eq!(mlx.offset_in(&gptq, scale, bias, false), None, "{scale} {bias}");
        }
        assert_eq!(gptq.offset_in(&mlx, 0.0, 8.0, false), None, "negative zeros are not among the sums");
        let short = matrix(4, ScaleType::Bf16, OffsetLayout::Biases);
        assert_eq!(gptq.offset_in(&short, 1.0 + 1.0 / 512.0, 8.0, false), None, "the scale is none of BF16");
    }

    #[test]
    fn values_that_half_precision_rounds_twice_do_not_strictly_agree() {
        let (mlx, gptq) = (matrix(4, ScaleType::F16, OffsetLayout::Biases), matrix(4, ScaleType::F16, GPTQ));
        let scale = 1.0 + 3.0 / 1024.0;
        assert_eq!(gptq.offset_in(&mlx, scale, 8.0, false), Some(-8.0 * scale));
        assert_eq!(gptq.offset_in(&mlx, scale, 8.0, true), None);
        // The zero point is not a power of two, so its bias has more bits than F16.
        assert_eq!(gptq.offset_in(&mlx, scale, 7.0, false), None);
        assert_eq!(gptq.offset_in(&gptq, scale, 7.0, true), Some(7.0), "the same arithmetic");
    }

    /// Every F16 scale with every zero point, computed by the definition.
    #[test]
    fn agreeing_groups_decode_to_the_same_values() {
        let (mlx, gptq) = (matrix(3, ScaleType::F16, OffsetLayout::Biases), matrix(3, ScaleType::F16, GPTQ));
        let mut agreeing = [0, 0];
        for (bits, zero) in (0..=u16::MAX).flat_map(|bits| (0..8u8).map(move |zero| (bits, f32::from(zero)))) {
            let scale = f16::decode(bits);
            for (strictly, agreeing) in [false, true].into_iter().zip(&mut agreeing) {
                let Some(bias) = gptq.offset_in(&mlx, scale, zero, strictly) else { continue };
                *agreeing += 1;
                assert_eq!(mlx.offset_in(&gptq, scale, bias, strictly), Some(zero));
                for code in (0..8u8).map(f32::from) {
                    let (product, sum) = ((code - zero) * scale, code * scale + bias);
                    assert_eq!(product.to_bits(), sum.to_bits(), "{code} {zero} {scale}");
                    if strictly {
                        let sum = gptq.rounded(gptq.rounded(code * scale) + bias);
                        assert_eq!(gptq.rounded(product).to_bits(), sum.to_bits(), "{code} {zero} {scale}");
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
