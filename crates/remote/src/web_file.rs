//! A file of a web server. Every answer is checked: its range, its length, its version and its encoding.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ureq::http::{HeaderMap, StatusCode};

use crate::client::{Answer, Ask, Client, Failure, of_io, text};
use crate::error::{RemoteError, RemoteFault};
use crate::file::{Beginning, Known, Transport, Version, changed, surplus};
use crate::url::Url;

/// The longest file that is accepted whole from a server that ignores ranges.
const MAX_WHOLE_BYTES: u64 = 4 << 20;

/// A file of a web server.
pub(crate) struct WebFile {
    client: Arc<Client>,
    url: Url,
    /// The target of its redirects, until it expires.
    target: Mutex<Option<Url>>,
}

fn version_of(headers: &HeaderMap) -> Version {
    let own = |name| text(headers, name).map(str::to_owned);
    Version { etag: own("etag"), modified: own("last-modified") }
}

/// The text for `If-Range`, which must be a strong one.
fn if_range(version: &Version) -> Option<&str> {
    match &version.etag {
        Some(etag) if etag.starts_with("W/") => None,
        Some(etag) => Some(etag),
        None => version.modified.as_deref(),
    }
}

impl WebFile {
    pub(crate) fn new(client: &Arc<Client>, url: Url) -> Self {
        Self { client: Arc::clone(client), url, target: Mutex::default() }
    }

    /// It with the target of its redirects, if that is known already.
    pub(crate) fn with_target(self, target: Option<Url>) -> Self {
        Self { target: Mutex::new(target), ..self }
    }

    fn target(&self) -> Option<Url> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_target(&self, target: Url) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(target).filter(|target| *target != self.url);
    }

    fn ask(&self, url: &Url, range: &Range<u64>, version: &Version) -> Result<Answer, RemoteError> {
        let range = Some((range.start, range.end - 1));
        self.client.send(&Ask { url, range, if_range: if_range(version) })
    }
}

impl Transport for WebFile {
    fn host(&self) -> String {
        self.target().as_ref().unwrap_or(&self.url).host().to_owned()
    }

    fn begin(&self, wanted: u64) -> Result<Beginning, Failure> {
        let (client, url) = (&*self.client, &self.url);
        let ask = |url: &Url| client.send(&Ask { url, range: Some((0, wanted - 1)), if_range: None });
        let mut answer = match self.target().map(|target| ask(&target)) {
            Some(Ok(answer)) if answer.response.status().is_success() => answer,
            Some(Err(error)) if error.fault() == RemoteFault::Cancelled => return Err(error.into()),
            _ => ask(url)?,
        };
        let headers = answer.response.headers();
        let version = version_of(headers);
        let status = answer.response.status();
        if status.is_success() {
            check_content(headers, url)?;
        }
        let (bytes, head) = match status {
            StatusCode::PARTIAL_CONTENT => {
                let (first, last, bytes) = content_range(headers)?;
                let wanted = bytes.min(wanted);
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
        self.set_target(answer.url);
        Ok(Beginning { known: Known { bytes, version }, head })
    }

    fn range(&self, range: Range<u64>, known: &Known) -> Result<Box<dyn Read + Send>, Failure> {
        let target = self.target();
        let mut answer = self.ask(target.as_ref().unwrap_or(&self.url), &range, &known.version)?;
        let is_expired = matches!(answer.response.status().as_u16(), 400 | 401 | 403 | 404 | 410);
        if target.is_some() && is_expired {
            // A signed address expires; the original one leads to a new one.
            answer = self.ask(&self.url, &range, &known.version)?;
        }
        let headers = answer.response.headers();
        let version = version_of(headers);
        match answer.response.status() {
            StatusCode::PARTIAL_CONTENT => {
                check_content(headers, &self.url)?;
                let (first, last, bytes) = content_range(headers)?;
                if bytes != known.bytes || known.version.differs(&version) {
                    return Err(changed().into());
                }
                if first != range.start || last.checked_add(1) != Some(range.end) {
                    let wanted = format!("{}-{}", range.start, range.end - 1);
                    return Err(wrong_range(&format!("{first}-{last}"), &wanted).into());
                }
            }
            StatusCode::OK => {
                let declared = text(headers, "content-length").and_then(|text| text.parse::<u64>().ok());
                let is_same = !known.version.differs(&version) && declared.is_none_or(|bytes| bytes == known.bytes);
                return Err(if is_same { no_ranges(&answer) } else { changed() }.into());
            }
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PRECONDITION_FAILED => return Err(changed().into()),
            _ => return Err(Failure::of_status(&answer)),
        }
        check_length(headers, range.end - range.start)?;
        self.set_target(answer.url.clone());
        let reader = answer.response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(Box::new(CountedBody { client: Arc::clone(&self.client), reader }))
    }
}

/// The bytes of an answer, which are counted.
struct CountedBody {
    client: Arc<Client>,
    reader: ureq::BodyReader<'static>,
}

impl Read for CountedBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.client.count_bytes(count);
        Ok(count)
    }
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
