//! The error type; its variants show who is at fault: the file, the request, a limit, the system.
//!
//! Errors state facts: tensor, place, values. Flags and advice belong to the front ends.

mod at_path;
mod file_kind;
mod model_part;
mod remedy;
mod request;
mod text;

use std::fmt;
use std::path::{Path, PathBuf};

pub use file_kind::FileKind;
pub use model_part::ModelPart;
pub use remedy::Remedy;
pub use request::Request;
use text::MAX_TEXT_CHARS;
pub use text::printable;
pub(crate) use text::quoted;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, AnamnesisError>;

/// Why an operation was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnamnesisError {
    /// Malformed or inconsistent data.
    Parse {
        /// What is wrong and where, what was found and what is allowed.
        reason: String,
    },
    /// A container, scheme or dtype that is recognised but not supported by this build or at all.
    Unsupported {
        /// The name of the container, scheme or dtype.
        format: String,
        /// What was found, and what is supported.
        detail: String,
    },
    /// A model that has no conversion between Hugging Face and GGUF.
    UnsupportedModel {
        /// The part that is not supported.
        part: ModelPart,
        /// The name of the class, architecture, tokenizer or pre-tokenizer; empty if it has none.
        name: String,
        /// What was found, and what is supported.
        detail: String,
    },
    /// A limit of the caller or a permanent cap was exceeded.
    LimitExceeded {
        /// The stable name of the limit.
        limit: &'static str,
        /// What exceeded it, and by how much.
        message: String,
    },
    /// A pickle refers to a global that is not on the allow list.
    DisallowedGlobal {
        /// The Python module.
        module: String,
        /// The name in the module.
        name: String,
    },
    /// The operating system or a reader failed.
    Io(std::io::Error),
    /// The [`CancelToken`](crate::CancelToken) was cancelled.
    Cancelled,
    /// A file that is not a model, or not of the expected format.
    NotAModel {
        /// The kind of the file.
        kind: FileKind,
        /// A description with the path of the file.
        detail: String,
    },
    /// A tensor that is not supported, in a file that may have others.
    TensorNotRead {
        /// The format of the file.
        format: String,
        /// The tensor, and why it is not supported.
        detail: String,
        /// How to proceed.
        remedy: Remedy,
    },
    /// A request that cannot be fulfilled, whatever the file.
    Request(Request),
    /// A NaN or infinity, which cannot be quantised.
    NotFinite {
        /// The tensor.
        tensor: String,
        /// The index of the value in the tensor.
        index: u64,
        /// The value.
        value: f32,
    },
    /// A finite value that the encoding cannot represent: it would decode to an infinity or to NaN.
    Overflow {
        /// The tensor.
        tensor: String,
        /// The index of the value in the tensor.
        index: u64,
        /// The value.
        value: f32,
        /// The value it would decode to.
        decoded: f32,
        /// The encoding.
        encoding: String,
    },
    /// A property that neither the file nor its sidecars define, and that the caller can set.
    Undecided {
        /// The tensor that depends on it.
        tensor: String,
        /// The property, for example `the GPTQ format`.
        what: &'static str,
        /// The possible values.
        choices: Vec<&'static str>,
    },
    /// A directory without weights.
    NoWeights {
        /// The directory.
        directory: PathBuf,
    },
    /// A defect of this library, detected before wrong data was written.
    Internal {
        /// What is inconsistent, and where.
        reason: String,
    },
    /// An output directory that was started by another conversion.
    OtherPlan {
        /// How the two differ.
        difference: String,
    },
}

/// Who is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The file is malformed or not supported.
    File,
    /// The request is invalid.
    Request,
    /// A limit is too small.
    Limit,
    /// The system failed: a file is missing, a disk is full.
    System,
    /// This library has a defect.
    Library,
    /// Nobody: the operation was cancelled.
    Nobody,
}

impl AnamnesisError {
    /// A [`Parse`](Self::Parse) error; the text is escaped for display.
    #[cold]
    #[inline(never)]
    pub(crate) fn parse(reason: impl AsRef<str>) -> Self {
        Self::Parse { reason: printable(reason.as_ref(), MAX_TEXT_CHARS) }
    }

