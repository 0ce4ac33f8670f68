//! Errors of remote sources. They travel inside `std::io::Error`, so that the library passes them on unread.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use anamnesis::AnamnesisError;

/// The kind of a [`RemoteError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemoteFault {
    /// The address is malformed.
    Address,
    /// The scheme of the address is known and not read by this build.
    Scheme,
    /// The file, model or revision does not exist.
    Missing,
    /// The model is gated: its owner has to grant access.
    Gated,
    /// Credentials are needed or not accepted.
    Unauthorized,
    /// There are no usable credentials for a cloud.
    Credentials,
    /// Access is refused.
    Forbidden,
    /// Too many requests.
    RateLimit,
    /// Any other status of the server.
    Status,
    /// The server does not answer requests for ranges.
    NoRanges,
    /// The answer is not what was asked for: another range, another length, a malformed header.
    Answer,
    /// The answer is compressed, although no compression was asked for.
    Encoded,
    /// A web page where a file is expected.
    WebPage,
    /// The file changed while it was being read.
    Changed,
    /// The file exists already and is not replaced.
    Exists,
    /// Redirects in a circle, too many of them, or to a place that is not followed.
    Redirect,
    /// No answer in time.
    Timeout,
    /// The host is not known, or there is no way to it.
    Unreachable,
    /// The connection failed or was cut.
    Connection,
    /// A downloaded file does not have its digest.
    Digest,
    /// The operation was cancelled.
    Cancelled,
}

/// Why a remote source cannot be read.
#[derive(Debug, Clone)]
pub struct RemoteError {
    fault: RemoteFault,
    text: String,
}

impl RemoteError {
    pub(crate) fn new(fault: RemoteFault, text: impl Into<String>) -> Self {
        Self { fault, text: text.into() }
    }

    /// Its kind.
    #[must_use]
    pub const fn fault(&self) -> RemoteFault {
        self.fault
    }

    /// The remote error behind another one, if there is one.
    #[must_use]
    pub fn behind<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<Self>() {
                return Some(found);
            }
            // Both skip their own content when asked for their source.
            let of_library = match error.downcast_ref::<AnamnesisError>() {
                Some(AnamnesisError::Io(error)) => Some(error),
                _ => error.downcast_ref::<io::Error>(),
            };
            let inner = of_library.and_then(io::Error::get_ref);
            let shared = error.downcast_ref::<std::sync::Arc<io::Error>>().and_then(|error| error.get_ref());
            next = inner.or(shared).map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source());
        }
        None
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for RemoteError {}

impl From<RemoteError> for io::Error {
    fn from(error: RemoteError) -> Self {
        let kind = match error.fault {
            RemoteFault::Address | RemoteFault::Scheme => ErrorKind::InvalidInput,
            RemoteFault::Missing => ErrorKind::NotFound,
            RemoteFault::Gated | RemoteFault::Unauthorized | RemoteFault::Credentials | RemoteFault::Forbidden => {
                ErrorKind::PermissionDenied
            }
            RemoteFault::Exists => ErrorKind::AlreadyExists,
            RemoteFault::Timeout => ErrorKind::TimedOut,
            RemoteFault::Connection | RemoteFault::Unreachable => ErrorKind::ConnectionAborted,
            RemoteFault::Cancelled => ErrorKind::Other,
            RemoteFault::RateLimit | RemoteFault::Status => ErrorKind::Other,
            _ => ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_error_is_found_behind_the_errors_around_it() {
        let error = || RemoteError::new(RemoteFault::Gated, "x");
        let wrapped = io::Error::other(io::Error::from(error()));
        assert_eq!(RemoteError::behind(&wrapped).unwrap().fault(), RemoteFault::Gated);
        assert!(RemoteError::behind(&io::Error::other("x")).is_none());
    }
}
