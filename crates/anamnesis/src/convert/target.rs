//! What a conversion can write: a container, and for some targets an encoder. One line of the table per target.

use std::fmt;

use crate::container::{self, Container, Format};
use crate::error::{AnamnesisError, Result};
use crate::scheme::bnb::BnbKind;

/// What a conversion writes.
///
/// ```
/// use anamnesis::ConvertTarget;
/// assert_eq!(ConvertTarget::parse("NF4")?, ConvertTarget::BnbNf4);
/// assert_eq!((ConvertTarget::Gguf.extension(), ConvertTarget::Safetensors.suffix()), ("gguf", "bf16"));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConvertTarget {
    /// safetensors, everything decoded.
    Safetensors,
    /// GGUF; blocks stay as they are, everything else is decoded.
    Gguf,
    /// A NumPy archive, everything decoded.
    Npz,
    /// safetensors with BitsAndBytes NF4 weights.
    BnbNf4,
    /// safetensors with BitsAndBytes FP4 weights.
    BnbFp4,
    /// safetensors with BitsAndBytes INT8 weights.
    BnbInt8,
}

/// One target: the names it is asked for by (the first is its own), its file format, what its files are called, and how its
/// weights are encoded.
struct Row(ConvertTarget, &'static [&'static str], Format, &'static str, Option<Encoding>);

/// How weights are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Bnb(BnbKind),
}

/// In the order of the enum, so that a target is its own index.
const ALL: [Row; 6] = {
    use ConvertTarget as T;
    use Encoding::Bnb;
    [
        Row(T::Safetensors, &["safetensors", "bf16"], Format::Safetensors, "bf16", None),
        Row(T::Gguf, &["gguf"], Format::Gguf, "gguf", None),
        Row(T::Npz, &["npz"], Format::Npz, "npz", None),
        Row(T::BnbNf4, &["bnb-nf4", "bnb_nf4", "nf4"], Format::Safetensors, "bnb-nf4", Some(Bnb(BnbKind::Nf4))),
        Row(T::BnbFp4, &["bnb-fp4", "bnb_fp4", "fp4"], Format::Safetensors, "bnb-fp4", Some(Bnb(BnbKind::Fp4))),
        Row(T::BnbInt8, &["bnb-int8", "bnb_int8", "int8"], Format::Safetensors, "bnb-int8", Some(Bnb(BnbKind::Int8))),
    ]
};

impl ConvertTarget {
    /// The target of this name, in any case.
    ///
    /// # Errors
    /// `Unsupported`, listing the targets there are.
    pub fn parse(text: &str) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        let found = ALL.iter().find(|row| row.1.contains(&lower.as_str()));
        found.map(|row| row.0).ok_or_else(|| {
            let names: Vec<_> = ALL.iter().map(|row| row.1[0]).collect();
            AnamnesisError::unsupported(text, format!("supported convert targets are {}", names.join(", ")))
        })
    }

    /// All targets.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        ALL.iter().map(|row| row.0)
    }

    /// The name it is asked for by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().1[0]
    }

    /// The ending of its files, without the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self.row().2 {
            Format::Safetensors => "safetensors",
            Format::Gguf => "gguf",
            Format::Npz => "npz",
            Format::Npy => "npy",
            Format::Pth => "pth",
        }
    }

    /// What its files are called by.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        self.row().3
    }

    /// Whether it makes quantised weights.
    #[must_use]
    pub const fn is_quantized(self) -> bool {
        self.row().4.is_some()
    }

    pub(crate) const fn format(self) -> Format {
        self.row().2
    }

    pub(crate) const fn encoding(self) -> Option<Encoding> {
        self.row().4
    }

    pub(crate) fn container(self) -> Result<&'static dyn Container> {
        Ok(container::of(self.format()))
    }

    const fn row(self) -> &'static Row {
        &ALL[self as usize]
    }
}

impl fmt::Display for ConvertTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_its_own_index_and_found_by_its_names() {
        for (index, row) in ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, index);
            for name in row.1 {
                assert_eq!(ConvertTarget::parse(name).unwrap(), row.0);
                assert_eq!(ConvertTarget::parse(&name.to_ascii_uppercase()).unwrap(), row.0);
            }
        }
    }

    #[test]
    fn an_unknown_target_is_answered_with_those_there_are() {
        let error = ConvertTarget::parse("gguf-q4").unwrap_err().to_string();
        assert!(error.contains("supported convert targets are safetensors, gguf, npz, bnb-nf4"), "{error}");
    }
}
