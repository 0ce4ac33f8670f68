//! The addresses of the large files of a model, asked for together: the batch API of Git LFS, which the hub has for every
//! model.
//!
//! ```text
//! POST ENDPOINT/ORG/NAME.git/info/lfs/objects/batch
//!   {"operation": "download", "transfers": ["basic"], "objects": [{"oid": SHA-256, "size": BYTES}]}
//!   {"objects": [{"oid": SHA-256, "size": BYTES, "actions": {"download": {"href": ADDRESS}}}]}
//! ```
//!
//! It saves a redirect per file, and nothing depends on it: a file without an address in the answer is asked for by its
//! name, and that answer has the error. So the request is sent once.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::client::Client;
use crate::error::RemoteError;
use crate::url::Url;
use crate::web_file::read_up_to;

/// The content type of requests and answers.
const CONTENT_TYPE: &str = "application/vnd.git-lfs+json";
/// Most files of one request: that of git-lfs.
const MOST_FILES: usize = 100;
/// Maximum size of an answer.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// A file: the digits of its SHA-256, and its size.
pub(crate) type LargeFile = (String, u64);

/// Asks for the addresses of files, and returns those that are given, by the SHA-256.
///
/// # Errors
/// If the operation was cancelled, or there is no answer in time.
pub(crate) fn addresses(
    client: &Client,
    endpoint: &Url,
    model: &str,
    files: &[LargeFile],
) -> Result<HashMap<String, Url>, RemoteError> {
    let url = endpoint.below(&format!("{model}.git/info/lfs/objects/batch"));
    let mut found = HashMap::new();
    for files in files.chunks(MOST_FILES) {
        let objects: Vec<Value> = files.iter().map(|(oid, size)| json!({ "oid": oid, "size": size })).collect();
        let body = json!({ "operation": "download", "transfers": ["basic"], "objects": objects });
        let mut answer = client.post(&url, CONTENT_TYPE, body.to_string().as_bytes())?;
        if !answer.response.status().is_success() {
            break;
        }
        let text = read_up_to(client, &mut answer, MAX_ANSWER_BYTES)?;
        found.extend(parse(&text, &url, files));
    }
    Ok(found)
}

/// The addresses of an answer, for files that were asked for.
fn parse(text: &[u8], url: &Url, files: &[LargeFile]) -> HashMap<String, Url> {
    let answer: Value = serde_json::from_slice(text).unwrap_or_default();
    let objects = answer.get("objects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let address = |object: &Value| {
        let (oid, size) = (object.get("oid")?.as_str()?, object.get("size")?.as_u64()?);
        let wanted = files.iter().find(|(digits, bytes)| digits == oid && *bytes == size)?;
        let download = object.get("actions")?.get("download")?;
        // Headers of others are not sent.
        let has_headers = download.get("header").and_then(Value::as_object).is_some_and(|headers| !headers.is_empty());
        let href = download.get("href")?.as_str().filter(|_| !has_headers)?;
        Some((wanted.0.clone(), url.redirected(href).ok()?))
    };
    objects.iter().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_wanted_files_without_headers() {
        let url = Url::parse("https://hub/org/name.git/info/lfs/objects/batch").unwrap();
        let files: Vec<LargeFile> = ["a", "b", "c", "d", "e"].map(|digit| (digit.repeat(64), 9)).into();
        let object = |oid: &str, size: u64, download: &str| {
            format!(r#"{{"oid": "{}", "size": {size}, "actions": {{"download": {download}}}}}"#, oid.repeat(64))
        };
        let objects = [
            object("a", 9, r#"{"href": "https://storage/a?Signature=1"}"#),
            object("b", 8, r#"{"href": "https://storage/another-size"}"#),
            object("c", 9, r#"{"href": "https://storage/c", "header": {"Authorization": "x"}}"#),
            object("d", 9, r#"{"href": "http://storage/not-secure"}"#),
            object("e", 9, r#"{"href": "file:///etc/passwd"}"#),
            object("f", 9, r#"{"href": "https://storage/not-wanted"}"#),
            r#"{"oid": 5}"#.to_owned(),
        ];
        let text = format!(r#"{{"objects": [{}]}}"#, objects.join(","));
        let found = parse(text.as_bytes(), &url, &files);
        assert_eq!(found.keys().collect::<Vec<_>>(), [&files[0].0]);
        assert_eq!(found[&files[0].0].to_send(), "https://storage/a?Signature=1");
        assert!(parse(b"<html>", &url, &files).is_empty() && parse(b"[]", &url, &files).is_empty());
    }
}
