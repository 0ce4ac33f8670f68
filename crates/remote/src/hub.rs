//! A model of the Hugging Face Hub, at one commit.
//!
//! ```text
//! ENDPOINT/api/models/ORG/NAME/revision/REVISION?blobs=true   the commit, and its files with sizes and digests
//! ENDPOINT/ORG/NAME/resolve/COMMIT/FILE                       a file, usually by a redirect to another server
//! ```
//!
//! The addresses of several large files are asked for [together](crate::large_files).
//!
//! The list is read once, and its commit is in every following address: all files belong to one revision.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use anamnesis::{HubSpec, PositionedRead, Store, StoreEntry};
use serde_json::Value;

use crate::client::{Ask, Client, Failure};
use crate::error::{RemoteError, RemoteFault};
use crate::folder::{Files, Wanted};
use crate::large_files::{self, LargeFile};
use crate::url::Url;
use crate::web_file::{WebFile, read_up_to};

/// Maximum size of the list of a model's files.
const MAX_LIST_BYTES: u64 = 32 << 20;
/// Maximum number of files.
const MAX_FILES: usize = 100_000;

/// A model of the hub.
pub(crate) struct HubModel {
    files: Files,
    endpoint: Url,
    model: String,
    /// The commit that the revision was when the list was read.
    pub(crate) commit: String,
    pub(crate) list: BTreeMap<String, HubFile>,
    /// The addresses of large files by their SHA-256, as far as they were asked for; `None` if none was given.
    large: Mutex<HashMap<String, Option<Url>>>,
}

/// A file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubFile {
    pub(crate) bytes: Option<u64>,
    pub(crate) digest: Option<Digest>,
}

/// The digest of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Digest {
    /// SHA-256, in hexadecimal digits: files in large file storage.
    Sha256(String),
    /// SHA-1 of a Git blob: all others.
    GitBlob(String),
}

impl Digest {
    pub(crate) fn digits(&self) -> &str {
        match self {
            Self::Sha256(digits) | Self::GitBlob(digits) => digits,
        }
    }
}

impl HubModel {
    /// Reads the list of a model's files.
    pub(crate) fn open(client: &Arc<Client>, spec: &HubSpec) -> Result<Self, RemoteError> {
        let endpoint = Url::parse(&client.options.hub.endpoint)?;
        let revision = spec.revision.replace('/', "%2F");
        let url = endpoint.below(&format!("api/models/{}/revision/{revision}", spec.model));
        let url = url.with_query(Some("blobs=true".to_owned()));
        let text = fetch_text(client, &url)?;
        let (commit, list) = parse(&text)?;
        Ok(Self {
            files: Files::new(client),
            endpoint,
            model: spec.model.clone(),
            commit,
            list,
            large: Mutex::default(),
        })
    }

    pub(crate) fn wanted(&self, name: &str) -> Option<Wanted> {
        let file = self.list.get(name)?;
        let url = self.endpoint.below(&format!("{}/resolve/{}/{name}", self.model, self.commit));
        let large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        let target = file.digest.as_ref().and_then(|digest| large.get(digest.digits())?.clone());
        let transport = Arc::new(WebFile::new(&self.files.client, url).with_target(target));
        Some(Wanted { name: name.to_owned(), transport, bytes: file.bytes })
    }

    /// Asks for the addresses of those files that are large, if they are several.
    fn find_large(&self, names: &[String]) {
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        let file = |name: &String| match self.list.get(name)? {
            HubFile { bytes: Some(bytes), digest: Some(Digest::Sha256(digits)) } => Some((digits.clone(), *bytes)),
            _ => None,
        };
        let files: BTreeSet<LargeFile> = names.iter().filter_map(file).collect();
        let files: Vec<_> = files.into_iter().filter(|(digits, _)| !large.contains_key(digits)).collect();
        if files.len() < 2 {
            return;
        }
        let found = large_files::addresses(&self.files.client, &self.endpoint, &self.model, &files);
        let mut found = found.unwrap_or_default();
        large.extend(files.into_iter().map(|(digits, _)| (digits.clone(), found.remove(&digits))));
    }

    /// A file of the list, read from the hub.
    pub(crate) fn read(&self, name: &str) -> Result<Arc<dyn PositionedRead>, RemoteError> {
        let missing = || RemoteError::new(RemoteFault::Missing, "the model has no such file");
        let wanted = self.wanted(name).ok_or_else(missing)?;
        let file = self.files.find(&wanted)?.ok_or_else(missing)?;
        Ok(self.files.reader(file))
    }
}

/// The text of a small answer.
fn fetch_text(client: &Client, url: &Url) -> Result<Vec<u8>, RemoteError> {
    let text = client.repeat(|| {
        let mut answer = client.send(&Ask { url, range: None, if_range: None })?;
        match answer.response.status().is_success() {
            true => Ok(read_up_to(client, &mut answer, MAX_LIST_BYTES + 1)?),
            false => Err(Failure::of_status(&answer)),
        }
    })?;
    match text.len() as u64 > MAX_LIST_BYTES {
        true => Err(RemoteError::new(RemoteFault::Answer, "the list of the model's files is too long")),
        false => Ok(text),
    }
}

