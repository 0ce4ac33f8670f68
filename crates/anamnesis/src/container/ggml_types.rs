//! Tensor types of ggml and their ids, which its file formats share.

use std::fmt;

use crate::catalog::{BlockType, Dtype};
use crate::error::{AnamnesisError, Result};

macro_rules! types {
    ($($variant:ident $id:literal $dtype:expr;)*) => {
        /// The type of a tensor; the discriminants are the ids in the file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        #[allow(non_camel_case_types, missing_docs, reason = "the names of the format are the documentation")]
        pub enum GgufType {
            $($variant = $id,)*
            /// An unsupported type: removed from ggml, added by a fork, or new. Its id is
            /// [`type_id`](crate::GgufTensorInfo::type_id).
            Unknown = u32::MAX,
        }

        impl GgufType {
            const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The supported type with this id.
            pub(crate) const fn from_id(id: u32) -> Option<Self> {
                match id {
                    $($id => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The corresponding dtype of the catalog.
            pub(crate) const fn dtype(self) -> Option<Dtype> {
                match self {
                    $(Self::$variant => Some($dtype),)*
                    Self::Unknown => None,
                }
            }
        }
    };
}

types! {
    F32 0 Dtype::F32;
    F16 1 Dtype::F16;
    Q4_0 2 Dtype::Block(BlockType::Q4_0);
    Q4_1 3 Dtype::Block(BlockType::Q4_1);
    Q5_0 6 Dtype::Block(BlockType::Q5_0);
    Q5_1 7 Dtype::Block(BlockType::Q5_1);
    Q8_0 8 Dtype::Block(BlockType::Q8_0);
    Q8_1 9 Dtype::Block(BlockType::Q8_1);
    Q2_K 10 Dtype::Block(BlockType::Q2_K);
    Q3_K 11 Dtype::Block(BlockType::Q3_K);
    Q4_K 12 Dtype::Block(BlockType::Q4_K);
    Q5_K 13 Dtype::Block(BlockType::Q5_K);
    Q6_K 14 Dtype::Block(BlockType::Q6_K);
    Q8_K 15 Dtype::Block(BlockType::Q8_K);
    IQ2_XXS 16 Dtype::Block(BlockType::IQ2_XXS);
    IQ2_XS 17 Dtype::Block(BlockType::IQ2_XS);
    IQ3_XXS 18 Dtype::Block(BlockType::IQ3_XXS);
    IQ1_S 19 Dtype::Block(BlockType::IQ1_S);
    IQ4_NL 20 Dtype::Block(BlockType::IQ4_NL);
    IQ3_S 21 Dtype::Block(BlockType::IQ3_S);
    IQ2_S 22 Dtype::Block(BlockType::IQ2_S);
    IQ4_XS 23 Dtype::Block(BlockType::IQ4_XS);
    I8 24 Dtype::I8;
    I16 25 Dtype::I16;
    I32 26 Dtype::I32;
    I64 27 Dtype::I64;
    F64 28 Dtype::F64;
    IQ1_M 29 Dtype::Block(BlockType::IQ1_M);
    BF16 30 Dtype::BF16;
    TQ1_0 34 Dtype::Block(BlockType::TQ1_0);
    TQ2_0 35 Dtype::Block(BlockType::TQ2_0);
    MXFP4 39 Dtype::Block(BlockType::MXFP4);
    NVFP4 40 Dtype::Block(BlockType::NVFP4);
    Q1_0 41 Dtype::Block(BlockType::Q1_0);
    Q2_0 42 Dtype::Block(BlockType::Q2_0);
}

impl GgufType {
    /// All supported types.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        Self::ALL.iter().copied()
    }

    /// Elements per block; 1 for types that are not packed.
    #[must_use]
    pub const fn block_size(self) -> usize {
        match self.dtype() {
            Some(Dtype::Block(block)) => block.block_elements() as usize,
            _ => 1,
        }
    }

    /// Bytes per block, or per element of plain types; `None` for an unknown type.
    #[must_use]
    pub const fn type_size(self) -> Option<usize> {
        match self.dtype() {
            Some(dtype) => Some(dtype.byte_size()),
            None => None,
        }
    }

    /// Whether the type is packed: anything but plain numbers.
    #[must_use]
    pub const fn is_quantized(self) -> bool {
        matches!(self.dtype(), Some(Dtype::Block(_)) | None)
    }

    /// The size of `elements` elements in bytes.
    ///
    /// # Errors
    /// `Parse` if they are not a whole number of blocks, `Unsupported` for an unknown type.
    pub fn byte_size_for_n_elements(self, elements: u64) -> Result<u64> {
        let unknown = || AnamnesisError::unsupported("GGUF", "a tensor of unknown type has no known size");
        let dtype = self.dtype().ok_or_else(unknown)?;
        dtype.byte_len(elements).ok_or_else(|| {
            let block = self.block_size();
            AnamnesisError::parse(format!("{elements} elements are not a whole number of {self} blocks of {block}"))
        })
    }

    /// The GGUF type of a dtype, if there is one.
    pub(crate) fn from_dtype(dtype: Dtype) -> Option<Self> {
        Self::all().find(|known| known.dtype() == Some(dtype))
    }

    const fn name(self) -> &'static str {
        match self.dtype() {
            Some(dtype) => dtype.name(),
            None => "unknown",
        }
    }
}

impl fmt::Display for GgufType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Types removed from ggml and types of a fork; refused by name.
const FOREIGN: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
    (133, "Q6_0"),
    (134, "IQ1_BN"),
    (135, "IQ2_BN"),
    (136, "Q8_K64"),
    (137, "IQ2_K"),
    (138, "IQ3_K"),
    (139, "IQ4_K"),
    (140, "IQ5_K"),
    (141, "IQ6_K"),
    (144, "IQ4_KS"),
    (145, "IQ2_KS"),
    (146, "IQ4_KSS"),
    (147, "Q8_K16"),
    (148, "Q8_K32"),
    (149, "Q8_KR8"),
    (150, "Q8_K128"),
    (151, "Q8_KV"),
    (202, "Q4_0_R8"),
    (206, "Q5_0_R4"),
    (208, "Q8_0_R8"),
    (210, "Q2_K_R4"),
    (211, "Q3_K_R4"),
    (212, "Q4_K_R4"),
    (213, "Q5_K_R4"),
    (214, "Q6_K_R4"),
    (216, "IQ2_XXS_R4"),
    (217, "IQ2_XS_R4"),
    (218, "IQ3_XXS_R4"),
    (219, "IQ1_S_R4"),
    (220, "IQ4_NL_R4"),
    (221, "IQ3_S_R4"),
    (222, "IQ2_S_R4"),
    (223, "IQ4_XS_R8"),
    (229, "IQ1_M_R4"),
    (230, "BF16_R16"),
    (233, "Q6_0_R4"),
    (335, "IQ2_BN_R4"),
    (337, "IQ2_K_R4"),
    (338, "IQ3_K_R4"),
    (339, "IQ4_K_R4"),
    (340, "IQ5_K_R4"),
    (344, "IQ4_KS_R4"),
    (398, "Q8_KV_R8"),
    (399, "Q8_K_R8"),
];

