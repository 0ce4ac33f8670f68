//! How an input is read, where the file itself leaves a choice.

use crate::catalog::Dtype;
use crate::limits::ParseLimits;

/// How an input is opened. The defaults suit every file that says all about itself.
///
/// ```
/// use anamnesis::OpenOptions;
/// let options = OpenOptions::new().with_select("model.encoder").with_skip_unsupported(true);
/// assert_eq!(options.select.as_deref(), Some("model.encoder"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// What opening may cost.
    pub limits: ParseLimits,
    /// The part of a nested checkpoint to take, as a dotted path.
    pub select: Option<String>,
    /// Take everything of a nested checkpoint, not only the model's weights.
    pub all: bool,
    /// Leave out, and tell, what cannot be held as a tensor, instead of refusing the file.
    pub skip_unsupported: bool,
    /// The element types of arrays whose file cannot say them, by name.
    pub npy_dtypes: Vec<(String, Dtype)>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            limits: ParseLimits::unbounded(),
            select: None,
            all: false,
            skip_unsupported: false,
            npy_dtypes: Vec::new(),
        }
    }

    /// Sets the limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: ParseLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Takes one part of a nested checkpoint.
    #[must_use]
    pub fn with_select(mut self, path: impl Into<String>) -> Self {
        self.select = Some(path.into());
        self
    }

    /// Takes everything of a nested checkpoint, or the model's weights only.
    #[must_use]
    pub const fn with_all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Leaves out what cannot be held as a tensor, or refuses it.
    #[must_use]
    pub const fn with_skip_unsupported(mut self, skip: bool) -> Self {
        self.skip_unsupported = skip;
        self
    }

    /// Says the element type of an array whose file cannot.
    #[must_use]
    pub fn with_npy_dtype(mut self, array: impl Into<String>, dtype: Dtype) -> Self {
        self.npy_dtypes.push((array.into(), dtype));
        self
    }
}