/// The commit and the files of a list.
fn parse(text: &[u8]) -> Result<(String, BTreeMap<String, HubFile>), RemoteError> {
    let fail = |why: &str| RemoteError::new(RemoteFault::Answer, format!("the list of the model's files {why}"));
    if text.trim_ascii_start().first() == Some(&b'<') {
        return Err(RemoteError::new(
            RemoteFault::WebPage,
            "the hub answers with a web page, not with a list of files",
        ));
    }
    let values = text.iter().filter(|byte| **byte == b',').count();
    if values > MAX_FILES * 10 {
        return Err(fail("has too many values"));
    }
    let list: Value = serde_json::from_slice(text).map_err(|_| fail("is not JSON"))?;
    let commit = list.get("sha").and_then(Value::as_str).ok_or_else(|| fail("has no commit"))?;
    if !is_hexadecimal(commit, &[40, 64]) {
        return Err(fail("has a commit that is not one"));
    }
    let siblings = list.get("siblings").and_then(Value::as_array).ok_or_else(|| fail("has no files"))?;
    let mut files = BTreeMap::new();
    for sibling in siblings {
        let name = sibling.get("rfilename").and_then(Value::as_str).ok_or_else(|| fail("has a file without a name"))?;
        if !is_plain(name) {
            return Err(fail("has a file whose name leads out of the model"));
        }
        let large = sibling.get("lfs").filter(|large| large.is_object());
        let digest = |value: Option<&Value>, count| {
            value.and_then(Value::as_str).filter(|digits| is_hexadecimal(digits, &[count])).map(str::to_ascii_lowercase)
        };
        let sha256 = large.and_then(|large| digest(large.get("sha256").or_else(|| large.get("oid")), 64));
        let git = digest(sibling.get("blobId"), 40).filter(|_| large.is_none());
        let bytes = sibling.get("size").or_else(|| large?.get("size")).and_then(Value::as_u64);
        let digest = sha256.map(Digest::Sha256).or(git.map(Digest::GitBlob));
        if files.insert(name.to_owned(), HubFile { bytes, digest }).is_some() {
            return Err(fail("has a file twice"));
        }
    }
    Ok((commit.to_ascii_lowercase(), files))
}

fn is_hexadecimal(text: &str, counts: &[usize]) -> bool {
    counts.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a file name stays inside of its repository.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(['\\', ':'])
        && !name.chars().any(char::is_control)
        && !name.split('/').any(|part| matches!(part, "" | "." | ".."))
}

impl Store for HubModel {
    fn entry(&self, name: &str) -> io::Result<Option<StoreEntry>> {
        if let Some(file) = self.list.get(name) {
            let bytes = match file.bytes {
                Some(bytes) => bytes,
                None => self.read(name)?.size()?,
            };
            let entry = StoreEntry::file(bytes);
            return Ok(Some(match &file.digest {
                Some(digest) => entry.with_version(digest.digits()),
                None => entry.with_version(&*self.commit),
            }));
        }
        let folder = format!("{name}/");
        let is_folder = name.is_empty()
            || self.list.range(folder.clone()..).next().is_some_and(|(file, _)| file.starts_with(&folder));
        Ok(is_folder.then_some(StoreEntry::Folder))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let inside = self.list.keys().filter_map(|name| name.strip_prefix(&prefix)?.split('/').next());
        Ok(inside.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn PositionedRead>> {
        Ok(self.read(name)?)
    }

    fn announce(&self, names: &[String]) {
        self.find_large(names);
        let wanted: Vec<_> = names.iter().filter_map(|name| self.wanted(name)).collect();
        self.files.find_all(&wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_sizes_and_digests() {
        let (commit, sha, git) = ("A".repeat(40), "b".repeat(64), "c".repeat(40));
        let text = format!(
            r#"{{"sha": "{commit}", "siblings": [
                {{"rfilename": "m.gguf", "size": 9, "blobId": "{git}", "lfs": {{"sha256": "{sha}", "size": 9}}}},
                {{"rfilename": "a/config.json", "size": 2, "blobId": "{git}"}}, {{"rfilename": "x"}}]}}"#
        );
        let (found, files) = parse(text.as_bytes()).unwrap();
        assert_eq!(found, commit.to_lowercase());
        assert_eq!(files["m.gguf"], HubFile { bytes: Some(9), digest: Some(Digest::Sha256(sha)) });
        assert_eq!(files["a/config.json"], HubFile { bytes: Some(2), digest: Some(Digest::GitBlob(git)) });
        assert_eq!(files["x"], HubFile { bytes: None, digest: None });
    }

    #[test]
    fn lists_that_lead_elsewhere_are_refused() {
        let list = |commit: &str, name: &str| {
            parse(format!(r#"{{"sha": "{commit}", "siblings": [{{"rfilename": "{name}"}}]}}"#).as_bytes())
        };
        let commit = "a".repeat(40);
        assert!(list(&commit, "ok.json").is_ok());
        for name in ["../x", "/etc/passwd", "a/../b", "", "a//b", "C:x", "a\\\\b", "a\\u001b"] {
            assert_eq!(list(&commit, name).unwrap_err().fault(), RemoteFault::Answer, "{name}");
        }
        for commit in ["main", "../..", ""] {
            assert!(list(commit, "ok.json").is_err(), "{commit}");
        }
        assert_eq!(parse(b" <!DOCTYPE html>").unwrap_err().fault(), RemoteFault::WebPage);
        assert!(parse(b"[]").is_err() && parse(b"{}").is_err());
    }
}
