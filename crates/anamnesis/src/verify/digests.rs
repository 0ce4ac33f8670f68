//! Verification of files in content-addressed stores, whose names are digests.
//!
//! | store | name of a file | digest |
//! |---|---|---|
//! | Ollama | `blobs/sha256-HEX` | SHA-256 |
//! | Hugging Face cache | `models--ORG--NAME/blobs/HEX`, 64 digits | SHA-256 |
//! | Hugging Face cache | the same with 40 digits | SHA-1 of a Git blob |
//!
//! Snapshots are symbolic links to these files, so links are resolved first.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::quoted;
use crate::io::{DigestKind, FileSource};

/// Prefixes of cache folders that contain `blobs`.
const REPOSITORIES: [&str; 3] = ["models--", "datasets--", "spaces--"];
const OLLAMA: &str = "sha256-";

/// Digest mismatches of the files of a checkpoint and of all others in the same place.
pub(super) fn problems(place: &Path, files: &[PathBuf]) -> Vec<String> {
    let mut problems = Vec::new();
    let entries: Vec<_> = match std::fs::read_dir(place).and_then(Iterator::collect) {
        Ok(entries) => entries,
        Err(error) => {
            problems.extend(unreadable(place, &error));
            Vec::new()
        }
    };
    let entries = entries.iter().map(DirEntry::path);
    let all: BTreeSet<PathBuf> = entries.chain([place.to_path_buf()]).chain(files.iter().cloned()).collect();
    let mut seen = BTreeSet::new();
    for path in &all {
        let blob = match path.canonicalize() {
            Ok(blob) => blob,
            Err(error) => {
                problems.extend(unreadable(path, &error));
                continue;
            }
        };
        let Some((kind, digits)) = named_digest(&blob) else { continue };
        if !blob.is_dir() && seen.insert(blob.clone()) {
            problems.extend(check(path, &blob, kind, &digits));
        }
    }
    problems
}

/// The problem of a file or folder that cannot be looked up; none if there is no such file or folder. Windows lists a
/// folder by a pattern behind its name, which is no valid name behind that of a file.
fn unreadable(path: &Path, error: &std::io::Error) -> Option<String> {
    let is_missing =
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename);
    (!is_missing).then(|| format!("{}: {error}", quoted(&path.to_string_lossy())))
}

fn check(path: &Path, blob: &Path, kind: DigestKind, digits: &str) -> Option<String> {
    let shown = quoted(&path.to_string_lossy());
    match FileSource::open(blob).and_then(|file| kind.of(&file)) {
        Ok(found) if found.eq_ignore_ascii_case(digits) => None,
        Ok(found) => {
            let what = if kind == DigestKind::Sha256 { "SHA-256" } else { "Git digest" };
            Some(format!("{shown} is damaged: its {what} is {found}, its name is {digits}"))
        }
        Err(error) => Some(error.to_string()),
    }
}

/// The digest that a file of a store is named by.
fn named_digest(blob: &Path) -> Option<(DigestKind, String)> {
    let folder = blob.parent()?;
    if folder.file_name()? != "blobs" {
        return None;
    }
    let name = blob.file_name()?.to_str()?;
    let is_digest = |digits: &str, count| digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(digits) = name.strip_prefix(OLLAMA) {
        return is_digest(digits, 64).then(|| (DigestKind::Sha256, digits.to_owned()));
    }
    let repository = folder.parent()?.file_name()?.to_str()?;
    if !REPOSITORIES.iter().any(|start| repository.starts_with(start)) {
        return None;
    }
    let kinds = [(DigestKind::Sha256, 64), (DigestKind::GitBlob, 40)];
    kinds.into_iter().find(|(_, count)| is_digest(name, *count)).map(|(kind, _)| (kind, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_inside_a_store_are_digests() {
        let (sha, git) = ("a".repeat(64), "b".repeat(40));
        let of = |path: String| named_digest(Path::new(&path)).map(|(kind, _)| kind);
        assert_eq!(of(format!("/m/blobs/sha256-{sha}")), Some(DigestKind::Sha256));
        assert_eq!(of(format!("/models--a--b/blobs/{sha}")), Some(DigestKind::Sha256));
        assert_eq!(of(format!("/models--a--b/blobs/{git}")), Some(DigestKind::GitBlob));
        for path in [
            format!("/m/blobs/sha256-{git}"),
            format!("/m/sha256-{sha}"),
            format!("/m/blobs/{sha}"),
            format!("/models--a--b/blobs/{sha}.incomplete"),
            format!("/models--a--b/{sha}"),
        ] {
            assert_eq!(of(path.clone()), None, "{path}");
        }
    }
}
