//! What a conversion can write: a container, and for some targets a way of quantising that goes with it.

use std::fmt;

use crate::container::{self, Container, Format};
use crate::error::{AnamnesisError, Result};
use crate::scheme::{ENCODINGS, Encoding, Packing};

/// What a conversion writes.
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
    /// GGUF; blocks stay as they are, everything else is decoded.
    Gguf,
    /// A NumPy archive, everything decoded.
    Npz,
    /// A directory that Hugging Face's library loads, of a GGUF file: its names, everything decoded.
    Hf,
    /// Quantised weights, in the container that holds them.
    Quantised(EncodingId),
}

/// A way of quantising, by its place among all there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EncodingId(u16);

/// The targets that do not quantise, with the names they are asked for by.
const PLAIN: [(ConvertTarget, &[&str]); 4] = [
    (ConvertTarget::Safetensors, &["safetensors", "bf16"]),
    (ConvertTarget::Gguf, &["gguf"]),
    (ConvertTarget::Npz, &["npz"]),
    (ConvertTarget::Hf, &["hf"]),
];

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
    /// The target of this name, in any case.
    ///
    /// # Errors
    /// `Unsupported`, listing the targets there are.
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

    /// The name it is asked for by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names()[0]
    }

    /// All names it is asked for by, its own first.
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

    /// What it writes, in a few words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Quantised(id) => id.encoding().about,
            Self::Safetensors | Self::Npz => "everything decoded",
            Self::Gguf => "everything decoded but GGUF's own blocks",
            Self::Hf => "a GGUF file as a directory for Hugging Face's library",
        }
    }

    /// What quantised weights are called in reports, such as `NF4`; `None` where nothing is quantised.
    #[must_use]
    pub const fn short_name(self) -> Option<&'static str> {
        match self {
            Self::Quantised(id) => Some(id.encoding().short),
            _ => None,
        }
    }

    /// Which libraries read quantised weights of it, with the versions this was tried with; `None` where nothing is quantised.
    #[must_use]
    pub fn loaded_by(self) -> Option<&'static str> {
        match self {
            Self::Quantised(id) => Some(id.encoding().quantiser.loaded_by()),
            _ => None,
        }
    }

    /// The ending of its files, without the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        self.format().extensions()[0]
    }

    /// What its files are called by.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Safetensors => "bf16",
            other => other.name(),
        }
    }

    /// Whether an error says that files of this target cannot hold some tensor, so that a selection without it would do.
    #[must_use]
    pub fn cannot_hold(self, error: &AnamnesisError) -> bool {
        matches!(error, AnamnesisError::Unsupported { format, .. } if format == self.extension())
    }

    /// Whether it makes quantised weights.
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

    /// The target that quantises to this encoding.
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
        // Only reached while compiling, where it is an error.
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
    fn an_unknown_target_is_answered_with_those_there_are() {
        let error = ConvertTarget::parse("gguf-q4").unwrap_err().to_string();
        assert!(error.contains("supported convert targets are safetensors, gguf, npz, bnb-nf4"), "{error}");
    }
}
