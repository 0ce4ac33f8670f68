//! A remote file: its size, its version, and ranges of its bytes.
//!
//! The first request asks for the first 96 KiB: its answer has the size of the whole file, the version (ETag), and
//! most headers completely. Every further answer must have the same size and version, so that a file replaced midway
//! is an error and never a mixture. An attempt that fails after some bytes is continued where it ended.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use anamnesis::StoreEntry;

use crate::client::{Client, Failure, of_io};
use crate::error::{RemoteError, RemoteFault};

/// Bytes of the first request.
pub(crate) const FIRST_BYTES: u64 = 96 << 10;
/// An attempt with this many bytes is a success, even if it was cut.
const PROGRESS_BYTES: u64 = 64 << 10;
/// Bytes per read from a connection.
const STEP_BYTES: usize = 64 << 10;

/// How the bytes of one file are asked for.
pub(crate) trait Transport: Send + Sync {
    /// The server, for messages.
    fn host(&self) -> String;

    /// Asks for the first `bytes` bytes.
    fn begin(&self, bytes: u64) -> Result<Beginning, Failure>;

    /// Asks for a range, which must be of this version of the file.
    fn range(&self, range: Range<u64>, known: &Known) -> Result<Box<dyn Read + Send>, Failure>;
}

/// The answer to the first request.
pub(crate) struct Beginning {
    pub(crate) known: Known,
    /// The beginning of the file, or all of it.
    pub(crate) head: Vec<u8>,
}

/// The size and the version of a file, which every answer must have.
pub(crate) struct Known {
    pub(crate) bytes: u64,
    pub(crate) version: Version,
}

/// The version of a file, as the server names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Version {
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
}

impl Version {
    /// Whether an answer belongs to another version. Servers behind one address may differ in what they send.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        match (&self.etag, &other.etag) {
            (Some(this), Some(other)) => this != other,
            _ => matches!((&self.modified, &other.modified), (Some(this), Some(other)) if this != other),
        }
    }
}

/// The error if a file has another size or version than before.
pub(crate) fn changed() -> RemoteError {
    RemoteError::new(RemoteFault::Changed, "the file changed while it was being read")
}

/// A file of a server.
pub(crate) struct RemoteFile {
    client: Arc<Client>,
    transport: Arc<dyn Transport>,
    known: Known,
    /// The beginning of the file, or all of it.
    head: Vec<u8>,
}

impl RemoteFile {
    /// Asks for the beginning of a file; `expected` is its size, if it is known.
    pub(crate) fn open(
        client: &Arc<Client>,
        transport: &Arc<dyn Transport>,
        expected: Option<u64>,
    ) -> Result<Self, RemoteError> {
        let Beginning { known, head } = client.repeat(|| transport.begin(FIRST_BYTES))?;
        let bytes = known.bytes;
        if let Some(expected) = expected.filter(|expected| *expected != bytes) {
            let why = format!("it has {bytes} bytes, and {expected} in the list of the model's files");
            return Err(RemoteError::new(RemoteFault::Changed, why));
        }
        Ok(Self { client: Arc::clone(client), transport: Arc::clone(transport), known, head })
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> u64 {
        self.known.bytes
    }

    /// A text that changes with its content.
    pub(crate) fn version(&self) -> Option<String> {
        let version = &self.known.version;
        version.etag.clone().or_else(|| version.modified.clone())
    }

    /// It as a file of a store.
    pub(crate) fn entry(&self) -> StoreEntry {
        let entry = StoreEntry::file(self.bytes());
        match self.version() {
            Some(version) => entry.with_version(version),
            None => entry,
        }
    }

    /// The beginning of the file.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Reads a range from the server and passes its bytes on in order.
    pub(crate) fn fetch(&self, start: u64, end: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), RemoteError> {
        let mut at = start;
        let mut attempt = 0;
        while at < end {
            let before = at;
            let failure = match self.try_fetch(at, end, &mut |bytes| {
                at += bytes.len() as u64;
                take(bytes);
            }) {
                Ok(()) => break,
                Err(failure) => failure,
            };
            if at - before >= PROGRESS_BYTES.min(end - start) {
                attempt = 0;
            }
            self.client.pause(attempt, failure)?;
            attempt += 1;
        }
        Ok(())
    }

    fn try_fetch(&self, start: u64, end: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        let mut stream = self.stream(start, end)?;
        let mut buffer = vec![0; STEP_BYTES.min((end - start) as usize)];
        while stream.left() > 0 {
            let count = stream.read(&mut buffer)?;
            take(&buffer[..count]);
        }
        Ok(stream.finish()?)
    }

    /// Asks for a range, whose bytes are then read one after the other.
    pub(crate) fn stream(&self, start: u64, end: u64) -> Result<Stream, Failure> {
        let body = self.transport.range(start..end, &self.known)?;
        Ok(Stream { client: Arc::clone(&self.client), host: self.transport.host(), body, left: end - start })
    }
}

/// The bytes of an answer that are still to be read.
pub(crate) struct Stream {
    client: Arc<Client>,
    host: String,
    body: Box<dyn Read + Send>,
    left: u64,
}

impl Stream {
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Reads some bytes; the end of the answer before the end of its range is an error.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, RemoteError> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let cut = || RemoteError::new(RemoteFault::Connection, format!("{} cut the connection", self.host));
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        self.client.check_cancelled()?;
        match self.body.read(buffer) {
            Ok(0) => Err(cut()),
            Ok(count) => {
                self.left -= count as u64;
                Ok(count)
            }
            Err(error) => Err(of_io(&error, &self.host, self.client.options.timeout)),
        }
    }

    /// Reads the end of the answer, which has no bytes left, so that the connection can be used again.
    fn finish(mut self) -> Result<(), RemoteError> {
        match self.body.read(&mut [0]) {
            Ok(1..) => Err(surplus()),
            _ => Ok(()),
        }
    }
}

/// The error of an answer with more bytes than were asked for.
pub(crate) fn surplus() -> RemoteError {
    RemoteError::new(RemoteFault::Answer, "the server sends more bytes than the range has")
}
