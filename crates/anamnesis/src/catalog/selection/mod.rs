//! Selection and renaming of tensors.

mod expression;
mod glob;
mod patterns;
mod rename;

use crate::error::{Request, Result};

pub(crate) use expression::expression;
pub(crate) use glob::Glob;
pub(crate) use patterns::NamePatterns;
use rename::Rename;

/// Selects tensors by name and renames them. Names are those of decoded weights, not of their stored parts:
/// `layer.weight`, whose parts may be `layer.qweight`, `layer.scales` and more.
///
/// The order is fixed: select by input names, strip the prefix, rename, add the new prefix.
///
/// ```
/// use anamnesis::Selection;
/// let selection = Selection::new().with_include("model.layers.*")?.with_exclude("*.bias")?;
/// let selection = selection.with_strip_prefix("model.")?.with_rename(r"s/layers\.(\d+)/blk.\1/")?;
/// assert!(selection.takes("model.layers.0.q.weight") && !selection.takes("model.layers.0.q.bias"));
/// assert_eq!(selection.renamed("model.layers.0.q.weight"), "blk.0.q.weight");
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Selection {
    names: NamePatterns,
    renames: Vec<Rename>,
    prefix: String,
    strip_prefix: String,
}

impl Selection {
    /// All tensors, not renamed.
    #[must_use]
    pub const fn new() -> Self {
        Self { names: NamePatterns::new(), renames: Vec::new(), prefix: String::new(), strip_prefix: String::new() }
    }

    /// Includes tensors that match this pattern (`*`, `?`, `[a-z]`), in addition to others; by default all are
    /// included.
    ///
    /// # Errors
    /// `Request` if the pattern is invalid.
    pub fn with_include(mut self, pattern: &str) -> Result<Self> {
        self.names.include(pattern)?;
        Ok(self)
    }

    /// Includes the tensor with exactly this name, in addition to patterns.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.names.include_name(name.into());
        self
    }

    /// Excludes tensors that match this pattern, even if they are included.
    ///
    /// # Errors
    /// `Request` if the pattern is invalid.
    pub fn with_exclude(mut self, pattern: &str) -> Result<Self> {
        self.names.exclude(pattern)?;
        Ok(self)
    }

    /// Renames by `s/EXPRESSION/REPLACEMENT/`, or with a trailing `g` for all matches. Renames are applied in order.
    ///
    /// # Errors
    /// `Request` if the command is invalid.
    pub fn with_rename(mut self, command: &str) -> Result<Self> {
        self.renames.push(Rename::parse(command)?);
        Ok(self)
    }

    /// Adds a prefix to every name.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Strips a prefix from the names that have it.
    ///
    /// # Errors
    /// `Request` if it is empty.
    pub fn with_strip_prefix(mut self, prefix: &str) -> Result<Self> {
        if prefix.is_empty() {
            let why = "must not be empty".to_owned();
            return Err(Request::Malformed { what: "prefix to take off", text: String::new(), why }.into());
        }
        self.strip_prefix = prefix.to_owned();
        Ok(self)
    }

    /// Whether a tensor with this name is selected.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        self.names.takes(name)
    }

    /// The output name of a tensor.
    #[must_use]
    pub fn renamed(&self, name: &str) -> String {
        let bare = name.strip_prefix(&self.strip_prefix).unwrap_or(name);
        let name = self.renames.iter().fold(bare.to_owned(), |name, rename| rename.apply(&name));
        format!("{}{name}", self.prefix)
    }

    /// Refuses patterns that match no name, which are usually typing errors.
    pub(crate) fn check_used(&self, names: &[&str]) -> Result<()> {
        self.names.check_used(names)
    }
}
