//! Models of the Hugging Face Hub in the local cache, by name. There is no network access.
//!
//! ```text
//! hf:org/name            the snapshot that the branch `main` was when it was downloaded
//! hf:org/name@revision   a branch or tag, a commit, or at least seven digits of one
//! hf:org/name/file       a file or folder of either, hf:org/name@revision/file
//!
//! ROOT/models--org--name/refs/main             the commit's hash, as text
//! ROOT/models--org--name/snapshots/HASH/...    the files of that commit
//! ```

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::files;
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::io::entry;

/// The prefix of cached model names.
pub(super) const SCHEME: &str = "hf:";
const DEFAULT_REVISION: &str = "main";
/// Minimum length of an abbreviated commit hash.
const MIN_PREFIX_DIGITS: usize = 7;
/// Lengths of a commit hash, SHA-1 or SHA-256.
const HASH_DIGITS: [usize; 2] = [40, 64];
/// Maximum length of a name or revision, in bytes.
const MAX_PART_BYTES: usize = 255;
/// Maximum length of a file's name with its folders, in bytes.
const MAX_FILE_BYTES: usize = 1024;

/// The directory or file of a model in the local cache.
///
/// # Errors
/// `Request` if `spec` is not of the form `hf:org/name@revision/file`, `Io` if the model is not in the cache.
pub(crate) fn resolve_hub(spec: &str) -> Result<PathBuf> {
    let root = hub_cache().ok_or_else(|| {
        let text =
            "the Hugging Face cache cannot be located: neither HF_HUB_CACHE nor HF_HOME nor a home directory is set";
        AnamnesisError::Io(Error::new(ErrorKind::NotFound, text))
    })?;
    find_in(&root, spec)
}

/// The directory of the local Hugging Face cache, by the rules of `huggingface_hub`; `None` if neither a variable nor a
/// home directory determines it.
#[must_use]
pub fn hub_cache() -> Option<PathBuf> {
    cache_root(&|key| std::env::var_os(key), std::env::home_dir())
}

/// Finds a model in a cache. Names of branches may have slashes, so the longest revision that exists is used.
fn find_in(root: &Path, spec: &str) -> Result<PathBuf> {
    let spec = HubSpec::parse(spec)?;
    let parts: Vec<&str> = spec.file.split('/').filter(|part| !part.is_empty()).collect();
    for count in (1..=parts.len()).rev().filter(|_| spec.is_revision_given) {
        let (more, file) = parts.split_at(count);
        let revision = format!("{}/{}", spec.revision, more.join("/"));
        let longer = HubSpec { revision, file: file.join("/"), ..spec.clone() };
        if let Ok(found) = longer.find_in(root) {
            return Ok(found);
        }
    }
    spec.find_in(root)
}

fn cache_root(variable: &dyn Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let path = |key: &str| {
        let value = PathBuf::from(variable(key).filter(|value| !value.is_empty())?);
        match (value.strip_prefix("~"), &home) {
            (Ok(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(value),
        }
    };
    path("HF_HUB_CACHE")
        .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| Some(path("HF_HOME")?.join("hub")))
        .or_else(|| Some(path("XDG_CACHE_HOME")?.join("huggingface").join("hub")))
        .or_else(|| Some(home.as_ref()?.join(".cache").join("huggingface").join("hub")))
}

/// The name of a model of the Hugging Face Hub, a revision of it, and a file or folder in it.
///
/// ```
/// use anamnesis::HubSpec;
/// let spec = HubSpec::parse("hf:org/name@v1.0/sub/model.gguf")?;
/// assert_eq!((&*spec.model, &*spec.revision, &*spec.file), ("org/name", "v1.0", "sub/model.gguf"));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HubSpec {
    /// `org/name`, or `name` alone.
    pub model: String,
    /// A branch, tag or commit; `main` by default. A branch whose name has slashes is written with `%2F`.
    pub revision: String,
    /// Whether the revision is in the text.
    pub is_revision_given: bool,
    /// The file or folder; empty for the whole model.
    pub file: String,
}

