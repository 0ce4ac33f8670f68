//! Addresses of clouds.

use crate::error::{RemoteError, RemoteFault};

/// Maximum length of an address, in bytes. Keys have up to 1024.
const MAX_BYTES: usize = 2048;

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    S3,
    Google,
    Azure,
}

impl Scheme {
    /// The scheme of an address.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }

    /// The environment variable that allows connections without TLS.
    pub(crate) fn http_variable(self) -> &'static str {
        match self {
            Self::S3 => "AWS_ALLOW_HTTP",
            Self::Google => "GOOGLE_ALLOW_HTTP",
            Self::Azure => "AZURE_ALLOW_HTTP",
        }
    }

    /// Where credentials come from.
    pub(crate) fn credentials(self) -> &'static str {
        match self {
            Self::S3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            Self::Google => "GOOGLE_APPLICATION_CREDENTIALS",
            Self::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        }
    }
}

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    pub(crate) bucket: String,
    /// Without a slash at either end; empty for the bucket itself.
    pub(crate) key: String,
    /// Whether it ends with a slash.
    pub(crate) is_folder: bool,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, RemoteError> {
        let malformed = |why: &str| RemoteError::new(RemoteFault::Address, why.to_owned());
        if text.len() > MAX_BYTES {
            return Err(malformed("the address is longer than 2048 bytes"));
        }
        if text.chars().any(|c| c.is_control() || matches!(c, '\\' | '?' | '#')) {
            return Err(malformed("the address contains a control character, a backslash, ? or #"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| malformed("the address has no //"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "s3" => Scheme::S3,
            "gs" => Scheme::Google,
            "az" => Scheme::Azure,
            "gcs" => return Err(malformed("the scheme of Google Cloud Storage is written gs://")),
            _ => return Err(malformed("the scheme of Azure is written az://CONTAINER/NAME, without an account")),
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.contains('@') {
            return Err(malformed("the address contains credentials; they are neither used nor shown"));
        }
        let is_bucket = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !bucket.chars().all(is_bucket) || bucket.contains("..") {
            return Err(malformed("the address has no valid bucket"));
        }
        let is_folder = key.is_empty() || key.ends_with('/');
        let key = key.strip_suffix('/').unwrap_or(key);
        if !key.is_empty() && key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(malformed("the address contains an empty name, .. or ."));
        }
        Ok(Self { scheme, bucket: bucket.to_owned(), key: key.to_owned(), is_folder })
    }

    /// The address of the bucket.
    pub(crate) fn root(&self) -> String {
        format!("{}://{}", self.scheme.name(), self.bucket)
    }

    /// The folder of this address, and the name in it, which is empty for a folder.
    pub(crate) fn split(&self) -> (&str, &str) {
        match self.is_folder {
            true => (&self.key, ""),
            false => self.key.rsplit_once('/').unwrap_or(("", &self.key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_and_a_key() {
        let parse = |text| Address::parse(text).unwrap();
        let file = parse("s3://bucket/folder/model.gguf");
        assert_eq!((file.scheme, file.split()), (Scheme::S3, ("folder", "model.gguf")));
        assert_eq!((parse("gs://b/model.gguf").split(), parse("az://b").split()), (("", "model.gguf"), ("", "")));
        let folder = parse("S3://my.bucket-1/a b/c/");
        assert_eq!((folder.root().as_str(), folder.split()), ("s3://my.bucket-1", ("a b/c", "")));
    }

    #[test]
    fn addresses_that_lead_elsewhere_are_refused() {
        let names =
            ["s3://b/../x", "s3://b/a//b", "s3://b/./x", "s3://b/x\u{1b}", "s3://b/a\\b", "s3://b/x?y", "s3://b/x#y"];
        let buckets = ["s3:b/x", "s3:///x", "s3://b c/x", "s3://key:secret@b/x", "s3://../x", "s3://b:80/x"];
        for text in names.into_iter().chain(buckets).chain(["gcs://b/x", "abfs://c@a.dfs.core.windows.net/x"]) {
            let error = Address::parse(text).unwrap_err();
            assert!(error.fault() == RemoteFault::Address && !error.to_string().contains("secret"), "{text}: {error}");
        }
    }
}
