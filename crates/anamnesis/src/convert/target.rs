//! Conversion targets: a container, and for some targets an encoding.

use std::fmt;

use crate::container::{self, Container, Format};
use crate::error::{AnamnesisError, Result};
use crate::scheme::{ENCODINGS, Encoding, Packing};

/// The target of a conversion.
///
/// ```
/// use anamnesis::ConvertTarget;
/// assert_eq!(ConvertTarget::parse("NF4")?, ConvertTarget::BnbNf4);
/// assert_eq!((ConvertTarget::Gguf.extension(), ConvertTarget::Safetensors.suffix()), ("gguf", "bf16"));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConvertTarget {
    /// safetensors, everything decoded.
    Safetensors,
    /// GGUF; blocks are kept, everything else is decoded.
    Gguf,
    /// A NumPy archive, everything decoded.
    Npz,
    /// A checkpoint directory for transformers, made from a GGUF file: Hugging Face names, everything decoded.
    Hf,
    /// Quantised weights, in the container that holds them.
    Quantised(EncodingId),
}

/// An encoding, as its index in the registry of encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EncodingId(u16);

/// The targets that do not quantise, with their names and aliases.
const PLAIN: [(ConvertTarget, &[&str]); 4] = [
    (ConvertTarget::Safetensors, &["safetensors", "bf16"]),
    (ConvertTarget::Gguf, &["gguf"]),
    (ConvertTarget::Npz, &["npz"]),
    (ConvertTarget::Hf, &["hf"]),
];

#[cfg(feature = "encode")]
#[allow(non_upper_case_globals, reason = "they are used like the variants beside them")]
impl ConvertTarget {
    /// safetensors with BitsAndBytes NF4 weights.
    pub const BnbNf4: Self = Self::quantised("bnb-nf4");
    /// safetensors with BitsAndBytes FP4 weights.
    pub const BnbFp4: Self = Self::quantised("bnb-fp4");
    /// safetensors with BitsAndBytes INT8 weights.
    pub const BnbInt8: Self = Self::quantised("bnb-int8");
}

impl ConvertTarget {
    /// The target of this name, ignoring case.
    ///
    /// # Errors
    /// `Unsupported`, listing all targets.
    pub fn parse(text: &str) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        Self::all().find(|target| target.names().contains(&lower.as_str())).ok_or_else(|| {
            let names: Vec<_> = Self::all().map(Self::name).collect();
            AnamnesisError::unsupported(text, format!("supported convert targets are {}", names.join(", ")))
        })
    }

    /// All targets.
    pub fn all() -> impl Iterator<Item = Self> {
        let encodings: usize = ENCODINGS.iter().map(|encodings| encodings.len()).sum();
        let quantised = (0..encodings).map(|index| Self::Quantised(EncodingId(index as u16)));
        let plain = PLAIN.iter().map(|(target, _)| *target).filter(|target| *target != Self::Hf);
        plain.chain(quantised).chain([Self::Hf])
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Its name, followed by its aliases.
    #[must_use]
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Quantised(id) => id.encoding().names,
            Self::Safetensors => PLAIN[0].1,
            Self::Gguf => PLAIN[1].1,
            Self::Npz => PLAIN[2].1,
            Self::Hf => PLAIN[3].1,
        }
    }

    /// A short description of its output.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Quantised(id) => id.encoding().about,
            Self::Safetensors | Self::Npz => "everything decoded",
            Self::Gguf => "everything decoded but GGUF's own blocks",
            Self::Hf => "a GGUF file as a directory for Hugging Face's library",
        }
    }

    /// The name of its quantised weights in reports, such as `NF4`; `None` if it does not quantise.
    #[must_use]
    pub const fn short_name(self) -> Option<&'static str> {
        match self {
            Self::Quantised(id) => Some(id.encoding().short),
            _ => None,
        }
    }

    /// The libraries that load its quantised weights, with the versions tested; `None` if it does not quantise.
    #[must_use]
    pub fn loaded_by(self) -> Option<&'static str> {
        match self {
            Self::Quantised(id) => Some(id.encoding().quantiser.loaded_by()),
            _ => None,
        }
    }

    /// The file extension of its output, without the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        self.format().extensions()[0]
    }

    /// The suffix in default output names.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Safetensors => "bf16",
            other => other.name(),
        }
    }

    /// Whether an error means that files of this target cannot hold some tensor, so that a selection without that
    /// tensor would help.
    #[must_use]
    pub fn cannot_hold(self, error: &AnamnesisError) -> bool {
        matches!(error, AnamnesisError::Unsupported { format, .. } if format == self.extension())
    }

    /// Whether it quantises weights.
    #[must_use]
    pub const fn is_quantized(self) -> bool {
        matches!(self, Self::Quantised(_))
    }

    pub(crate) const fn format(self) -> Format {
        match self {
            Self::Safetensors | Self::Hf => Format::Safetensors,
            Self::Gguf => Format::Gguf,
            Self::Npz => Format::Npz,
            Self::Quantised(id) => match id.encoding().packing {
                Packing::Companions => Format::Safetensors,
                Packing::Blocks => Format::Gguf,
            },
        }
    }

    pub(crate) const fn encoding(self) -> Option<&'static Encoding> {
        match self {
            Self::Quantised(id) => Some(id.encoding()),
            _ => None,
        }
    }

    pub(crate) fn container(self) -> Result<&'static dyn Container> {
        Ok(container::of(self.format()))
    }

    /// The target of the encoding with this name.
    const fn quantised(name: &str) -> Self {
        let (mut group, mut index) = (0, 0);
        while group < ENCODINGS.len() {
            let mut at = 0;
            while at < ENCODINGS[group].len() {
                if is_same(ENCODINGS[group][at].names[0], name) {
                    return Self::Quantised(EncodingId(index));
                }
                at += 1;
                index += 1;
            }
            group += 1;
        }
        // Evaluated at compile time only, where it is a compile error.
        unreachable!()
    }
}

impl EncodingId {
    const fn encoding(self) -> &'static Encoding {
        let (mut group, mut left) = (0, self.0 as usize);
        while left >= ENCODINGS[group].len() {
            left -= ENCODINGS[group].len();
            group += 1;
        }
        &ENCODINGS[group][left]
    }
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

impl fmt::Debug for ConvertTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConvertTarget").field(&self.name()).finish()
    }
}

impl fmt::Display for ConvertTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_target_is_found_by_its_names_and_no_two_share_one() {
        let mut names = BTreeSet::new();
        for target in ConvertTarget::all() {
            for name in target.names() {
                assert_eq!(ConvertTarget::parse(name).unwrap(), target);
                assert_eq!(ConvertTarget::parse(&name.to_ascii_uppercase()).unwrap(), target);
                assert!(names.insert(*name), "{name}");
            }
        }
    }

    #[test]
    fn known_targets_can_be_matched_on() {
        let is_known = |target| matches!(target, ConvertTarget::BnbNf4 | ConvertTarget::Safetensors);
        assert!(is_known(ConvertTarget::parse("nf4").unwrap()) && !is_known(ConvertTarget::BnbFp4));
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let error = ConvertTarget::parse("gguf-q4").unwrap_err().to_string();
        assert!(error.contains("supported convert targets are safetensors, gguf, npz, bnb-nf4"), "{error}");
    }
}
