//! Models of a local Ollama store, by name. There is no network access.
//!
//! ```text
//! model                  registry.ollama.ai/library/model:latest
//! namespace/model:tag    registry.ollama.ai/namespace/model:tag
//! host/namespace/model   host/namespace/model:latest
//!
//! ROOT/manifests/HOST/NAMESPACE/MODEL/TAG    JSON with the layers of the model
//! ROOT/blobs/sha256-HASH                     the layers, one of them a GGUF file
//! ```

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::files;
use crate::error::{AnamnesisError, Request, Result, quoted};

/// The prefix of Ollama model names.
pub(super) const SCHEME: &str = "ollama:";
const DEFAULT_HOST: &str = "registry.ollama.ai";
const DEFAULT_NAMESPACE: &str = "library";
pub(super) const DEFAULT_TAG: &str = "latest";
const MODEL_LAYER: &str = "application/vnd.ollama.image.model";
/// Maximum size of a manifest.
const OLLAMA_MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// Maximum length of a name's component, in bytes.
const MAX_PART_BYTES: usize = 255;
/// Maximum length of a digest, in hexadecimal digits.
const MAX_DIGEST_DIGITS: usize = 128;

/// The GGUF file of a model in the local Ollama store: `model`, `model:tag`, `namespace/model:tag` or
/// `host/namespace/model:tag`, optionally with the prefix `ollama:`.
///
/// The store is `$OLLAMA_MODELS`, or `.ollama/models` in the home directory.
///
/// # Errors
/// `Parse` if the name or the manifest is malformed, `Io` if the model is not in the store, `LimitExceeded` if the
/// manifest is larger than 1 MiB.
pub fn resolve_ollama_model(spec: &str) -> Result<PathBuf> {
    resolve(spec).map_err(|error| match error {
        AnamnesisError::Request(why) => AnamnesisError::parse(why.to_string()),
        error => error,
    })
}

/// [`resolve_ollama_model`] for the input path of a checkpoint, where a malformed name is a `Request` error.
pub(super) fn resolve(spec: &str) -> Result<PathBuf> {
    let name = Name::parse(spec)?;
    name.find_in(&store(std::env::var_os("OLLAMA_MODELS"), std::env::home_dir()))
}

fn store(variable: Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    match variable.filter(|value| !value.is_empty()) {
        Some(root) => PathBuf::from(root),
        None => home.unwrap_or_else(|| PathBuf::from(".")).join(".ollama").join("models"),
    }
}

/// A model name with all its components.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    host: &'a str,
    namespace: &'a str,
    model: &'a str,
    tag: &'a str,
}

impl<'a> Name<'a> {
    fn parse(spec: &'a str) -> Result<Self> {
        let malformed = |why: &str| -> AnamnesisError {
            Request::Malformed { what: "model name", text: spec.to_owned(), why: why.to_owned() }.into()
        };
        let rest = spec.strip_prefix(SCHEME).unwrap_or(spec);
        if rest.is_empty() {
            return Err(malformed("does not name a model, ollama:model:tag is expected"));
        }
        // A colon before the last slash separates a host from its port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (rest, DEFAULT_TAG),
        };
        let parts: Vec<&str> = name.split('/').collect();
        let (host, namespace, model) = match parts[..] {
            [model] => (DEFAULT_HOST, DEFAULT_NAMESPACE, model),
            [namespace, model] => (DEFAULT_HOST, namespace, model),
            [host, namespace, model] => (host, namespace, model),
            _ => return Err(malformed("has too many parts, ollama:host/namespace/model:tag is the longest form")),
        };
        let (host_name, port) = host.split_once(':').unwrap_or((host, "0"));
        let is_port = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
        if !is_port || ![host_name, namespace, model, tag].into_iter().all(is_part) {
            return Err(malformed("is not a model's name: letters, digits, '.', '-' and '_' are allowed in its parts"));
        }
        Ok(Self { host, namespace, model, tag })
    }

    fn find_in(&self, root: &Path) -> Result<PathBuf> {
        let Self { host, namespace, model, tag } = self;
        let manifest: PathBuf = [root.as_os_str()]
            .into_iter()
            .chain(["manifests", host, namespace, model, tag].map(std::ffi::OsStr::new))
            .collect();
        let digest = model_digest(&self.read(&manifest)?, &manifest)?;
        let blob = root.join("blobs").join(format!("sha256-{digest}"));
        if files::is_file(&blob)? {
            Ok(blob)
        } else {
            Err(self.missing(&blob, "the model's file is not in the Ollama store"))
        }
    }

    fn read(&self, manifest: &Path) -> Result<Vec<u8>> {
        if !files::is_file(manifest)? {
            return Err(self.missing(manifest, "this model is not in the Ollama store"));
        }
        let at = |error| AnamnesisError::at_path(error, manifest);
        let mut text = Vec::new();
        let file = std::fs::File::open(manifest).map_err(at)?;
        file.take(OLLAMA_MAX_MANIFEST_BYTES + 1).read_to_end(&mut text).map_err(at)?;
        if text.len() as u64 > OLLAMA_MAX_MANIFEST_BYTES {
            let path = quoted(&manifest.to_string_lossy());
            let why = format!("{path} is a manifest of more than {OLLAMA_MAX_MANIFEST_BYTES} bytes");
            return Err(AnamnesisError::limit("OLLAMA_MAX_MANIFEST_BYTES", why));
        }
        Ok(text)
    }

    fn missing(&self, looked_for: &Path, what: &str) -> AnamnesisError {
        let Self { host, namespace, model, tag } = *self;
        let prefix = match (host, namespace) {
            (DEFAULT_HOST, DEFAULT_NAMESPACE) => String::new(),
            (DEFAULT_HOST, namespace) => format!("{namespace}/"),
            (host, namespace) => format!("{host}/{namespace}/"),
        };
        let text = format!("{what}; download it with `ollama pull {prefix}{model}:{tag}`");
        AnamnesisError::at_path(Error::new(ErrorKind::NotFound, text), looked_for)
    }
}

