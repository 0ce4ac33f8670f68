//! Element types of stored tensors, one line of a table per type.

use std::fmt;

use super::{BlockType, TargetDtype};
use crate::error::{AnamnesisError, Result};

/// The types with their safetensors names and bits per element.
macro_rules! dtypes {
    ($($(#[$attribute:meta])* $variant:ident $name:literal $bits:literal $other:ident;)*) => {
        /// The element type of a stored tensor. `Display` and [`Dtype::from_name`] use the names of safetensors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names are the documentation")]
        pub enum Dtype {
            $($(#[$attribute])* $variant,)*
            /// Blocks of packed values, as in GGUF.
            Block(BlockType),
        }

        impl Dtype {
            /// All types except block types.
            const SCALARS: &[Self] = &[$(Self::$variant,)*];

            /// Elements and bits of the smallest unit.
            const fn piece(self) -> (u64, u64) {
                match self {
                    $(Self::$variant => (1, $bits),)*
                    Self::Block(block) => (block.block_elements(), block.block_bytes() * 8),
                }
            }

            /// The safetensors name, or that of the block type.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Block(block) => block.name(),
                }
            }

            /// The corresponding type of the `safetensors` crate, which lacks block types.
            #[cfg(feature = "compat")]
            pub(crate) const fn in_safetensors(self) -> Option<safetensors::Dtype> {
                match self {
                    $(Self::$variant => Some(safetensors::Dtype::$other),)*
                    Self::Block(_) => None,
                }
            }
        }
    };
}

dtypes! {
    F8E4M3 "F8_E4M3" 8 F8_E4M3;
    F8E5M2 "F8_E5M2" 8 F8_E5M2;
    BF16 "BF16" 16 BF16;
    F16 "F16" 16 F16;
    F32 "F32" 32 F32;
    F64 "F64" 64 F64;
    Bool "BOOL" 8 BOOL;
    U8 "U8" 8 U8;
    I8 "I8" 8 I8;
    U16 "U16" 16 U16;
    I16 "I16" 16 I16;
    U32 "U32" 32 U32;
    I32 "I32" 32 I32;
    U64 "U64" 64 U64;
    I64 "I64" 64 I64;
    /// E2M1, two elements per byte.
    F4 "F4" 4 F4;
    /// Six bits, four elements in three bytes.
    F6E2M3 "F6_E2M3" 6 F6_E2M3;
    /// Six bits, four elements in three bytes.
    F6E3M2 "F6_E3M2" 6 F6_E3M2;
    /// A power of two, used as a scale.
    F8E8M0 "F8_E8M0" 8 F8_E8M0;
    F8E4M3Fnuz "F8_E4M3FNUZ" 8 F8_E4M3FNUZ;
    F8E5M2Fnuz "F8_E5M2FNUZ" 8 F8_E5M2FNUZ;
    /// Two F32 parts.
    C64 "C64" 64 C64;
}

impl Dtype {
    /// Bytes per element; types smaller than a byte count as one byte, blocks as a whole. The exact size of a tensor
    /// is [`byte_len`](Self::byte_len).
    #[must_use]
    pub const fn byte_size(self) -> usize {
        self.piece().1.div_ceil(8) as usize
    }

    /// Whether the type is specific to compressed weights: F8, F6, F4 and blocks.
    #[must_use]
    pub const fn is_quantized(self) -> bool {
        matches!(
            self,
            Self::F8E4M3
                | Self::F8E5M2
                | Self::F8E4M3Fnuz
                | Self::F8E5M2Fnuz
                | Self::F4
                | Self::F6E2M3
                | Self::F6E3M2
                | Self::Block(_)
        )
    }

    /// Whether the elements are real floating-point numbers.
    #[must_use]
    pub const fn is_floating_point(self) -> bool {
        self.is_quantized() || matches!(self, Self::BF16 | Self::F16 | Self::F32 | Self::F64 | Self::F8E8M0)
    }

    /// Bytes of `elements` elements; `None` on overflow, or if they are not whole bytes or blocks.
    #[must_use]
    pub const fn byte_len(self, elements: u64) -> Option<u64> {
        let (piece, piece_bits) = self.piece();
        if !elements.is_multiple_of(piece) {
            return None;
        }
        match (elements / piece).checked_mul(piece_bits) {
            Some(bits) if bits % 8 == 0 => Some(bits / 8),
            _ => None,
        }
    }

    /// The type with this safetensors name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::SCALARS.iter().copied().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<BlockType> for Dtype {
    fn from(block: BlockType) -> Self {
        Self::Block(block)
    }
}

/// The types of safetensors in its own order, in which its writers sort tensors (largest first).
const SAFETENSORS_ORDER: [Dtype; 22] = {
    use Dtype as D;
    [
        D::Bool,
        D::F4,
        D::F6E2M3,
        D::F6E3M2,
        D::U8,
        D::I8,
        D::F8E5M2,
        D::F8E4M3,
        D::F8E8M0,
        D::F8E4M3Fnuz,
        D::F8E5M2Fnuz,
        D::I16,
        D::U16,
        D::F16,
        D::BF16,
        D::I32,
        D::U32,
        D::F32,
        D::C64,
        D::F64,
        D::I64,
        D::U64,
    ]
};

impl Dtype {
    /// The corresponding type of the `safetensors` crate.
    ///
    /// # Errors
    /// `Unsupported` for block types, which safetensors lacks.
    #[cfg(feature = "compat")]
    pub fn to_safetensors_dtype(self) -> Result<safetensors::Dtype> {
        self.in_safetensors().ok_or_else(|| no_type(self))
    }

    /// The position of the type in the order of safetensors.
    ///
    /// # Errors
    /// `Unsupported` for block types, which safetensors lacks.
    pub(crate) fn safetensors_rank(self) -> Result<usize> {
        SAFETENSORS_ORDER.iter().position(|dtype| *dtype == self).ok_or_else(|| no_type(self))
    }
}

fn no_type(blocks: impl std::fmt::Display) -> AnamnesisError {
    AnamnesisError::unsupported("safetensors", format!("blocks of {blocks} have no type there"))
}

impl From<TargetDtype> for Dtype {
    fn from(dtype: TargetDtype) -> Self {
        dtype.dtype()
    }
}

#[cfg(feature = "compat")]
impl TryFrom<safetensors::Dtype> for Dtype {
    type Error = AnamnesisError;

    fn try_from(other: safetensors::Dtype) -> Result<Self> {
        let same = |dtype: &Self| dtype.in_safetensors() == Some(other);
        Self::SCALARS
            .iter()
            .copied()
            .find(same)
            .ok_or_else(|| AnamnesisError::unsupported("safetensors", format!("dtype {other:?}")))
    }
}

/// The number of elements of a shape; `None` on overflow.
pub(crate) fn elements(shape: &[usize]) -> Option<u64> {
    shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_safetensors_is_that_of_its_crate() {
        let theirs = SAFETENSORS_ORDER.map(|dtype| dtype.to_safetensors_dtype().unwrap());
        assert!(theirs.is_sorted() && theirs.len() == Dtype::SCALARS.len());
        assert!(Dtype::SCALARS.iter().all(|dtype| SAFETENSORS_ORDER.contains(dtype)));
    }

    #[test]
    fn every_type_agrees_with_the_safetensors_crate() {
        for &dtype in Dtype::SCALARS {
            let other = dtype.to_safetensors_dtype().unwrap();
            assert_eq!(dtype.piece(), (1, other.bitsize() as u64), "{dtype}");
            assert_eq!(other.to_string(), dtype.to_string());
            assert_eq!(Dtype::try_from(other).unwrap(), dtype);
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
        }
    }

    #[test]
    fn blocks_must_be_whole() {
        let dtype = Dtype::Block(BlockType::Q4_K);
        assert_eq!(dtype.byte_len(512), Some(288));
        assert_eq!(dtype.byte_len(300), None);
        assert_eq!(dtype.byte_len(u64::MAX - 255), None);
    }

    #[test]
    fn sub_byte_types_must_fill_whole_bytes() {
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
