//! The location of a member of a configuration, for messages.

use std::fmt;

use crate::error::printable;

/// A location: a document, and the keys that lead to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(super) document: &'a str,
    /// The keys of the description itself.
    pub(super) path: &'a str,
    /// The keys inside it; empty strings are unused.
    pub(super) inside: [&'a str; 4],
}

/// Longest path shown, in characters.
const MAX_PATH_CHARS: usize = 300;

impl<'a> Place<'a> {
    /// The document's name.
    pub(crate) fn document(&self) -> &'a str {
        self.document
    }

    /// The location of a member of this one.
    pub(super) fn with(mut self, key: &'a str) -> Self {
        if let Some(empty) = self.inside.iter_mut().find(|key| key.is_empty()) {
            *empty = key;
        }
        self
    }
}

/// `config.json: quantization_config.config_groups.group_0`
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = std::iter::once(self.path).chain(self.inside).filter(|key| !key.is_empty());
        let path = keys.map(|key| printable(key, MAX_PATH_CHARS)).collect::<Vec<_>>().join(".");
        write!(f, "{}{}{path}", self.document, if path.is_empty() { "" } else { ": " })
    }
}
