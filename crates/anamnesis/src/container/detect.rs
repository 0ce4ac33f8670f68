//! From a file to its container: what it holds decides, and its name where that does not say.

use std::path::Path;

use super::explain::{explain, no_tensor_file};
use super::identity::Format;
use super::interface::Opened;
use super::options::OpenOptions;
use super::registry::{ALL, of};
use crate::error::{FileKind, Result};
use crate::io::{FileSource, ReadAt, Source};
use crate::limits::{Budget, ParseLimits};

/// The format of a file, from its first bytes and its name.
///
/// ```no_run
/// use anamnesis::{Format, detect_format};
/// assert_eq!(detect_format("model.bin".as_ref())?, Format::Pth);
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Io` where the file cannot be read, `NotAModel` where it is certainly no tensor file: empty, text of any kind, or compressed
/// as a whole.
pub fn detect_format(path: &Path) -> Result<Format> {
    let source = FileSource::open(path)?;
    detect(&source.head()?, &ending_of(Some(path))).map_err(|error| error.in_file(path))
}

/// The format of a file's bytes.
///
/// ```
/// use anamnesis::{Format, detect_format_from_bytes};
/// assert_eq!(detect_format_from_bytes(b"GGUF\x03\0\0\0")?, Format::Gguf);
/// assert!(detect_format_from_bytes(b"{\"error\": \"not found\"}").is_err());
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `NotAModel` as for [`detect_format`].
pub fn detect_format_from_bytes(bytes: &[u8]) -> Result<Format> {
    detect_format_from_bytes_with_limits(bytes, &ParseLimits::default())
}

/// [`detect_format_from_bytes`] within limits; the whole input counts as one buffer.
///
/// # Errors
/// As [`detect_format_from_bytes`], and `LimitExceeded` where a limit is passed.
pub fn detect_format_from_bytes_with_limits(bytes: &[u8], limits: &ParseLimits) -> Result<Format> {
    Budget::new(limits).buffer(bytes.len() as u64, "the input")?;
    detect(&crate::io::BytesSource(bytes).head()?, "")
}

/// Reads the front matter of a file of any format. `file` is its index in the checkpoint.
pub(crate) fn open(
    source: Box<dyn Source>,
    file: u32,
    options: &OpenOptions,
    budget: &mut Budget,
) -> Result<(Format, Opened)> {
    let (head, ending) = (source.head()?, ending_of(source.path()));
    let format = detect(&head, &ending)?;
    let opened = of(format).open(source, file, options, budget);
    Ok((format, opened.map_err(|error| explain(error, format, &head, &ending))?))
}

