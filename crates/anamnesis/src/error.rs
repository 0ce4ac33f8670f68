//! What can go wrong, in one type: who is at fault (the file, the caller, a limit, the system) is the variant.

use std::fmt;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, AnamnesisError>;

/// Why an operation was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnamnesisError {
    /// Malformed bytes, or values that contradict each other.
    Parse {
        /// What is wrong, where, and what was expected.
        reason: String,
    },
    /// Recognised, but not decoded by this build or not at all.
    Unsupported {
        /// The format, scheme or dtype by its own name.
        format: String,
        /// What was met, and what can be done about it.
        detail: String,
    },
    /// A limit of the caller or a permanent cap would have been passed.
    LimitExceeded {
        /// The stable tag of the limit.
        limit: &'static str,
        /// What asked for how much.
        message: String,
    },
    /// A pickle refers to something outside the allow-list.
    DisallowedGlobal {
        /// The Python module.
        module: String,
        /// The name inside the module.
        name: String,
    },
    /// The operating system or a reader failed.
    Io(std::io::Error),
    /// The caller's [`CancelToken`](crate::CancelToken) was set.
    Cancelled,
}

impl AnamnesisError {
    /// A [`Parse`](Self::Parse) error; the reason is made safe to print.
    pub(crate) fn parse(reason: impl AsRef<str>) -> Self {
        Self::Parse { reason: printable(reason.as_ref(), MAX_TEXT_CHARS) }
    }

    /// An [`Unsupported`](Self::Unsupported) error; its texts are made safe to print.
    pub(crate) fn unsupported(format: impl AsRef<str>, detail: impl AsRef<str>) -> Self {
        Self::Unsupported {
            format: printable(format.as_ref(), MAX_TEXT_CHARS),
            detail: printable(detail.as_ref(), MAX_TEXT_CHARS),
        }
    }

    /// A [`LimitExceeded`](Self::LimitExceeded) error.
    pub(crate) fn limit(limit: &'static str, message: impl AsRef<str>) -> Self {
        Self::LimitExceeded { limit, message: printable(message.as_ref(), MAX_TEXT_CHARS) }
    }

    /// An I/O error that names the path it happened at and keeps its kind.
    pub(crate) fn at_path(error: std::io::Error, path: &std::path::Path) -> Self {
        let text = format!("{}: {error}", printable(&path.to_string_lossy(), MAX_TEXT_CHARS));
        Self::Io(std::io::Error::new(error.kind(), text))
    }
}

impl fmt::Display for AnamnesisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse { reason } => write!(f, "parse error: {reason}"),
            Self::Unsupported { format, detail } => write!(f, "unsupported format `{format}`: {detail}"),
            Self::LimitExceeded { limit, message } => write!(f, "limit exceeded ({limit}): {message}"),
            Self::DisallowedGlobal { module, name } => {
                write!(f, "disallowed pickle global `{module}.{name}` (potential code execution)")
            }
            Self::Io(error) => error.fmt(f),
            Self::Cancelled => f.write_str("operation cancelled by the caller"),
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

impl From<std::io::Error> for AnamnesisError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<safetensors::SafeTensorError> for AnamnesisError {
    fn from(error: safetensors::SafeTensorError) -> Self {
        match error {
            safetensors::SafeTensorError::IoError(error) => Self::Io(error),
            other => Self::parse(format!("failed to parse safetensors header: {other}")),
        }
    }
}

/// Longest error text in characters.
const MAX_TEXT_CHARS: usize = 2048;
/// Longest tensor name, key or path quoted inside an error text, in characters.
const MAX_NAME_CHARS: usize = 160;

/// A name that came from a file, in quotes, safe for a terminal and cut to a readable length.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", printable(name, MAX_NAME_CHARS))
}

/// `text` without anything a terminal would act on: control characters and the Unicode characters that reorder or hide
/// text are written as escapes; what is longer than `max_chars` is cut.
pub fn printable(text: &str, max_chars: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max_chars));
    for (count, c) in text.chars().enumerate() {
        if count == max_chars {
            out.push('…');
            break;
        }
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Bidirectional controls, zero-width characters, line separators, the byte order mark and tag characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_users_match_on() {
        assert_eq!(AnamnesisError::parse("x").to_string(), "parse error: x");
        assert_eq!(AnamnesisError::unsupported("GPTQ", "y").to_string(), "unsupported format `GPTQ`: y");
        assert_eq!(AnamnesisError::limit("max_total_bytes", "z").to_string(), "limit exceeded (max_total_bytes): z");
        let global = AnamnesisError::DisallowedGlobal { module: "os".into(), name: "system".into() };
        assert_eq!(global.to_string(), "disallowed pickle global `os.system` (potential code execution)");
        assert_eq!(AnamnesisError::Cancelled.to_string(), "operation cancelled by the caller");
    }

    #[test]
    fn file_text_cannot_steer_a_terminal() {
        assert_eq!(quoted("a\u{1b}[2Jb\nc"), "\"a\\u{1b}[2Jb\\u{a}c\"");
        assert_eq!(quoted("evil\u{202e}gnp"), "\"evil\\u{202e}gnp\"");
        assert_eq!(quoted("größe"), "\"größe\"");
    }

    #[test]
    fn long_text_is_cut() {
        let name = "x".repeat(10_000_000);
        assert_eq!(quoted(&name).chars().count(), MAX_NAME_CHARS + 3);
        assert!(AnamnesisError::parse(&name).to_string().len() < 2100);
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
}
