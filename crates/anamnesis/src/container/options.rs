//! How an input is read, where the file itself leaves a choice.

use std::path::{Path, PathBuf};

use crate::catalog::{Dtype, Rounding, Selection};
use crate::limits::ParseLimits;
use crate::quant_config::GptqFormat;

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
    /// Take as plain data, and tell, what looks like a part of a quantised weight and belongs to none, instead of refusing
    /// it.
    pub allow_unclaimed: bool,
    /// The element types of arrays whose file cannot say them, by name.
    pub npy_dtypes: Vec<(String, Dtype)>,
    /// The model's configuration, in place of the documents that stand beside the weights.
    pub config: Option<Configuration>,
    /// How GPTQ weights store their zero points, whatever is said elsewhere.
    pub gptq_format: Option<GptqFormat>,
    /// When numbers are rounded on their way from codes to the output.
    pub rounding: Rounding,
    /// The weights to open, as if there were no others; `None` means all. Names stay as they are.
    pub selection: Option<Selection>,
}

/// A model's configuration: a whole `config.json`, or the object in it that describes the quantisation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Configuration {
    /// Its JSON text.
    Text(String),
    /// The file that holds it.
    File(PathBuf),
}

impl From<&str> for Configuration {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Configuration {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&Path> for Configuration {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl From<PathBuf> for Configuration {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
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
            allow_unclaimed: false,
            npy_dtypes: Vec::new(),
            config: None,
            gptq_format: None,
            rounding: Rounding::Once,
            selection: None,
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

    /// Takes as plain data what looks like a part of a quantised weight and belongs to none, or refuses it.
    ///
    /// What is taken so is listed by [`Checkpoint::unclaimed`](crate::Checkpoint::unclaimed) and told by the notes of a plan.
    #[must_use]
    pub const fn with_allow_unclaimed(mut self, allow: bool) -> Self {
        self.allow_unclaimed = allow;
        self
    }

    /// Says the element type of an array whose file cannot.
    #[must_use]
    pub fn with_npy_dtype(mut self, array: impl Into<String>, dtype: Dtype) -> Self {
        self.npy_dtypes.push((array.into(), dtype));
        self
    }

    /// Takes this configuration in place of the documents beside the weights: JSON text, or the path of a file. Bytes and
    /// readers have nothing beside them, and no other configuration.
    ///
    /// ```
    /// use anamnesis::OpenOptions;
    /// let config = r#"{"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "gptq_v2"}"#;
    /// let options = OpenOptions::new().with_config(config);
    /// let from_file = OpenOptions::new().with_config(std::path::Path::new("model/config.json"));
    /// assert_ne!(options.config, from_file.config);
    /// ```
    #[must_use]
    pub fn with_config(mut self, config: impl Into<Configuration>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Says how GPTQ weights store their zero points.
    #[must_use]
    pub const fn with_gptq_format(mut self, format: GptqFormat) -> Self {
        self.gptq_format = Some(format);
        self
    }

    /// Says when numbers are rounded.
    ///
    /// ```
    /// use anamnesis::{OpenOptions, Rounding};
    /// let options = OpenOptions::new().with_rounding(Rounding::AsLibrary);
    /// assert_ne!(options.rounding, Rounding::default());
    /// ```
    #[must_use]
    pub const fn with_rounding(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// Opens the chosen weights only.
    #[must_use]
    pub fn with_selection(mut self, selection: Selection) -> Self {
        self.selection = Some(selection);
        self
    }
}