    /// An [`Internal`](Self::Internal) error; the text is escaped for display.
    #[cold]
    #[inline(never)]
    pub(crate) fn internal(reason: impl AsRef<str>) -> Self {
        Self::Internal { reason: printable(reason.as_ref(), MAX_TEXT_CHARS) }
    }

    /// An [`Unsupported`](Self::Unsupported) error; the texts are escaped for display.
    #[cold]
    #[inline(never)]
    pub(crate) fn unsupported(format: impl AsRef<str>, detail: impl AsRef<str>) -> Self {
        Self::Unsupported {
            format: printable(format.as_ref(), MAX_TEXT_CHARS),
            detail: printable(detail.as_ref(), MAX_TEXT_CHARS),
        }
    }

    /// An [`UnsupportedModel`](Self::UnsupportedModel) error; the texts are escaped for display.
    #[cold]
    #[inline(never)]
    pub(crate) fn unsupported_model(part: ModelPart, name: &str, detail: impl AsRef<str>) -> Self {
        let name = printable(name, text::MAX_NAME_CHARS);
        Self::UnsupportedModel { part, name, detail: printable(detail.as_ref(), MAX_TEXT_CHARS) }
    }

    /// A [`LimitExceeded`](Self::LimitExceeded) error.
    #[cold]
    #[inline(never)]
    pub(crate) fn limit(limit: &'static str, message: impl AsRef<str>) -> Self {
        Self::LimitExceeded { limit, message: printable(message.as_ref(), MAX_TEXT_CHARS) }
    }

    /// A [`NotAModel`](Self::NotAModel) error.
    #[cold]
    #[inline(never)]
    pub(crate) fn not_a_model(kind: FileKind, detail: impl AsRef<str>) -> Self {
        Self::NotAModel { kind, detail: printable(detail.as_ref(), MAX_TEXT_CHARS) }
    }

