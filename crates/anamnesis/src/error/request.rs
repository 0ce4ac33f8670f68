//! What a caller asked for and cannot have, as facts: front ends add what to ask for instead.

use std::fmt;

use super::text::quoted;

/// A request that cannot be fulfilled, whatever the file.
///
/// ```
/// use anamnesis::{AnamnesisError, Request, Selection};
/// let error = Selection::new().with_include("layers.[0-3").unwrap_err();
/// assert!(matches!(error, AnamnesisError::Request(Request::Malformed { what: "pattern", .. })));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// A pattern that fits no tensor.
    UnusedPattern {
        /// The pattern as it was given.
        pattern: String,
    },
    /// A tensor that is not there.
    UnknownTensor {
        /// Its name.
        name: String,
    },
    /// A metadata key that is not there.
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A part of a nested checkpoint that is not there.
    UnknownPart {
        /// The path that was asked for.
        path: String,
        /// The part of the path that leads nowhere.
        missing: String,
        /// What is there instead, in words.
        found: String,
    },
    /// A name that stands for nothing here.
    UnknownName {
        /// What it should be the name of, such as `target`.
        what: &'static str,
        /// The name as it was given.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Something known by name that this machine does not have.
    Unavailable {
        /// What it is, such as `CPU level`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The names of those that the machine has.
        available: Vec<String>,
    },
    /// Text that cannot be read as what it should be.
    Malformed {
        /// What it should be, such as `pattern`.
        what: &'static str,
        /// The text as it was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A selection that leaves no tensor.
    NothingSelected,
    /// Two tensors that would get one name.
    SameName {
        /// The name both would get.
        name: String,
        /// Their names in the input.
        tensors: [String; 2],
    },
    /// Tensors whose rows cannot be cut into groups of equal size.
    Indivisible {
        /// What was to be made of them.
        target: String,
        /// Values that would share a scale.
        group: u64,
        /// Their names, each with the length of its rows.
        tensors: Vec<(String, u64)>,
    },
    /// A model that takes more bytes than it may, however it is quantised.
    DoesNotFit {
        /// The bytes it may take.
        bytes: u64,
        /// The least it can take.
        least: u64,
    },
    /// Options that contradict each other or the input.
    Contradiction {
        /// What was asked for.
        what: String,
        /// Why that cannot be.
        why: String,
    },
}

/// Tensors named in a message; the rest are counted.
const NAMED: usize = 3;

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusedPattern { pattern } => write!(f, "no tensor fits the pattern {}", quoted(pattern)),
            Self::UnknownTensor { name } => write!(f, "there is no tensor {}", quoted(name)),
            Self::UnknownKey { key } => write!(f, "the input has no metadata key {}", quoted(key)),
            Self::UnknownPart { path, missing, found } => {
                write!(f, "there is no {} at {}; there is {found}", quoted(missing), quoted(path))
            }
            Self::UnknownName { what, name, known } => {
                write!(f, "{} is no {what}; there are {}", quoted(name), known.join(", "))
            }
            Self::Unavailable { what, name, available } => {
                write!(f, "this machine has no {what} {}; it has {}", quoted(name), available.join(", "))
            }
            Self::Malformed { what, text, why } => write!(f, "{what} {} {why}", quoted(text)),
            Self::NothingSelected => f.write_str("the selection leaves no tensor"),
            Self::SameName { name, tensors: [a, b] } => {
                write!(f, "tensors {} and {} would both be named {}", quoted(a), quoted(b), quoted(name))
            }
            Self::Indivisible { target, group, tensors } => {
                let named = tensors.iter().take(NAMED).map(|(name, row)| format!("{} has rows of {row}", quoted(name)));
                write!(f, "{target} needs groups of {group} values: {}", named.collect::<Vec<_>>().join(", "))?;
                match tensors.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more do not divide either"),
                }
            }
            Self::DoesNotFit { bytes, least } => {
                write!(f, "nothing fits in {bytes} bytes: the smallest mix takes {least}")
            }
            Self::Contradiction { what, why } => write!(f, "{what}: {why}"),
        }
    }
}