/// Describes an unsupported type by its id.
pub(crate) fn describe_unknown(id: u32) -> String {
    let name = FOREIGN.iter().find(|(known, _)| *known == id).map(|(_, name)| *name);
    let origin = match id {
        36 => "which ggml has removed, or I2_S of a fork",
        4 | 5 | 31..=33 | 37 | 38 => "which ggml has removed",
        97..=99 | 133..=158 | 202..=233 | 335..=399 => "which only the fork ik_llama.cpp has",
        _ => "which is unknown",
    };
    name.map_or_else(|| format!("type {id}, {origin}"), |name| format!("type {id} ({name}), {origin}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_discriminants_and_names_are_variants() {
        for kind in GgufType::all() {
            assert_eq!(GgufType::from_id(kind as u32), Some(kind));
            assert_eq!(kind.to_string(), format!("{kind:?}"));
            assert_eq!(GgufType::from_dtype(kind.dtype().unwrap()), Some(kind));
        }
        assert_eq!(GgufType::from_id(u32::MAX), None);
    }

    #[test]
    fn every_block_type_has_an_id() {
        for block in BlockType::all() {
            let kind = GgufType::from_dtype(Dtype::Block(block)).unwrap();
            assert_eq!(kind.to_string(), block.name());
            assert!(kind.is_quantized());
        }
        assert_eq!(GgufType::all().filter(|kind| !kind.is_quantized()).count(), 8);
    }

    #[test]
    fn unsupported_types_are_named() {
        assert_eq!(describe_unknown(31), "type 31 (Q4_0_4_4), which ggml has removed");
        assert_eq!(describe_unknown(146), "type 146 (IQ4_KSS), which only the fork ik_llama.cpp has");
        assert_eq!(describe_unknown(43), "type 43, which is unknown");
        assert!(FOREIGN.iter().all(|(id, _)| GgufType::from_id(*id).is_none()));
    }
}