    /// Who is at fault.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Parse { .. }
            | Self::Unsupported { .. }
            | Self::UnsupportedModel { .. }
            | Self::DisallowedGlobal { .. }
            | Self::NotAModel { .. }
            | Self::TensorNotRead { .. }
            | Self::NotFinite { .. }
            | Self::Overflow { .. }
            | Self::Undecided { .. }
            | Self::NoWeights { .. } => Fault::File,
            Self::Request(_) => Fault::Request,
            Self::LimitExceeded { .. } => Fault::Limit,
            Self::Io(_) | Self::OtherPlan { .. } => Fault::System,
            Self::Internal { .. } => Fault::Library,
            Self::Cancelled => Fault::Nobody,
        }
    }

    /// Prefixes the error with its place, for example `tensor "x"`.
    pub(crate) fn within(self, place: impl fmt::Display) -> Self {
        self.within_place(&place)
    }

    #[cold]
    #[inline(never)]
    fn within_place(self, place: &dyn fmt::Display) -> Self {
        match self {
            Self::Parse { reason } => Self::parse(format!("{place}: {reason}")),
            Self::Internal { reason } => Self::internal(format!("{place}: {reason}")),
            Self::Unsupported { format, detail } => Self::unsupported(format, format!("{place}: {detail}")),
            Self::UnsupportedModel { part, name, detail } => {
                Self::unsupported_model(part, &name, format!("{place}: {detail}"))
            }
            Self::LimitExceeded { limit, message } => Self::limit(limit, format!("{place}: {message}")),
            Self::NotAModel { kind, detail } => Self::not_a_model(kind, format!("{place}: {detail}")),
            Self::TensorNotRead { format, detail, remedy } => {
                Self::unsupported(format, format!("{place}: {detail}")).with_remedy(remedy)
            }
            Self::Io(error) => Self::Io(at_path::with_text(&error, format!("{place}: {error}"))),
            other => other,
        }
    }

    /// Adds the tensor that the error occurred in.
    #[cold]
    #[inline(never)]
    pub(crate) fn in_tensor(self, name: &str) -> Self {
        match self {
            // If weights are processed together, the tensor of the value is already set.
            Self::NotFinite { tensor, index, value } if tensor.is_empty() => {
                Self::NotFinite { tensor: name.to_owned(), index, value }
            }
            Self::Overflow { index, value, decoded, encoding, .. } => {
                Self::Overflow { tensor: name.to_owned(), index, value, decoded, encoding }
            }
            named @ Self::NotFinite { .. } => named,
            other => other.within(format_args!("tensor {}", quoted(name))),
        }
    }

    /// A copy of the error, for repeated calls.
    pub(crate) fn duplicate(&self) -> Self {
        match self {
            Self::Parse { reason } => Self::Parse { reason: reason.clone() },
            Self::Internal { reason } => Self::Internal { reason: reason.clone() },
            Self::Unsupported { format, detail } => {
                Self::Unsupported { format: format.clone(), detail: detail.clone() }
            }
            Self::UnsupportedModel { part, name, detail } => {
                Self::UnsupportedModel { part: *part, name: name.clone(), detail: detail.clone() }
            }
            Self::LimitExceeded { limit, message } => Self::LimitExceeded { limit, message: message.clone() },
            Self::DisallowedGlobal { module, name } => {
                Self::DisallowedGlobal { module: module.clone(), name: name.clone() }
            }
            Self::Io(error) => Self::Io(at_path::with_text(error, error.to_string())),
            Self::Cancelled => Self::Cancelled,
            Self::Request(request) => Self::Request(request.clone()),
            Self::NotFinite { tensor, index, value } => {
                Self::NotFinite { tensor: tensor.clone(), index: *index, value: *value }
            }
            Self::Overflow { tensor, index, value, decoded, encoding } => Self::Overflow {
                tensor: tensor.clone(),
                index: *index,
                value: *value,
                decoded: *decoded,
                encoding: encoding.clone(),
            },
            Self::Undecided { tensor, what, choices } => {
                Self::Undecided { tensor: tensor.clone(), what, choices: choices.clone() }
            }
            Self::NoWeights { directory } => Self::NoWeights { directory: directory.clone() },
            Self::OtherPlan { difference } => Self::OtherPlan { difference: difference.clone() },
            Self::NotAModel { kind, detail } => Self::NotAModel { kind: *kind, detail: detail.clone() },
            Self::TensorNotRead { format, detail, remedy } => {
                Self::TensorNotRead { format: format.clone(), detail: detail.clone(), remedy: remedy.clone() }
            }
        }
    }

    /// Adds the file that the error occurred in; I/O errors have a path already.
    #[cold]
    #[inline(never)]
    pub(crate) fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Io(_) => self,
            other => other.within(quoted(&path.to_string_lossy())),
        }
    }

    /// Adds a remedy to the error of an unsupported tensor.
    pub(crate) fn with_remedy(self, remedy: Remedy) -> Self {
        match self {
            Self::Unsupported { format, detail } => Self::TensorNotRead { format, detail, remedy },
            other => other,
        }
    }

    /// Maps the error for entry points of a single format: a file of another kind is malformed, a tensor with a
    /// remedy is unsupported.
    pub(crate) fn for_single_format(self) -> Self {
        match self {
            Self::NotAModel { detail, .. } => Self::parse(detail),
            Self::TensorNotRead { format, detail, .. } => Self::Unsupported { format, detail },
            other => other,
        }
    }

    /// An I/O error with its path; the kind is unchanged.
    #[cold]
    #[inline(never)]
    pub(crate) fn at_path(error: std::io::Error, path: &Path) -> Self {
        Self::Io(at_path::new(error, path))
    }

    /// The path of an [`Io`](Self::Io) error, if known.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Io(error) => at_path::path(error),
            _ => None,
        }
    }
}

impl fmt::Display for AnamnesisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse { reason } => write!(f, "parse error: {reason}"),
            Self::Internal { reason } => write!(f, "internal error: {reason}"),
            Self::Unsupported { format, detail } | Self::TensorNotRead { format, detail, .. } => {
                write!(f, "unsupported format `{format}`: {detail}")
            }
            Self::UnsupportedModel { part, name, detail } if name.is_empty() => {
                write!(f, "unsupported {part}: {detail}")
            }
            Self::UnsupportedModel { part, name, detail } => write!(f, "unsupported {part} `{name}`: {detail}"),
            Self::LimitExceeded { limit, message } => write!(f, "limit exceeded ({limit}): {message}"),
            Self::DisallowedGlobal { module, name } => {
                write!(f, "disallowed pickle global `{module}.{name}` (potential code execution)")
            }
            Self::Io(error) => error.fmt(f),
            Self::Cancelled => f.write_str("operation cancelled by the caller"),
            Self::NotAModel { detail, .. } => f.write_str(detail),
            Self::Request(request) => request.fmt(f),
            Self::NotFinite { tensor, index, value } => {
                write!(f, "tensor {}: value {index} is {value}, which cannot be quantised", quoted(tensor))
            }
            Self::Overflow { tensor, index, value, decoded, encoding } => {
                let tensor = quoted(tensor);
                write!(f, "tensor {tensor}: value {index} is {value:e}, which {encoding} would hold as {decoded:e}")
            }
            Self::Undecided { tensor, what, choices } => {
                write!(f, "tensor {}: {what} is not defined; it can be {}", quoted(tensor), choices.join(" or "))
            }
            Self::NoWeights { directory } => {
                let directory = printable(&directory.to_string_lossy(), MAX_TEXT_CHARS);
                write!(f, "{directory}: contains no safetensors, GGUF or PyTorch weights")
            }
            Self::OtherPlan { difference } => {
                write!(f, "the output directory was started by another conversion: {difference}")
            }
        }
    }
}