/// The ending of a file's name in lower case, without the dot.
fn ending_of(path: Option<&Path>) -> String {
    path.and_then(Path::extension).unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

fn detect(head: &[u8], ending: &str) -> Result<Format> {
    match no_tensor_file(head) {
        Some(kind) if kind == FileKind::Empty || kind == FileKind::Gzip || kind.is_text() => Err(kind.into()),
        _ => Ok(by_content(head, ending)),
    }
}

/// The format whose container is the surest. That of safetensors takes what no other does.
fn by_content(head: &[u8], ending: &str) -> Format {
    let surest = ALL.iter().max_by_key(|about| about.matches(head, ending));
    surest.map_or(Format::Safetensors, |about| about.format)
}

#[cfg(test)]
mod tests {
    use super::super::identity::Match;
    use super::*;

    /// An archive whose first entry is called `name`.
    fn archive(name: &[u8]) -> Vec<u8> {
        [b"PK\x03\x04", &[0; 22][..], &[name.len() as u8, 0, 0, 0], name].concat()
    }

    /// Beginnings of files, and the formats they are of by themselves, with endings that tell something.
    fn heads() -> [(Vec<u8>, Option<Format>); 13] {
        let header = |length: u64, text: &[u8]| [&length.to_le_bytes(), text].concat();
        [
            (b"GGUF\x03\0\0\0".to_vec(), Some(Format::Gguf)),
            (b"\x93NUMPY\x01\0".to_vec(), Some(Format::Npy)),
            (archive(b"a.npy"), Some(Format::Npz)),
            (archive(b"m/data.pkl"), Some(Format::Pth)),
            (b"PK\x03\x04".to_vec(), Some(Format::Pth)),
            (b"\x80\x02\x8a\x0a\x6c\xfc".to_vec(), Some(Format::Pth)),
            (b"\x80\x05\x8a\x0a".to_vec(), Some(Format::Pth)),
            (b"\x80\x04}.".to_vec(), None),
            (b"GGML\x01\0\0\0".to_vec(), None),
            (header(640, b"{\"a\":"), None),
            (header(u64::MAX, b"{}"), None),
            (b"\x10\0\0\0".to_vec(), None),
            (Vec::new(), None),
        ]
    }

    const ENDINGS: [&str; 9] = ["safetensors", "gguf", "npz", "npy", "pth", "pt", "bin", "txt", ""];

    #[test]
    fn every_ending_leads_to_its_format() {
        for format in Format::all() {
            // What a `.bin` file is, only its content tells.
            for extension in format.extensions().iter().filter(|extension| **extension != "bin") {
                assert_eq!(by_content(b"", extension), format, "{extension}");
            }
        }
    }

    #[test]
    fn content_decides_before_the_name() {
        assert_eq!(by_content(b"GGUF", "safetensors"), Format::Gguf);
        assert_eq!(by_content(b"PK\x03\x04", "bin"), Format::Pth);
        assert_eq!(by_content(b"PK\x03\x04", "npz"), Format::Npz);
        assert_eq!(by_content(b"\x93NUMPY\x01\0", "bin"), Format::Npy);
        assert_eq!(by_content(b"\x10\0\0\0", "bin"), Format::Safetensors);
        assert_eq!(by_content(b"\x80\x02\x8a\x0a", "bin"), Format::Pth);
        assert_eq!(by_content(b"", "pt"), Format::Pth);
        assert_eq!(by_content(b"", ""), Format::Safetensors);
    }

    #[test]
    fn an_archive_without_a_telling_name_is_told_by_its_first_entry() {
        assert_eq!(detect_format_from_bytes(&archive(b"a.npy")).unwrap(), Format::Npz);
        assert_eq!(detect_format_from_bytes(&archive(b"m/data.pkl")).unwrap(), Format::Pth);
        assert_eq!(detect_format_from_bytes(&archive(b"a.npy")[..33]).unwrap(), Format::Pth);
        assert_eq!(by_content(&archive(b"a.npy"), "pt"), Format::Pth);
    }

    #[test]
    fn no_file_is_of_two_formats() {
        for (head, format) in heads() {
            for ending in ENDINGS {
                let mut matches: Vec<_> = ALL.iter().map(|about| (about.matches(&head, ending), about.name)).collect();
                matches.sort();
                let [.., second, first] = matches[..] else { panic!("two containers at least") };
                assert!(first.0 > second.0, "{head:?} .{ending}: {first:?} and {second:?}");
                assert!(first.0 > Match::No, "{head:?} .{ending}");
            }
            let sure = ALL.iter().filter(|about| about.matches(&head, "") >= Match::Probable);
            let sure: Vec<_> = sure.map(|about| about.format).collect();
            // An archive of arrays may be a PyTorch file by its beginning alone.
            assert!(sure.len() < 2 || head.starts_with(b"PK"), "{head:?}: {sure:?}");
            assert_eq!(by_content(&head, ""), format.unwrap_or(Format::Safetensors), "{head:?}");
        }
    }

    #[test]
    fn an_archive_is_what_it_is_called_and_everything_else_what_it_holds() {
        for (head, format) in heads() {
            for ending in ENDINGS {
                let named = Format::all().find(|format| format.about().is_told_by(ending));
                let wanted = match (format, named) {
                    (Some(_), Some(named @ (Format::Npz | Format::Pth))) if head.starts_with(b"PK") => named,
                    (Some(format), _) => format,
                    (None, named) => named.unwrap_or(Format::Safetensors),
                };
                assert_eq!(by_content(&head, ending), wanted, "{head:?} .{ending}");
            }
        }
    }

    #[test]
    fn the_whole_input_is_charged() {
        let limits = ParseLimits::default().with_max_single_alloc(7);
        assert!(detect_format_from_bytes_with_limits(b"GGUF\x03\0\0", &limits).is_ok());
        let error = detect_format_from_bytes_with_limits(b"GGUF\x03\0\0\0", &limits).unwrap_err();
        assert!(error.to_string().contains("max_single_alloc_bytes"), "{error}");
    }
}
