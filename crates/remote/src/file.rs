//! A remote file: its size, its version, and ranges of its bytes.
//!
//! The first request asks for the first 96 KiB: its answer has the size of the whole file, the version (ETag), and
//! most headers completely. Every further answer must have the same size and version, so that a file replaced midway
//! is an error and never a mixture. An attempt that fails after some bytes is continued where it ended.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use ureq::http::{HeaderMap, StatusCode};

use crate::client::{Answer, Ask, Client, Failure, of_io, text};
use crate::error::{RemoteError, RemoteFault};
use crate::url::Url;

/// Bytes of the first request.
pub(crate) const FIRST_BYTES: u64 = 96 << 10;
/// The longest file that is accepted whole from a server that ignores ranges.
const MAX_WHOLE_BYTES: u64 = 4 << 20;
/// An attempt with this many bytes is a success, even if it was cut.
const PROGRESS_BYTES: u64 = 64 << 10;
/// Bytes per read from a connection.
const STEP_BYTES: usize = 64 << 10;

/// A file of a server.
pub(crate) struct RemoteFile {
    client: Arc<Client>,
    url: Url,
    /// The target of its redirects, until it expires.
    target: Mutex<Option<Url>>,
    version: Version,
    bytes: u64,
    /// The beginning of the file, or all of it.
    head: Vec<u8>,
}

/// The version of a file, as the server names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Version {
    etag: Option<String>,
    modified: Option<String>,
}

impl Version {
    fn of(headers: &HeaderMap) -> Self {
        let own = |name| text(headers, name).map(str::to_owned);
        Self { etag: own("etag"), modified: own("last-modified") }
    }

    /// The text for `If-Range`, which must be a strong one.
    fn if_range(&self) -> Option<&str> {
        match &self.etag {
            Some(etag) if etag.starts_with("W/") => None,
            Some(etag) => Some(etag),
            None => self.modified.as_deref(),
        }
    }

    /// Whether an answer belongs to another version. Servers behind one address may differ in what they send.
    fn differs(&self, other: &Self) -> bool {
        match (&self.etag, &other.etag) {
            (Some(this), Some(other)) => this != other,
            _ => matches!((&self.modified, &other.modified), (Some(this), Some(other)) if this != other),
        }
    }
}

impl RemoteFile {
    /// Asks for the beginning of a file; `expected` is its size, if it is known.
    pub(crate) fn open(client: &Arc<Client>, url: &Url, expected: Option<u64>) -> Result<Self, RemoteError> {
        let mut attempt = 0;
        loop {
            match Self::try_open(client, url, expected) {
                Ok(file) => return Ok(file),
                Err(failure) => client.pause(attempt, failure)?,
            }
            attempt += 1;
        }
    }