impl std::error::Error for AnamnesisError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<Request> for AnamnesisError {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl From<FileKind> for AnamnesisError {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::Empty => Self::not_a_model(kind, "the file is empty"),
            kind => Self::not_a_model(kind, format!("this is {kind}")),
        }
    }
}

impl From<std::io::Error> for AnamnesisError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(feature = "compat")]
impl From<safetensors::SafeTensorError> for AnamnesisError {
    fn from(error: safetensors::SafeTensorError) -> Self {
        match error {
            safetensors::SafeTensorError::IoError(error) => Self::Io(error),
            other => Self::parse(format!("failed to parse safetensors header: {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_the_published_ones() {
        assert_eq!(AnamnesisError::parse("x").to_string(), "parse error: x");
        assert_eq!(AnamnesisError::unsupported("GPTQ", "y").to_string(), "unsupported format `GPTQ`: y");
        assert_eq!(AnamnesisError::limit("max_total_bytes", "z").to_string(), "limit exceeded (max_total_bytes): z");
        let global = AnamnesisError::DisallowedGlobal { module: "os".into(), name: "system".into() };
        assert_eq!(global.to_string(), "disallowed pickle global `os.system` (potential code execution)");
        assert_eq!(AnamnesisError::Cancelled.to_string(), "operation cancelled by the caller");
    }

    #[test]
    fn long_text_is_cut() {
        let name = "x".repeat(10_000_000);
        assert!(AnamnesisError::parse(&name).to_string().len() < 2100);
    }

    #[test]
    fn a_place_is_prepended_and_the_kind_is_unchanged() {
        let error = AnamnesisError::limit("x", "too much").within("tensor 1").within("file 2");
        assert_eq!(error.to_string(), "limit exceeded (x): file 2: tensor 1: too much");
        let full = AnamnesisError::Io(std::io::ErrorKind::StorageFull.into()).within("tensor 1");
        assert!(matches!(full, AnamnesisError::Io(error) if error.kind() == std::io::ErrorKind::StorageFull));
    }

    #[test]
    fn an_io_error_names_its_path_and_keeps_its_kind() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let AnamnesisError::Io(error) = AnamnesisError::at_path(missing, std::path::Path::new("a/b")) else {
            panic!("an I/O error stays one");
        };
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("a/b: "));
    }

    #[test]
    fn io_errors_know_their_file_wherever_they_pass() {
        let path = Path::new("folder/model\u{1b}.gguf");
        let error = AnamnesisError::at_path(std::io::ErrorKind::PermissionDenied.into(), path);
        let error = error.in_file(Path::new("other")).in_tensor("w").duplicate();
        assert_eq!(error.path(), Some(path));
        assert!(!error.to_string().contains('\u{1b}') && error.to_string().starts_with("tensor \"w\": "), "{error}");
        assert_eq!(AnamnesisError::parse("x").path(), None);
    }

    #[test]
    fn unsupported_parts_of_a_model_are_named_by_their_kind() {
        let error = AnamnesisError::unsupported_model(ModelPart::Class, "BertForMaskedLM", "y").within("here");
        assert_eq!(error.to_string(), "unsupported model class `BertForMaskedLM`: here: y");
        assert_eq!(error.fault(), Fault::File);
        let error = AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", "y");
        assert_eq!(error.to_string(), "unsupported tokenizer: y");
    }
}