/// Ollama's own rules for a component, which exclude path traversal.
fn is_part(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let begins = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    part.len() <= MAX_PART_BYTES && part.bytes().next().is_some_and(begins) && part.bytes().all(allowed)
}

/// The hexadecimal digest of the model layer.
fn model_digest(text: &[u8], manifest: &Path) -> Result<String> {
    let malformed = |why: &str| {
        let path = quoted(&manifest.to_string_lossy());
        AnamnesisError::parse(format!("the Ollama manifest {path} {why}"))
    };
    let document: Value = serde_json::from_slice(text).map_err(|error| malformed(&format!("is not JSON: {error}")))?;
    let layers = document.get("layers").and_then(Value::as_array).ok_or_else(|| malformed("has no layers"))?;
    let layer = layers.iter().find(|layer| layer.get("mediaType").and_then(Value::as_str) == Some(MODEL_LAYER));
    let layer = layer.ok_or_else(|| malformed(&format!("has no layer of type {MODEL_LAYER}")))?;
    let digest = layer.get("digest").and_then(Value::as_str);
    let digest = digest.ok_or_else(|| malformed("has a model layer without a digest"))?;
    let is_hash = |digits: &&str| {
        (1..=MAX_DIGEST_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let digits = digest.strip_prefix("sha256:").filter(is_hash);
    let digits = digits.ok_or_else(|| malformed(&format!("has the digest {}, not sha256:HEX", quoted(digest))))?;
    Ok(digits.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name<'a>(host: &'a str, namespace: &'a str, model: &'a str, tag: &'a str) -> Name<'a> {
        Name { host, namespace, model, tag }
    }

    #[test]
    fn names_are_completed() {
        let cases = [
            ("llama3", name(DEFAULT_HOST, "library", "llama3", "latest")),
            ("ollama:llama3.2:1b", name(DEFAULT_HOST, "library", "llama3.2", "1b")),
            ("ollama:user/model", name(DEFAULT_HOST, "user", "model", "latest")),
            ("hf.co/org/model-GGUF:Q4_K_M", name("hf.co", "org", "model-GGUF", "Q4_K_M")),
            ("localhost:5000/a/b", name("localhost:5000", "a", "b", "latest")),
            ("localhost:5000/a/b:c", name("localhost:5000", "a", "b", "c")),
        ];
        for (spec, expected) in cases {
            assert_eq!(Name::parse(spec).unwrap(), expected, "{spec}");
        }
    }

    #[test]
    fn names_that_mean_another_place_are_refused() {
        for spec in [
            "",
            "ollama:",
            ":tag",
            "model:",
            "a//b",
            "../model",
            "a/..",
            "..",
            ".hidden",
            "a/b/c/d",
            "model:../../x",
            "model:..",
            "/etc/passwd",
            "a\\b",
            "C:\\x",
            "a\0b",
            "a b",
            "model:a:b",
            "host:/a/b",
            "host:123456/a/b",
            "~/x",
        ] {
            assert!(matches!(Name::parse(spec), Err(AnamnesisError::Request(_))), "{spec}");
        }
    }

    #[test]
    fn the_store_is_the_variable_or_the_home_directory() {
        let home = || Some(PathBuf::from("home"));
        assert_eq!(store(Some("x".into()), home()), Path::new("x"));
        assert_eq!(store(Some("".into()), home()), Path::new("home/.ollama/models"));
        assert_eq!(store(None, None), Path::new("./.ollama/models"));
    }
}