    fn try_open(client: &Arc<Client>, url: &Url, expected: Option<u64>) -> Result<Self, Failure> {
        let range = Some((0, FIRST_BYTES - 1));
        let mut answer = client.send(&Ask { url, range, if_range: None })?;
        let headers = answer.response.headers();
        let version = Version::of(headers);
        let status = answer.response.status();
        if status.is_success() {
            check_content(headers, url)?;
        }
        let (bytes, head) = match status {
            StatusCode::PARTIAL_CONTENT => {
                let (first, last, bytes) = content_range(headers)?;
                let wanted = bytes.min(FIRST_BYTES);
                if first != 0 || last.checked_add(1) != Some(wanted) {
                    return Err(
                        wrong_range(&format!("{first}-{last}"), &format!("0-{}", wanted.saturating_sub(1))).into()
                    );
                }
                (bytes, read_head(client, &mut answer, wanted)?)
            }
            StatusCode::OK => {
                let declared = text(headers, "content-length").and_then(|text| text.parse::<u64>().ok());
                if declared.is_some_and(|bytes| bytes > MAX_WHOLE_BYTES) {
                    return Err(no_ranges(&answer).into());
                }
                let head = read_to_end(client, &mut answer, declared)?;
                (head.len() as u64, head)
            }
            StatusCode::RANGE_NOT_SATISFIABLE if text(headers, "content-range") == Some("bytes */0") => (0, Vec::new()),
            _ => return Err(Failure::of_status(&answer)),
        };
        if let Some(expected) = expected.filter(|expected| *expected != bytes) {
            let why = format!("it has {bytes} bytes, and {expected} in the list of the model's files");
            return Err(RemoteError::new(RemoteFault::Changed, why).into());
        }
        let target = Some(answer.url).filter(|target| target != url);
        Ok(Self { client: Arc::clone(client), url: url.clone(), target: Mutex::new(target), version, bytes, head })
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A text that changes with its content.
    pub(crate) fn version(&self) -> Option<String> {
        self.version.etag.clone().or_else(|| self.version.modified.clone())
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
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut answer = self.ask(target.as_ref().unwrap_or(&self.url), start, end)?;
        let is_expired = matches!(answer.response.status().as_u16(), 400 | 401 | 403 | 404 | 410);
        if target.is_some() && is_expired {
            // A signed address expires; the original one leads to a new one.
            answer = self.ask(&self.url, start, end)?;
        }
        let headers = answer.response.headers();
        let status = answer.response.status();
        let version = Version::of(headers);
        let changed = || RemoteError::new(RemoteFault::Changed, "the file changed while it was being read");
        match status {
            StatusCode::PARTIAL_CONTENT => {
                check_content(headers, &self.url)?;
                let (first, last, bytes) = content_range(headers)?;
                if bytes != self.bytes || self.version.differs(&version) {
                    return Err(changed().into());
                }
                if first != start || last.checked_add(1) != Some(end) {
                    return Err(wrong_range(&format!("{first}-{last}"), &format!("{start}-{}", end - 1)).into());
                }
            }
            StatusCode::OK => {
                let declared = text(headers, "content-length").and_then(|text| text.parse::<u64>().ok());
                let is_same = !self.version.differs(&version) && declared.is_none_or(|bytes| bytes == self.bytes);
                return Err(if is_same { no_ranges(&answer) } else { changed() }.into());
            }
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PRECONDITION_FAILED => return Err(changed().into()),
            _ => return Err(Failure::of_status(&answer)),
        }
        check_length(headers, end - start)?;
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(answer.url.clone()).filter(|target| *target != self.url);
        Ok(Stream {
            client: Arc::clone(&self.client),
            host: answer.url.host().to_owned(),
            body: reader(answer),
            left: end - start,
        })
    }

    fn ask(&self, url: &Url, start: u64, end: u64) -> Result<Answer, RemoteError> {
        self.client.send(&Ask { url, range: Some((start, end - 1)), if_range: self.version.if_range() })
    }
}

/// The bytes of an answer that are still to be read.
pub(crate) struct Stream {
    client: Arc<Client>,
    host: String,
    body: ureq::BodyReader<'static>,
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
                self.client.count_bytes(count);
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

fn reader(answer: Answer) -> ureq::BodyReader<'static> {
    answer.response.into_body().into_with_config().limit(u64::MAX).reader()
}

/// Refuses answers that are compressed, and web pages where another file was asked for.
fn check_content(headers: &HeaderMap, url: &Url) -> Result<(), RemoteError> {
    let encoding = text(headers, "content-encoding").unwrap_or("identity").trim().to_ascii_lowercase();
    if !matches!(encoding.as_str(), "identity" | "") {
        let why = "the server compresses its answer, although no compression was asked for".to_owned();
        return Err(RemoteError::new(RemoteFault::Encoded, why));
    }
    let is_page =
        text(headers, "content-type").is_some_and(|kind| kind.trim().to_ascii_lowercase().starts_with("text/html"));
    let (_, name) = url.split();
    if is_page && !name.ends_with(".html") {
        return Err(RemoteError::new(RemoteFault::WebPage, "the server answers with a web page, not with this file"));
    }
    Ok(())
}

/// First byte, last byte and size of `Content-Range: bytes 0-99/1000`.
fn content_range(headers: &HeaderMap) -> Result<(u64, u64, u64), RemoteError> {
    let found = text(headers, "content-range").unwrap_or("nothing");
    let parse = || {
        let (range, bytes) = found.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
        let (first, last, bytes) = (number(first)?, number(last)?, number(bytes)?);
        (first <= last && last < bytes).then_some((first, last, bytes))
    };
    parse().ok_or_else(|| {
        let found: String = found.chars().filter(|c| !c.is_control()).take(60).collect();
        RemoteError::new(RemoteFault::Answer, format!("the server answers a range with Content-Range {found:?}"))
    })
}

fn wrong_range(found: &str, wanted: &str) -> RemoteError {
    RemoteError::new(RemoteFault::Answer, format!("the server answers with bytes {found}, {wanted} were asked for"))
}

/// Refuses a declared length that is not that of the range.
fn check_length(headers: &HeaderMap, wanted: u64) -> Result<(), RemoteError> {
    match text(headers, "content-length").map(|text| text.trim().parse::<u64>()) {
        Some(Ok(found)) if found == wanted => Ok(()),
        Some(found) => {
            let found = found.map_or_else(|_| "something else".to_owned(), |found| found.to_string());
            let why = format!("the server answers a range of {wanted} bytes with a length of {found}");
            Err(RemoteError::new(RemoteFault::Answer, why))
        }
        None => Ok(()),
    }
}

fn surplus() -> RemoteError {
    RemoteError::new(RemoteFault::Answer, "the server sends more bytes than the range has")
}

fn no_ranges(answer: &Answer) -> RemoteError {
    let why = format!("{} does not answer requests for ranges, it sends the whole file", answer.url.host());
    RemoteError::new(RemoteFault::NoRanges, why)
}

/// The first `bytes` bytes of a file, or fewer if the connection is cut: the rest is asked for when it is needed.
fn read_head(client: &Client, answer: &mut Answer, bytes: u64) -> Result<Vec<u8>, RemoteError> {
    check_length(answer.response.headers(), bytes)?;
    let mut head = Vec::new();
    match read_into(client, answer, bytes.saturating_add(1), &mut head) {
        _ if head.len() as u64 > bytes => Err(surplus()),
        Err(error) if head.is_empty() => Err(error),
        _ if head.is_empty() => Err(cut(answer)),
        _ => Ok(head),
    }
}

fn cut(answer: &Answer) -> RemoteError {
    RemoteError::new(RemoteFault::Connection, format!("{} cut the connection", answer.url.host()))
}

/// A whole file, which must not be long.
fn read_to_end(client: &Client, answer: &mut Answer, declared: Option<u64>) -> Result<Vec<u8>, RemoteError> {
    let found = read_up_to(client, answer, MAX_WHOLE_BYTES + 1)?;
    if found.len() as u64 > MAX_WHOLE_BYTES {
        return Err(no_ranges(answer));
    }
    match declared.is_none_or(|declared| declared == found.len() as u64) {
        true => Ok(found),
        false => Err(cut(answer)),
    }
}

/// The body of an answer, at most `most` bytes of it.
pub(crate) fn read_up_to(client: &Client, answer: &mut Answer, most: u64) -> Result<Vec<u8>, RemoteError> {
    let mut found = Vec::new();
    read_into(client, answer, most, &mut found)?;
    Ok(found)
}

fn read_into(client: &Client, answer: &mut Answer, most: u64, found: &mut Vec<u8>) -> Result<(), RemoteError> {
    let body = answer.response.body_mut().with_config().limit(u64::MAX).reader();
    let done = body.take(most).read_to_end(found);
    client.count_bytes(found.len());
    done.map_err(|error| of_io(&error, answer.url.host(), client.options.timeout))?;
    Ok(())
}
