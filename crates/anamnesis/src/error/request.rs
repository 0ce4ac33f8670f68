//! Requests that cannot be fulfilled, as data; front ends add suggestions.

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
    /// A pattern that matches no tensor.
    UnusedPattern {
        /// The pattern.
        pattern: String,
    },
    /// A tensor that does not exist.
    UnknownTensor {
        /// Its name.
        name: String,
    },
    /// A metadata key that does not exist.
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A part of a nested checkpoint that does not exist.
    UnknownPart {
        /// The requested path.
        path: String,
        /// The part of the path that does not exist.
        missing: String,
        /// What exists there instead.
        found: String,
    },
    /// An unknown name.
    UnknownName {
        /// What the name should be, for example `target`.
        what: &'static str,
        /// The name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// A feature that this machine lacks.
    Unavailable {
        /// What it is, for example `CPU level`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The names of the available ones.
        available: Vec<String>,
    },
    /// Text that cannot be parsed.
    Malformed {
        /// What it should be, for example `pattern`.
        what: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A selection without tensors.
    NothingSelected,
    /// Two tensors with the same output name.
    SameName {
        /// The output name.
        name: String,
        /// Their names in the input.
        tensors: [String; 2],
    },
    /// Tensors whose rows are not divisible into groups.
    Indivisible {
        /// The target encoding.
        target: String,
        /// The group size.
        group: u64,
        /// Their names and row lengths.
        tensors: Vec<(String, u64)>,
    },
    /// A model that exceeds the requested size with every mix.
    DoesNotFit {
        /// The requested size in bytes.
        bytes: u64,
        /// The smallest possible size in bytes.
        least: u64,
    },
    /// Options that contradict one another or the input.
    Contradiction {
        /// The request.
        what: String,
        /// Why it cannot be fulfilled.
        why: String,
    },
}

/// Tensors named in a message; the rest are counted.
const NAMED: usize = 3;

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusedPattern { pattern } => write!(f, "no tensor matches the pattern {}", quoted(pattern)),
            Self::UnknownTensor { name } => write!(f, "there is no tensor {}", quoted(name)),
            Self::UnknownKey { key } => write!(f, "the input has no metadata key {}", quoted(key)),
            Self::UnknownPart { path, missing, found } => {
                write!(f, "there is no {} at {}, only {found}", quoted(missing), quoted(path))
            }
            Self::UnknownName { what, name, known } => {
                write!(f, "{} is not a known {what}; known are {}", quoted(name), known.join(", "))
            }
            Self::Unavailable { what, name, available } => {
                write!(f, "this machine has no {what} {}; it has {}", quoted(name), available.join(", "))
            }
            Self::Malformed { what, text, why } => write!(f, "{what} {} {why}", quoted(text)),
            Self::NothingSelected => f.write_str("the selection contains no tensor"),
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
                write!(f, "no mix fits in {bytes} bytes: the smallest takes {least}")
            }
            Self::Contradiction { what, why } => write!(f, "{what}: {why}"),
        }
    }
}
