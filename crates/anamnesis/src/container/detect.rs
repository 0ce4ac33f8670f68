//! Format detection: by the first bytes of a file, then by its extension. A tar file is the model inside of it.

use std::path::Path;

use super::explain::{explain, is_tensor_file, non_tensor_kind};
use super::identity::Format;
use super::interface::{Evidence, Opened};
use super::options::OpenOptions;
use super::registry::{ALL, of};
use super::tar;
use super::unread::{by_content, by_extension};
use crate::error::{FileKind, Result};
use crate::io::{ReadAt, Source, open_file};
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
/// `Io` if the file cannot be read, `NotAModel` if it is empty, text, or compressed as a whole.
pub fn detect_format(path: &Path) -> Result<Format> {
    let mut budget = Budget::new(&ParseLimits::default());
    unpacked(open_file(path)?, &mut budget)
        .and_then(|source| detect(&source.head()?, &extension_of(Some(path))))
        .map_err(|error| error.in_file(path))
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

/// [`detect_format_from_bytes`] within limits; the input is charged as one buffer.
///
/// # Errors
/// As [`detect_format_from_bytes`], and `LimitExceeded` if a limit is exceeded.
pub fn detect_format_from_bytes_with_limits(bytes: &[u8], limits: &ParseLimits) -> Result<Format> {
    Budget::new(limits).buffer(bytes.len() as u64, "the input")?;
    detect(&crate::io::BytesSource(bytes).head()?, "")
}

/// Detects the format of a file and reads its front matter. `file` is its index in the checkpoint.
pub(crate) fn open(
    source: Box<dyn Source>,
    file: u32,
    options: &OpenOptions,
    budget: &mut Budget,
) -> Result<(Format, Opened)> {
    let source = unpacked(source, budget)?;
    let (head, extension) = (source.head()?, extension_of(source.path()));
    refuse_unread(&head, &extension)?;
    let format = detect(&head, &extension)?;
    let opened = of(format).open(source, file, options, budget);
    Ok((format, opened.map_err(|error| explain(error, format, &head))?))
}

/// Checksum errors of a file of a format, as messages.
pub(crate) fn damage(file: &dyn Source, format: Format, budget: &mut Budget) -> Result<Vec<String>> {
    match tar::model(file, is_tensor_file, budget)? {
        Some(member) => of(format).damage(&tar::inside(file, &member)?, budget),
        None => of(format).damage(file, budget),
    }
}

/// The model inside of a tar file, or the file itself.
fn unpacked(source: Box<dyn Source>, budget: &mut Budget) -> Result<Box<dyn Source>> {
    Ok(match tar::model(&*source, is_tensor_file, budget)? {
        Some(member) => Box::new(tar::inside(source, &member)?),
        None => source,
    })
}

/// The extension of a path, in lower case, without the dot.
fn extension_of(path: Option<&Path>) -> String {
    path.and_then(Path::extension).unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

/// Refuses a format that is known and not read, by its first bytes, or by its extension unless the content is certain.
fn refuse_unread(head: &[u8], extension: &str) -> Result<()> {
    let is_certain = || ALL.iter().any(|about| about.container.recognises(head) == Evidence::Certain);
    let error = by_content(head).or_else(|| by_extension(extension).filter(|_| !is_certain()));
    error.map_or(Ok(()), Err)
}

fn detect(head: &[u8], extension: &str) -> Result<Format> {
    match non_tensor_kind(head) {
        Some(kind) if kind == FileKind::Empty || kind == FileKind::Gzip || kind.is_text() => Err(kind.into()),
        _ => Ok(best_match(head, extension)),
    }
}

/// The format with the strongest match. safetensors has no magic, so it is the fallback.
fn best_match(head: &[u8], extension: &str) -> Format {
    let strongest = ALL.iter().max_by_key(|about| about.matches(head, extension));
    strongest.map_or(Format::Safetensors, |about| about.format)
}

#[cfg(test)]
mod tests {
    use super::super::identity::Match;
    use super::*;

    /// An archive whose first entry is called `name`.
    fn archive(name: &[u8]) -> Vec<u8> {
        [b"PK\x03\x04", &[0; 22][..], &[name.len() as u8, 0, 0, 0], name].concat()
    }

    /// Leading bytes of files, and the format they identify; `None` where the extension decides.
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

    const EXTENSIONS: [&str; 9] = ["safetensors", "gguf", "npz", "npy", "pth", "pt", "bin", "txt", ""];

    #[test]
    fn every_extension_selects_its_format() {
        for format in Format::all() {
            // `.bin` is shared by several formats.
            for extension in format.extensions().iter().filter(|extension| **extension != "bin") {
                assert_eq!(best_match(b"", extension), format, "{extension}");
            }
        }
    }

    #[test]
    fn content_decides_before_the_name() {
        assert_eq!(best_match(b"GGUF", "safetensors"), Format::Gguf);
        assert_eq!(best_match(b"PK\x03\x04", "bin"), Format::Pth);
        assert_eq!(best_match(b"PK\x03\x04", "npz"), Format::Npz);
        assert_eq!(best_match(b"\x93NUMPY\x01\0", "bin"), Format::Npy);
        assert_eq!(best_match(b"\x10\0\0\0", "bin"), Format::Safetensors);
        assert_eq!(best_match(b"\x80\x02\x8a\x0a", "bin"), Format::Pth);
        assert_eq!(best_match(b"", "pt"), Format::Pth);
        assert_eq!(best_match(b"", ""), Format::Safetensors);
    }

    #[test]
    fn an_archive_without_an_extension_is_detected_by_its_first_entry() {
        assert_eq!(detect_format_from_bytes(&archive(b"a.npy")).unwrap(), Format::Npz);
        assert_eq!(detect_format_from_bytes(&archive(b"m/data.pkl")).unwrap(), Format::Pth);
        assert_eq!(detect_format_from_bytes(&archive(b"a.npy")[..33]).unwrap(), Format::Pth);
        assert_eq!(best_match(&archive(b"a.npy"), "pt"), Format::Pth);
    }

    #[test]
    fn no_file_matches_two_formats_equally() {
        for (head, format) in heads() {
            for extension in EXTENSIONS {
                let mut matches: Vec<_> =
                    ALL.iter().map(|about| (about.matches(&head, extension), about.name)).collect();
                matches.sort();
                let [.., second, first] = matches[..] else { panic!("two containers at least") };
                assert!(first.0 > second.0, "{head:?} .{extension}: {first:?} and {second:?}");
                assert!(first.0 > Match::No, "{head:?} .{extension}");
            }
            let sure = ALL.iter().filter(|about| about.matches(&head, "") >= Match::Probable);
            let sure: Vec<_> = sure.map(|about| about.format).collect();
            // By its first bytes, an archive of arrays may also be a PyTorch file.
            assert!(sure.len() < 2 || head.starts_with(b"PK"), "{head:?}: {sure:?}");
            assert_eq!(best_match(&head, ""), format.unwrap_or(Format::Safetensors), "{head:?}");
        }
    }

    #[test]
    fn the_extension_decides_for_archives_and_the_content_for_all_others() {
        for (head, format) in heads() {
            for extension in EXTENSIONS {
                let named = Format::all().find(|format| format.about().owns_extension(extension));
                let wanted = match (format, named) {
                    (Some(_), Some(named @ (Format::Npz | Format::Pth))) if head.starts_with(b"PK") => named,
                    (Some(format), _) => format,
                    (None, named) => named.unwrap_or(Format::Safetensors),
                };
                assert_eq!(best_match(&head, extension), wanted, "{head:?} .{extension}");
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
