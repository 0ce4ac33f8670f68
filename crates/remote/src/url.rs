//! Addresses of web servers: the subset of URLs that is read here.
//!
//! ```text
//! https://host:port/folder/file?query
//! ```
//!
//! Credentials, fragments, `..`, backslashes and control characters are refused. A query may hold a signature, so it is
//! sent and never shown.

use std::fmt;

use crate::error::{RemoteError, RemoteFault};

/// Maximum length of an address, in bytes.
const MAX_BYTES: usize = 8192;

/// An address.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Url {
    is_secure: bool,
    /// Host and port, in lower case.
    authority: String,
    /// Begins with a slash.
    path: String,
    query: Option<String>,
}

impl Url {
    /// Parses an address as it was typed or received.
    pub(crate) fn parse(text: &str) -> Result<Self, RemoteError> {
        let malformed = |why: &str| RemoteError::new(RemoteFault::Address, why.to_owned());
        if text.len() > MAX_BYTES {
            return Err(malformed("the address is longer than 8192 bytes"));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(malformed("the address contains a control character, a space or a backslash"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| malformed("the address has no scheme"))?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(malformed("only http and https addresses are read")),
        };
        if rest.contains('#') {
            return Err(malformed("the address has a fragment (#)"));
        }
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let at = place.find('/').unwrap_or(place.len());
        let (authority, path) = place.split_at(at);
        if authority.contains('@') {
            return Err(malformed("the address contains credentials; they are neither used nor shown"));
        }
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        if authority.is_empty() || authority.starts_with(':') || !authority.chars().all(is_host) {
            return Err(malformed("the address has no valid host"));
        }
        if path.split('/').any(is_dots) {
            return Err(malformed("the address contains .. or ."));
        }
        let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
        Ok(Self { is_secure, authority: authority.to_ascii_lowercase(), path, query: query.map(str::to_owned) })
    }

    /// The target of a redirect: an address, or one relative to this.
    pub(crate) fn redirected(&self, location: &str) -> Result<Self, RemoteError> {
        let scheme = if self.is_secure { "https" } else { "http" };
        let location = location.split('#').next().unwrap_or_default();
        let text = match location {
            whole if whole.contains("://") && !whole.starts_with('/') => whole.to_owned(),
            host if host.starts_with("//") => format!("{scheme}:{host}"),
            path if path.starts_with('/') => format!("{scheme}://{}{path}", self.authority),
            relative => {
                let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                format!("{scheme}://{}{folder}/{relative}", self.authority)
            }
        };
        let target = Self::parse(&text)
            .map_err(|error| RemoteError::new(RemoteFault::Redirect, format!("a redirect is malformed: {error}")))?;
        if self.is_secure && !target.is_secure {
            let why = "the server redirects from https to http, which is not followed";
            return Err(RemoteError::new(RemoteFault::Redirect, why.to_owned()));
        }
        Ok(target)
    }

    /// The address of a file below this one.
    pub(crate) fn below(&self, name: &str) -> Self {
        let folder = self.path.trim_end_matches('/');
        Self { path: format!("{folder}/{}", encoded(name)), query: None, ..self.clone() }
    }

    /// The folder of this file, and the file's name.
    pub(crate) fn split(&self) -> (Self, &str) {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        (Self { path: format!("{folder}/"), query: None, ..self.clone() }, name)
    }

    pub(crate) fn with_query(self, query: Option<String>) -> Self {
        Self { query, ..self }
    }

    pub(crate) fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// Whether both are on the same server, which may see the same credentials.
    pub(crate) fn has_same_origin(&self, other: &Self) -> bool {
        self.is_secure == other.is_secure && self.authority == other.authority
    }

    /// The whole address, to be sent.
    pub(crate) fn to_send(&self) -> String {
        let query = self.query.as_ref().map_or_else(String::new, |query| format!("?{}", escaped(query)));
        format!("{}://{}{}{query}", if self.is_secure { "https" } else { "http" }, self.authority, escaped(&self.path))
    }

    /// The host, for messages.
    pub(crate) fn host(&self) -> &str {
        &self.authority
    }
}

/// The address without its query.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.is_secure { "https" } else { "http" }, self.authority, self.path)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Whether a segment of a path is `.` or `..`, written plainly or percent-encoded.
fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// A file name as a part of a path. Characters that separate parts of an address are encoded, as is a `%` that does
/// not begin an encoded character.
fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        let is_escape = || name.get(at + 1..at + 3).is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match byte {
            b'%' if is_escape() => text.push('%'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' | b'+' | b',' | b'=' | b'@' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// A path or query in which characters outside of ASCII, and those that no address may have, are encoded.
fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}' | 0..=b' ' | 0x7f..=0xff => {
                result.push_str(&format!("%{byte:02X}"));
            }
            _ => result.push(char::from(byte)),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split_and_shown_without_their_query() {
        let url = Url::parse("https://Host:8080/a/model.gguf?X-Signature=secret").unwrap();
        assert_eq!(url.to_string(), "https://host:8080/a/model.gguf");
        assert_eq!(url.to_send(), "https://host:8080/a/model.gguf?X-Signature=secret");
        assert!(!format!("{url:?}").contains("secret"));
        let (folder, name) = url.split();
        assert_eq!((folder.to_send().as_str(), name), ("https://host:8080/a/", "model.gguf"));
        assert_eq!(folder.below("b c%20?.json").to_send(), "https://host:8080/a/b%20c%20%3F.json");
    }

    #[test]
    fn tricks_are_refused_without_showing_credentials() {
        for text in [
            "https://user:secret@host/x",
            "https://secret@host/x",
            "https://host/a/../secret",
            "https://host/%2e%2E/secret",
            "https://host/a#secret",
            "https://host/a\nsecret: x",
            "https://host/a secret",
            "https://host\\secret",
            "https:///secret",
            "https://:80/secret",
            "ftp://host/secret",
            "host/secret",
            "https://ho st/secret",
        ] {
            let error = Url::parse(text).unwrap_err();
            assert_eq!(error.fault(), RemoteFault::Address, "{text:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(Url::parse(&format!("https://host/{}", "x".repeat(9000))).is_err());
    }

    #[test]
    fn redirects_are_absolute_or_relative_and_never_less_secure() {
        let url = Url::parse("https://host/a/b?c").unwrap();
        let to = |location: &str| url.redirected(location).map(|url| url.to_send());
        assert_eq!(to("https://cdn/x?y").unwrap(), "https://cdn/x?y");
        assert_eq!(to("//cdn/x").unwrap(), "https://cdn/x");
        assert_eq!(to("/x?y").unwrap(), "https://host/x?y");
        assert_eq!(to("x").unwrap(), "https://host/a/x");
        for bad in ["http://host/x", "../x", "file:///etc/passwd", "https://u:p@host/"] {
            assert_eq!(to(bad).unwrap_err().fault(), RemoteFault::Redirect, "{bad}");
        }
    }
}
