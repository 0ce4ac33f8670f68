//! Block types: values packed in blocks of fixed size with their scales, as in GGUF.

use std::fmt;

/// A block type, with ggml's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(non_camel_case_types, missing_docs, reason = "the names of the format are the documentation")]
pub enum BlockType {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    IQ2_XXS,
    IQ2_XS,
    IQ3_XXS,
    IQ1_S,
    IQ4_NL,
    IQ3_S,
    IQ2_S,
    IQ4_XS,
    IQ1_M,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
    Q1_0,
    Q2_0,
}

/// A type with its name, elements per block and bytes per block.
struct Geometry(BlockType, &'static str, u64, u64);

/// In the order of the enum, so that a discriminant is an index.
static TABLE: [Geometry; 27] = {
    use BlockType as B;
    [
        Geometry(B::Q4_0, "Q4_0", 32, 18),
        Geometry(B::Q4_1, "Q4_1", 32, 20),
        Geometry(B::Q5_0, "Q5_0", 32, 22),
        Geometry(B::Q5_1, "Q5_1", 32, 24),
        Geometry(B::Q8_0, "Q8_0", 32, 34),
        Geometry(B::Q8_1, "Q8_1", 32, 36),
        Geometry(B::Q2_K, "Q2_K", 256, 84),
        Geometry(B::Q3_K, "Q3_K", 256, 110),
        Geometry(B::Q4_K, "Q4_K", 256, 144),
        Geometry(B::Q5_K, "Q5_K", 256, 176),
        Geometry(B::Q6_K, "Q6_K", 256, 210),
        Geometry(B::Q8_K, "Q8_K", 256, 292),
        Geometry(B::IQ2_XXS, "IQ2_XXS", 256, 66),
        Geometry(B::IQ2_XS, "IQ2_XS", 256, 74),
        Geometry(B::IQ3_XXS, "IQ3_XXS", 256, 98),
        Geometry(B::IQ1_S, "IQ1_S", 256, 50),
        Geometry(B::IQ4_NL, "IQ4_NL", 32, 18),
        Geometry(B::IQ3_S, "IQ3_S", 256, 110),
        Geometry(B::IQ2_S, "IQ2_S", 256, 82),
        Geometry(B::IQ4_XS, "IQ4_XS", 256, 136),
        Geometry(B::IQ1_M, "IQ1_M", 256, 56),
        Geometry(B::TQ1_0, "TQ1_0", 256, 54),
        Geometry(B::TQ2_0, "TQ2_0", 256, 66),
        Geometry(B::MXFP4, "MXFP4", 32, 17),
        Geometry(B::NVFP4, "NVFP4", 64, 36),
        Geometry(B::Q1_0, "Q1_0", 128, 18),
        Geometry(B::Q2_0, "Q2_0", 64, 18),
    ]
};

impl BlockType {
    /// Maximum elements per block.
    pub(crate) const MAX_ELEMENTS: u64 = {
        let (mut longest, mut index) = (0, 0);
        while index < TABLE.len() {
            if TABLE[index].2 > longest {
                longest = TABLE[index].2;
            }
            index += 1;
        }
        longest
    };

    /// All block types.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Elements per block.
    #[must_use]
    pub const fn block_elements(self) -> u64 {
        TABLE[self as usize].2
    }

    /// Bytes per block.
    #[must_use]
    pub const fn block_bytes(self) -> u64 {
        TABLE[self as usize].3
    }
}

impl fmt::Display for BlockType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_discriminant_is_its_index() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index);
            assert_eq!(format!("{:?}", row.0), row.1);
        }
    }
}
