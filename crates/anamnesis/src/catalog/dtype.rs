//! Element types of stored tensors, as data: one row of [`TABLE`] per type.

use std::fmt;

use crate::error::{AnamnesisError, Result};

/// The type of a stored tensor's elements. `Display` and [`Dtype::from_name`] use the spelling of safetensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Dtype {
    F8E4M3,
    F8E5M2,
    BF16,
    F16,
    F32,
    F64,
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    /// E2M1, two elements per byte.
    F4,
    /// Six bits, four elements in three bytes.
    F6E2M3,
    /// Six bits, four elements in three bytes.
    F6E3M2,
    /// A power of two, used as a scale.
    F8E8M0,
    F8E4M3Fnuz,
    F8E5M2Fnuz,
    /// Two F32 parts.
    C64,
}

/// One type: its name on disk, its size, and its counterpart in the `safetensors` crate.
struct Row {
    dtype: Dtype,
    name: &'static str,
    bits: u64,
    other: safetensors::Dtype,
}

const fn row(dtype: Dtype, name: &'static str, bits: u64, other: safetensors::Dtype) -> Row {
    Row { dtype, name, bits, other }
}

/// In the order of the enum above, so that a type is its own index.
const TABLE: &[Row; 22] = {
    use safetensors::Dtype as S;
    &[
        row(Dtype::F8E4M3, "F8_E4M3", 8, S::F8_E4M3),
        row(Dtype::F8E5M2, "F8_E5M2", 8, S::F8_E5M2),
        row(Dtype::BF16, "BF16", 16, S::BF16),
        row(Dtype::F16, "F16", 16, S::F16),
        row(Dtype::F32, "F32", 32, S::F32),
        row(Dtype::F64, "F64", 64, S::F64),
        row(Dtype::Bool, "BOOL", 8, S::BOOL),
        row(Dtype::U8, "U8", 8, S::U8),
        row(Dtype::I8, "I8", 8, S::I8),
        row(Dtype::U16, "U16", 16, S::U16),
        row(Dtype::I16, "I16", 16, S::I16),
        row(Dtype::U32, "U32", 32, S::U32),
        row(Dtype::I32, "I32", 32, S::I32),
        row(Dtype::U64, "U64", 64, S::U64),
        row(Dtype::I64, "I64", 64, S::I64),
        row(Dtype::F4, "F4", 4, S::F4),
        row(Dtype::F6E2M3, "F6_E2M3", 6, S::F6_E2M3),
        row(Dtype::F6E3M2, "F6_E3M2", 6, S::F6_E3M2),
        row(Dtype::F8E8M0, "F8_E8M0", 8, S::F8_E8M0),
        row(Dtype::F8E4M3Fnuz, "F8_E4M3FNUZ", 8, S::F8_E4M3FNUZ),
        row(Dtype::F8E5M2Fnuz, "F8_E5M2FNUZ", 8, S::F8_E5M2FNUZ),
        row(Dtype::C64, "C64", 64, S::C64),
    ]
};

impl Dtype {
    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Bytes of one element; types of less than a byte count as one (their exact size is [`byte_len`](Self::byte_len)).
    #[must_use]
    pub const fn byte_size(self) -> usize {
        self.row().bits.div_ceil(8) as usize
    }

    /// Whether this is a floating-point type made for compressed weights: F8, F6 and F4.
    #[must_use]
    pub const fn is_quantized(self) -> bool {
        matches!(
            self,
            Self::F8E4M3 | Self::F8E5M2 | Self::F8E4M3Fnuz | Self::F8E5M2Fnuz | Self::F4 | Self::F6E2M3 | Self::F6E3M2
        )
    }

    /// Whether the elements are real floating-point numbers.
    #[must_use]
    pub const fn is_floating_point(self) -> bool {
        self.is_quantized() || matches!(self, Self::BF16 | Self::F16 | Self::F32 | Self::F64 | Self::F8E8M0)
    }

    /// Bytes of `elements` elements; `None` where that overflows or does not fill whole bytes.
    #[must_use]
    pub const fn byte_len(self, elements: u64) -> Option<u64> {
        match elements.checked_mul(self.row().bits) {
            Some(bits) if bits % 8 == 0 => Some(bits / 8),
            _ => None,
        }
    }

    /// The type with this name in a safetensors header.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.dtype)
    }

    /// The same type in the `safetensors` crate.
    ///
    /// # Errors
    /// None today; every type has a counterpart there.
    pub fn to_safetensors_dtype(self) -> Result<safetensors::Dtype> {
        Ok(self.row().other)
    }

    /// The name in a safetensors header.
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl TryFrom<safetensors::Dtype> for Dtype {
    type Error = AnamnesisError;

    fn try_from(other: safetensors::Dtype) -> Result<Self> {
        TABLE
            .iter()
            .find(|row| row.other == other)
            .map(|row| row.dtype)
            .ok_or_else(|| AnamnesisError::unsupported("safetensors", format!("dtype {other:?}")))
    }
}

/// Elements of a tensor of this shape; `None` where the product overflows.
pub(crate) fn elements(shape: &[usize]) -> Option<u64> {
    shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_its_own_index_and_agrees_with_the_safetensors_crate() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.dtype as usize, index);
            assert_eq!(row.bits as usize, row.other.bitsize(), "{}", row.name);
            assert_eq!(row.other.to_string(), row.name);
            assert_eq!(Dtype::try_from(row.other).unwrap(), row.dtype);
            assert_eq!(Dtype::from_name(row.name), Some(row.dtype));
        }
    }

    #[test]
    fn types_of_less_than_a_byte_must_fill_whole_bytes() {
        assert_eq!(Dtype::F4.byte_len(6), Some(3));
        assert_eq!(Dtype::F4.byte_len(5), None);
        assert_eq!(Dtype::F6E2M3.byte_len(4), Some(3));
        assert_eq!(Dtype::F6E3M2.byte_len(2), None);
        assert_eq!(Dtype::F64.byte_len(u64::MAX / 32), None);
    }

    #[test]
    fn shapes_whose_product_overflows_have_no_element_count() {
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[3, 0, 5]), Some(0));
        assert_eq!(elements(&[usize::MAX, 2]), None);
        assert_eq!(elements(&[1 << 22, 1 << 22, 1 << 22]), None);
    }
}