impl HubSpec {
    /// Parses `hf:org/name@revision/file`, whose revision and file are optional.
    ///
    /// # Errors
    /// `Request` if the text has another form, or a part of it would lead to another place.
    pub fn parse(spec: &str) -> Result<Self> {
        let malformed = |why: &str| {
            let expected = "hf:org/name or hf:org/name@revision is expected";
            Request::Malformed { what: "model name", text: spec.to_owned(), why: format!("{why}, {expected}") }
        };
        let rest = spec.strip_prefix(SCHEME).ok_or_else(|| malformed("does not start with hf:"))?;
        let (name, given) = rest.split_once('@').map_or((rest, None), |(name, given)| (name, Some(given)));
        let cut = |text: &str, parts: usize| {
            let end = text.match_indices('/').nth(parts - 1).map_or(text.len(), |(at, _)| at);
            (text[..end].to_owned(), text[end..].strip_prefix('/').map(str::to_owned))
        };
        let (model, file) = cut(name, 2);
        let (revision, file) = match given {
            None => (DEFAULT_REVISION.to_owned(), file),
            Some(_) if file.is_some() => return Err(malformed("does not name a model").into()),
            // Pull requests and converted files have revisions of three parts: refs/pr/1.
            Some(given) => cut(given, if given.starts_with("refs/") { 3 } else { 1 }),
        };
        let revision = revision.replace("%2F", "/").replace("%2f", "/");
        if !model.split('/').all(is_repository_part) {
            return Err(malformed("does not name a model").into());
        }
        if revision.len() > MAX_PART_BYTES || !revision.split('/').all(is_revision_part) {
            return Err(malformed("does not name a revision").into());
        }
        // A trailing slash marks a folder.
        let file = file.map_or_else(String::new, |file| file.strip_suffix('/').unwrap_or(&file).to_owned());
        if !file.is_empty() && (file.len() > MAX_FILE_BYTES || !file.split('/').all(is_file_part)) {
            return Err(malformed("does not name a file").into());
        }
        Ok(Self { model, revision, is_revision_given: given.is_some(), file })
    }

    fn find_in(&self, root: &Path) -> Result<PathBuf> {
        let repository = root.join(format!("models--{}", self.model.replace('/', "--")));
        if !entry(&repository)?.is_some_and(|entry| entry.is_folder()) {
            return Err(self.missing(&repository, "this model is not in the local Hugging Face cache"));
        }
        let snapshots = repository.join("snapshots");
        let commit = match self.commit_of_ref(&repository.join("refs"))? {
            Some(commit) => commit,
            None => self.commit_by_digits(&snapshots)?,
        };
        let snapshot = snapshots.join(commit);
        if !self.file.is_empty() {
            let file = snapshot.join(&self.file);
            return match entry(&file)? {
                Some(_) => Ok(file),
                None => Err(self.missing(&file, "this file is not in the local Hugging Face cache")),
            };
        }
        let entries = match std::fs::read_dir(&snapshot) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.missing(&snapshot, "this revision is not in the local Hugging Face cache"));
            }
            Err(error) => return Err(AnamnesisError::at_path(error, &snapshot)),
        };
        // Links are followed: a snapshot whose blobs are missing counts as empty.
        for entry in entries {
            let entry = entry.map_err(|error| AnamnesisError::at_path(error, &snapshot))?;
            if files::is_file(&entry.path())? {
                return Ok(snapshot);
            }
        }
        Err(self.missing(&snapshot, "this snapshot has no files"))
    }

    /// The commit of a branch or tag; `None` if it does not exist.
    fn commit_of_ref(&self, refs: &Path) -> Result<Option<String>> {
        let path = refs.join(&self.revision);
        if !files::is_file(&path)? {
            return Ok(None);
        }
        let in_path = |error| AnamnesisError::at_path(error, &path);
        let mut text = Vec::new();
        let file = std::fs::File::open(&path).map_err(in_path)?;
        file.take(MAX_PART_BYTES as u64).read_to_end(&mut text).map_err(in_path)?;
        let commit = String::from_utf8_lossy(&text).trim().to_owned();
        if !is_hash(&commit) {
            let path = quoted(&path.to_string_lossy());
            return Err(AnamnesisError::parse(format!("{path} holds {}, not a commit's hash", quoted(&commit))));
        }
        Ok(Some(commit))
    }

    /// The commit whose hash is, or starts with, the revision.
    fn commit_by_digits(&self, snapshots: &Path) -> Result<String> {
        let absent = || self.missing(snapshots, "this revision is not in the local Hugging Face cache");
        let digits = self.revision.to_ascii_lowercase();
        if digits.len() < MIN_PREFIX_DIGITS || !is_hexadecimal(&digits) {
            return Err(absent());
        }
        let entries = match std::fs::read_dir(snapshots) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(absent()),
            entries => entries.map_err(|error| AnamnesisError::at_path(error, snapshots))?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut commits = names.filter(|name| is_hash(name) && name.starts_with(&digits));
        let commit = commits.next().ok_or_else(absent)?;
        match commits.next() {
            None => Ok(commit),
            Some(other) => {
                let why = format!("of {} is ambiguous: {commit} and {other} both start with it", quoted(&self.model));
                Err(Request::Malformed { what: "revision", text: self.revision.clone(), why }.into())
            }
        }
    }

    fn missing(&self, looked_for: &Path, what: &str) -> AnamnesisError {
        let Self { model, revision, file, .. } = self;
        let model = if file.is_empty() { model.clone() } else { format!("{model} {file}") };
        let option = if revision == DEFAULT_REVISION { String::new() } else { format!(" --revision {revision}") };
        let hint =
            format!("download it with `hf download {model}{option}` (or `huggingface-cli download {model}{option}`)");
        AnamnesisError::at_path(Error::new(ErrorKind::NotFound, format!("{what}; {hint}")), looked_for)
    }
}

