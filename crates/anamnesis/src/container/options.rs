//! Options for opening an input.

use std::path::{Path, PathBuf};

use crate::catalog::{Dtype, Rounding, Selection};
use crate::limits::ParseLimits;
use crate::quant_config::GptqFormat;

/// Options for opening an input. The defaults suit every self-describing file.
///
/// ```
/// use anamnesis::OpenOptions;
/// let options = OpenOptions::new().with_select("model.encoder").with_skip_unsupported(true);
/// assert_eq!(options.select.as_deref(), Some("model.encoder"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Limits on the resources that opening may use.
    pub limits: ParseLimits,
    /// The part of a nested checkpoint to read, as a dotted path.
    pub select: Option<String>,
    /// Read all tensors of a nested checkpoint, not only the model's weights.
    pub all: bool,
    /// Omit values that cannot be read as tensors, with a note, instead of refusing the file.
    pub skip_unsupported: bool,
    /// Treat tensors that look like parts of a quantised weight but belong to none as plain data, with a note,
    /// instead of refusing them.
    pub allow_unclaimed: bool,
    /// Treat every stored tensor as plain data: no scheme claims any, nothing is decoded.
    pub plain: bool,
    /// Element types, by array name, for arrays whose file does not record them.
    pub npy_dtypes: Vec<(String, Dtype)>,
    /// The model's configuration, replacing the files next to the weights.
    pub config: Option<Configuration>,
    /// How GPTQ weights store their zero points, overriding all other sources.
    pub gptq_format: Option<GptqFormat>,
    /// When intermediate values are rounded during decoding.
    pub rounding: Rounding,
    /// The weights to open, as if there were no others; `None` means all. Names do not change.
    pub selection: Option<Selection>,
}

/// A model's configuration: a whole `config.json`, or the object in it that describes the quantisation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Configuration {
    /// JSON text.
    Text(String),
    /// A JSON file.
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
            plain: false,
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

    /// Reads one part of a nested checkpoint.
    #[must_use]
    pub fn with_select(mut self, path: impl Into<String>) -> Self {
        self.select = Some(path.into());
        self
    }

    /// Reads all of a nested checkpoint, or the model's weights only.
    #[must_use]
    pub const fn with_all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Omits values that cannot be read as tensors, or refuses them.
    #[must_use]
    pub const fn with_skip_unsupported(mut self, skip: bool) -> Self {
        self.skip_unsupported = skip;
        self
    }

    /// Treats tensors that look like parts of a quantised weight but belong to none as plain data, or refuses them.
    ///
    /// Such tensors are listed by [`Checkpoint::unclaimed`](crate::Checkpoint::unclaimed) and in the notes of a plan.
    #[must_use]
    pub const fn with_allow_unclaimed(mut self, allow: bool) -> Self {
        self.allow_unclaimed = allow;
        self
    }

    /// Treats every stored tensor as plain data, whatever its name and the configuration: no scheme claims any, and a
    /// conversion copies their bytes.
    #[must_use]
    pub const fn with_plain(mut self, plain: bool) -> Self {
        self.plain = plain;
        self
    }

    /// Sets the element type of an array whose file does not record it.
    #[must_use]
    pub fn with_npy_dtype(mut self, array: impl Into<String>, dtype: Dtype) -> Self {
        self.npy_dtypes.push((array.into(), dtype));
        self
    }

    /// Sets the configuration, replacing the files next to the weights: JSON text, or the path of a file. It is the
    /// only configuration of inputs read from bytes or readers.
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

    /// Sets how GPTQ weights store their zero points.
    #[must_use]
    pub const fn with_gptq_format(mut self, format: GptqFormat) -> Self {
        self.gptq_format = Some(format);
        self
    }

    /// Sets when intermediate values are rounded.
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

    /// Opens the selected weights only.
    #[must_use]
    pub fn with_selection(mut self, selection: Selection) -> Self {
        self.selection = Some(selection);
        self
    }
}
