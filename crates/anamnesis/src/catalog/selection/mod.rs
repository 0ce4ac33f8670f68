//! Which tensors are taken, and what they are called then.

mod expression;
mod glob;
mod patterns;
mod rename;

use crate::error::{Request, Result};

pub(crate) use expression::expression;
pub(crate) use glob::Glob;
pub(crate) use patterns::NamePatterns;
use rename::Rename;

/// Chooses tensors by name and renames them. Names are those of the weights that come out, not of their packed parts:
/// `layer.weight`, whose parts may be `layer.qweight`, `layer.scales` and more, which follow it.
///
/// The order is fixed: choose by the names of the input, take off the prefix, rename, put the new prefix in front.
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
    /// Everything, under its own name.
    #[must_use]
    pub const fn new() -> Self {
        Self { names: NamePatterns::new(), renames: Vec::new(), prefix: String::new(), strip_prefix: String::new() }
    }

    /// Takes tensors that fit this pattern (`*`, `?`, `[a-z]`) or another one given so; without any, all are taken.
    ///
    /// # Errors
    /// `Request` where it is no pattern.
    pub fn with_include(mut self, pattern: &str) -> Result<Self> {
        self.names.include(pattern)?;
        Ok(self)
    }

    /// Takes the tensor of exactly this name, whatever characters it has, besides those that fit a pattern.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.names.include_name(name.into());
        self
    }

    /// Leaves out tensors that fit this pattern, even where they are included.
    ///
    /// # Errors
    /// `Request` where it is no pattern.
    pub fn with_exclude(mut self, pattern: &str) -> Result<Self> {
        self.names.exclude(pattern)?;
        Ok(self)
    }

    /// Renames by `s/EXPRESSION/REPLACEMENT/`, with a `g` behind it for every match. Renamings follow each other.
    ///
    /// # Errors
    /// `Request` where it is no such command.
    pub fn with_rename(mut self, command: &str) -> Result<Self> {
        self.renames.push(Rename::parse(command)?);
        Ok(self)
    }

    /// Puts `prefix` in front of every name.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Takes `prefix` off the names that have it.
    ///
    /// # Errors
    /// `Request` where it is empty.
    pub fn with_strip_prefix(mut self, prefix: &str) -> Result<Self> {
        if prefix.is_empty() {
            let why = "must not be empty".to_owned();
            return Err(Request::Malformed { what: "prefix to take off", text: String::new(), why }.into());
        }
        self.strip_prefix = prefix.to_owned();
        Ok(self)
    }

    /// Whether a tensor of this name is taken.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        self.names.takes(name)
    }

    /// What a tensor of this name is called in the output.
    #[must_use]
    pub fn renamed(&self, name: &str) -> String {
        let bare = name.strip_prefix(&self.strip_prefix).unwrap_or(name);
        let name = self.renames.iter().fold(bare.to_owned(), |name, rename| rename.apply(&name));
        format!("{}{name}", self.prefix)
    }

    /// Refuses patterns that fit none of the names: they are mistyped more often than meant.
    pub(crate) fn check_used(&self, names: &[&str]) -> Result<()> {
        self.names.check_used(names)
    }
}