/// The Hub's rules for names; `--` is excluded because it separates the parts of a cache folder's name.
fn is_repository_part(part: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !part.is_empty()
        && part.len() <= MAX_PART_BYTES
        && part.chars().all(allowed)
        && !part.contains("--")
        && !part.contains("..")
        && !part.starts_with(['.', '-'])
        && !part.ends_with(['.', '-'])
}

/// Git's rules for a component of a branch name, restricted to names that stay inside `refs`.
fn is_revision_part(part: &str) -> bool {
    let refused = |c: char| c.is_control() || c.is_whitespace() || "\\:*?\"<>|~^[".contains(c);
    !part.is_empty() && !part.starts_with(['.', '-']) && !part.contains("..") && !part.contains(refused)
}

/// A component of a file's name, which stays inside the repository.
fn is_file_part(part: &str) -> bool {
    let refused = |c: char| c.is_control() || "\\:*?\"<>|".contains(c);
    !matches!(part, "" | "." | "..") && !part.contains(refused)
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_hash(text: &str) -> bool {
    HASH_DIGITS.contains(&text.len()) && is_hexadecimal(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FIRST: &str = "0123456789abcdef0123456789abcdef01234567";
    const SECOND: &str = "0123456aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    /// A cache with one model and two snapshots: `main` refers to the first, the tag `v/2` to the second.
    fn cache() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let repository = root.path().join("models--org--name");
        fs::create_dir_all(repository.join("refs/v")).unwrap();
        fs::write(repository.join("refs/main"), FIRST).unwrap();
        fs::write(repository.join("refs/v/2"), format!("{SECOND}\n")).unwrap();
        for commit in [FIRST, SECOND] {
            fs::create_dir_all(repository.join("snapshots").join(commit)).unwrap();
            fs::write(repository.join("snapshots").join(commit).join("config.json"), "{}").unwrap();
        }
        root
    }

    fn find(root: &Path, spec: &str) -> Result<String> {
        let found = find_in(root, spec)?;
        assert_eq!(found.parent().unwrap().file_name().unwrap(), "snapshots");
        Ok(found.file_name().unwrap().to_str().unwrap().to_owned())
    }

    fn not_found(root: &Path, spec: &str) -> String {
        match find(root, spec) {
            Err(AnamnesisError::Io(error)) if error.kind() == ErrorKind::NotFound => error.to_string(),
            other => panic!("{spec}: {other:?}"),
        }
    }

    #[test]
    fn a_model_is_found_by_branch_tag_commit_and_the_start_of_one() {
        let root = cache();
        assert_eq!(find(root.path(), "hf:org/name").unwrap(), FIRST);
        assert_eq!(find(root.path(), "hf:org/name@main").unwrap(), FIRST);
        assert_eq!(find(root.path(), "hf:org/name@v/2").unwrap(), SECOND);
        assert_eq!(find(root.path(), &format!("hf:org/name@{SECOND}")).unwrap(), SECOND);
        assert_eq!(find(root.path(), "hf:org/name@01234567").unwrap(), FIRST);
        assert_eq!(find(root.path(), "hf:org/name@0123456A").unwrap(), SECOND);
    }

    #[test]
    fn a_file_of_a_model_is_found_at_any_revision() {
        let root = cache();
        for spec in ["hf:org/name/config.json", "hf:org/name@v/2/config.json", "hf:org/name@v%2F2/config.json"] {
            assert_eq!(find_in(root.path(), spec).unwrap().file_name().unwrap(), "config.json", "{spec}");
        }
        assert!(not_found(root.path(), "hf:org/name/x.gguf").contains("`hf download org/name x.gguf`"));
        let spec = HubSpec::parse("hf:org/name@refs/pr/7/a/b.gguf").unwrap();
        assert_eq!((&*spec.revision, &*spec.file), ("refs/pr/7", "a/b.gguf"));
    }

    #[test]
    fn a_model_without_an_organisation_is_found() {
        let root = tempfile::tempdir().unwrap();
        let snapshot = root.path().join("models--gpt2/snapshots").join(FIRST);
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(root.path().join("models--gpt2/refs")).unwrap();
        fs::write(root.path().join("models--gpt2/refs/main"), FIRST).unwrap();
        fs::write(snapshot.join("model.safetensors"), "").unwrap();
        assert_eq!(find(root.path(), "hf:gpt2").unwrap(), FIRST);
    }

    #[test]
    fn a_shortened_commit_must_be_long_enough_and_unique() {
        let root = cache();
        not_found(root.path(), "hf:org/name@012345");
        let Err(AnamnesisError::Request(why)) = find(root.path(), "hf:org/name@0123456") else { panic!("found") };
        assert!(why.to_string().contains("ambiguous"), "{why}");
    }

    #[test]
    fn a_missing_model_is_reported_with_the_command_that_downloads_it() {
        let root = cache();
        let text = not_found(root.path(), "hf:org/other");
        assert!(text.contains("models--org--other: ") && text.contains("`hf download org/other`"), "{text}");
        assert!(text.contains("`huggingface-cli download org/other`"), "{text}");
        let text = not_found(root.path(), "hf:org/name@v9");
        assert!(text.contains("hf download org/name --revision v9"), "{text}");
        not_found(root.path(), &format!("hf:org/name@{}", "f".repeat(40)));
        not_found(root.path(), "hf:org/name@v");
    }

    #[test]
    fn a_snapshot_without_files_counts_as_missing() {
        let root = cache();
        let snapshot = root.path().join("models--org--name/snapshots").join(FIRST);
        fs::remove_file(snapshot.join("config.json")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../../blobs/gone", snapshot.join("model.safetensors")).unwrap();
        assert!(not_found(root.path(), "hf:org/name").contains("no files"));
        fs::remove_dir_all(&snapshot).unwrap();
        not_found(root.path(), "hf:org/name");
    }

    #[test]
    fn a_ref_that_holds_a_path_is_not_followed() {
        let root = cache();
        for content in ["../../../etc", "", "main", &"0".repeat(100_000)] {
            fs::write(root.path().join("models--org--name/refs/main"), content).unwrap();
            assert!(matches!(find(root.path(), "hf:org/name"), Err(AnamnesisError::Parse { .. })));
        }
    }

    #[test]
    fn malformed_names_and_path_tricks_are_refused() {
        for spec in [
            "org/name",
            "hf:",
            "hf:/name",
            "hf:org/",
            "hf:a/b//c",
            "hf:a/b/../c",
            "hf:a/b/c@main",
            "hf:a/b/c\u{1b}",
            "hf:a/b@main/..",
            "hf:..",
            "hf:../name",
            "hf:org/..",
            "hf:org/.hidden",
            "hf:a--b/c",
            "hf:org\\name",
            "hf:org/na\0me",
            "hf:org/näme",
            "hf:org/name@",
            "hf:org/name@..",
            "hf:org/name@../../x",
            "hf:org/name@a/../b",
            "hf:org/name@/etc/passwd",
            "hf:org/name@a//b",
            "hf:org/name@a\\b",
            "hf:org/name@C:x",
            "hf:org/name@a\0",
            "hf:org/name@--option",
        ] {
            assert!(matches!(HubSpec::parse(spec), Err(AnamnesisError::Request(_))), "{spec:?}");
        }
        let long = format!("hf:org/{}", "x".repeat(5000));
        assert!(HubSpec::parse(&long).is_err());
    }

    #[test]
    fn the_cache_is_where_the_environment_says() {
        let root = |set: &[(&str, &str)]| {
            let variable = |key: &str| Some(OsString::from(set.iter().find(|(name, _)| *name == key)?.1));
            cache_root(&variable, Some(PathBuf::from("/home/u")))
        };
        let all =
            [("HF_HUB_CACHE", "/a"), ("HUGGINGFACE_HUB_CACHE", "/b"), ("HF_HOME", "/c"), ("XDG_CACHE_HOME", "/d")];
        let wanted = ["/a", "/b", "/c/hub", "/d/huggingface/hub", "/home/u/.cache/huggingface/hub"];
        for (skipped, wanted) in wanted.iter().enumerate() {
            assert_eq!(root(&all[skipped..]), Some(PathBuf::from(wanted)));
        }
        assert_eq!(root(&[("HF_HOME", "")]), Some(PathBuf::from("/home/u/.cache/huggingface/hub")));
        assert_eq!(root(&[("HF_HOME", "~/hf")]), Some(PathBuf::from("/home/u/hf/hub")));
        assert_eq!(cache_root(&|_| None, None), None);
    }
}
