//! The choice of a caller whose target exists.

/// What to do if the target exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Existing {
    /// Replace it atomically once the new file is complete.
    #[default]
    Replace,
    /// Refuse before anything is written.
    Refuse,
}
