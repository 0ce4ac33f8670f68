//! One request: redirects, credentials, statuses; and its repetition.
//!
//! Redirects are followed here and not by the HTTP library, because the token of the hub must never reach another
//! server, and because the target is remembered for the next range of the same file.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use crate::error::{RemoteError, RemoteFault};
use crate::options::RemoteOptions;
use crate::url::Url;

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;
/// Bytes that a connection reads at once.
const INPUT_BYTES: usize = 64 << 10;
/// The longest request, without a body.
const OUTPUT_BYTES: usize = 16 << 10;
/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(16);
/// The longest `Retry-After` that is waited for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);
/// Maximum size of a certificate file.
const MAX_AUTHORITIES_BYTES: u64 = 16 << 20;

/// Connections and settings that all files share.
pub(crate) struct Client {
    agent: Agent,
    pub(crate) options: RemoteOptions,
    /// The server that may see the token.
    hub: Option<Url>,
    requests: AtomicU64,
    bytes: AtomicU64,
    sent: AtomicU64,
    /// Names of optional files that may exist, but access to them is refused.
    refused: Mutex<BTreeSet<String>>,
}

/// A request for a file or a range of it.
pub(crate) struct Ask<'a> {
    pub(crate) url: &'a Url,
    /// First and last byte.
    pub(crate) range: Option<(u64, u64)>,
    /// The version that the range must belong to.
    pub(crate) if_range: Option<&'a str>,
}

/// An answer, and the address that gave it.
pub(crate) struct Answer {
    pub(crate) response: Response<Body>,
    pub(crate) url: Url,
}

impl Client {
    pub(crate) fn new(options: RemoteOptions) -> Result<Self, RemoteError> {
        let timeout = Some(options.timeout);
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("anamnesis/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            // Names are resolved within the time of the system: with another limit, ureq starts a thread for each, and
            // panics if it cannot.
            .timeout_connect(timeout)
            .timeout_send_request(timeout)
            .timeout_recv_response(timeout)
            .timeout_per_read(timeout)
            .input_buffer_size(INPUT_BYTES)
            .output_buffer_size(OUTPUT_BYTES)
            .max_idle_connections(options.concurrency.saturating_mul(2))
            .max_idle_connections_per_host(options.concurrency.saturating_mul(2));
        if let Some(path) = &options.authorities {
            config = config.tls_config(TlsConfig::builder().root_certs(authorities(path)?).build());
        }
        let hub = Url::parse(&options.hub.endpoint).ok();
        Ok(Self {
            agent: config.build().new_agent(),
            options,
            hub,
            requests: 0.into(),
            bytes: 0.into(),
            sent: 0.into(),
            refused: Mutex::default(),
        })
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The number of bytes received so far, without headers.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn note_refused(&self, name: &str) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    /// The noted names.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The number of bytes sent so far in files.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    #[cfg(feature = "clouds")]
    pub(crate) fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Sends a request once, and follows redirects. Any final status is an answer.
    pub(crate) fn send(&self, ask: &Ask<'_>) -> Result<Answer, RemoteError> {
        let mut url = ask.url.clone();
        let mut seen = HashSet::new();
        loop {
            if !seen.insert(url.to_send()) {
                return Err(RemoteError::new(RemoteFault::Redirect, "the server redirects in a circle"));
            }
            if seen.len() > MAX_REDIRECTS {
                let why = format!("the server redirects more than {MAX_REDIRECTS} times");
                return Err(RemoteError::new(RemoteFault::Redirect, why));
            }
            let response = self.send_to(&url, ask)?;
            let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            match text(response.headers(), "location").filter(|_| is_redirect) {
                Some(location) => url = url.redirected(location)?,
                None => return Ok(Answer { response, url }),
            }
        }
    }

    fn send_to(&self, url: &Url, ask: &Ask<'_>) -> Result<Response<Body>, RemoteError> {
        self.check_cancelled()?;
        let mut request = self.agent.get(url.to_send());
        if let Some((first, last)) = ask.range {
            request = request.header("Range", format!("bytes={first}-{last}"));
        }
        if let Some(version) = ask.if_range {
            request = request.header("If-Range", version);
        }
        if let Some(authorization) = self.authorization(url) {
            request = request.header("Authorization", authorization);
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        request.call().map_err(|error| failed(&error, url.host(), self.options.timeout))
    }

    /// The credentials for an address: the token, if the server is the hub.
    fn authorization(&self, url: &Url) -> Option<String> {
        let is_hub = self.hub.as_ref().is_some_and(|hub| hub.has_same_origin(url));
        self.options.hub.token.as_ref().filter(|_| is_hub).map(|token| format!("Bearer {token}"))
    }

    /// Sends a request with a body once. Any status is an answer, a redirect too.
    pub(crate) fn post(&self, url: &Url, content_type: &str, body: &[u8]) -> Result<Answer, RemoteError> {
        self.check_cancelled()?;
        let mut request = self.agent.post(url.to_send()).content_type(content_type).header("Accept", content_type);
        if let Some(authorization) = self.authorization(url) {
            request = request.header("Authorization", authorization);
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let response = request.send(body).map_err(|error| failed(&error, url.host(), self.options.timeout))?;
        Ok(Answer { response, url: url.clone() })
    }

    /// Sends a prepared request once. Any status is an answer. `timeout` is a shorter one than that of the options.
    #[cfg(feature = "clouds")]
    pub(crate) fn exchange(
        &self,
        request: ureq::http::Request<impl ureq::AsSendBody>,
        host: &str,
        timeout: Option<Duration>,
    ) -> Result<Response<Body>, RemoteError> {
        // An operation that was cancelled still removes what it has begun.
        if request.method() != ureq::http::Method::DELETE {
            self.check_cancelled()?;
        }
        let timeout = timeout.unwrap_or(self.options.timeout).min(self.options.timeout);
        let request = self.agent.configure_request(request).timeout_connect(Some(timeout)).build();
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.agent.run(request).map_err(|error| failed(&error, host, timeout))
    }

    pub(crate) fn check_cancelled(&self) -> Result<(), RemoteError> {
        match self.options.cancel.is_cancelled() {
            true => Err(RemoteError::new(RemoteFault::Cancelled, "the operation was cancelled")),
            false => Ok(()),
        }
    }

    /// Repeats a request that fails for the moment.
    pub(crate) fn repeat<T>(&self, mut send: impl FnMut() -> Result<T, Failure>) -> Result<T, RemoteError> {
        let mut attempt = 0;
        loop {
            match send() {
                Ok(done) => return Ok(done),
                Err(failure) => self.pause(attempt, failure)?,
            }
            attempt += 1;
        }
    }

    /// Waits before attempt number `attempt`, at least as long as the server asks for.
    ///
    /// # Errors
    /// The error itself, if there are no attempts left, it is final, or the server asks for too long a pause.
    pub(crate) fn pause(&self, attempt: u32, failure: Failure) -> Result<(), RemoteError> {
        if attempt >= self.options.retries || !failure.is_temporary {
            return Err(failure.error);
        }
        let growing = self.options.pause.saturating_mul(1 << attempt.min(16)).min(MAX_PAUSE);
        if failure.retry_after.is_some_and(|pause| pause > MAX_RETRY_AFTER) {
            return Err(failure.error);
        }
        let end = Instant::now() + growing.max(failure.retry_after.unwrap_or_default());
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.check_cancelled()?;
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        Ok(())
    }
}

/// A failed attempt.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) error: RemoteError,
    /// Whether another attempt may succeed.
    pub(crate) is_temporary: bool,
    /// The pause that the server asks for.
    pub(crate) retry_after: Option<Duration>,
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let is_temporary = matches!(error.fault(), RemoteFault::Timeout | RemoteFault::Connection);
        Self { error, is_temporary, retry_after: None }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// The failure that a status other than success is.
    pub(crate) fn of_status(answer: &Answer) -> Self {
        Self::of_answer(answer.response.status(), answer.response.headers(), answer.url.host())
    }

    /// The failure that an answer with this status is.
    pub(crate) fn of_answer(status: StatusCode, headers: &HeaderMap, host: &str) -> Self {
        let code = text(headers, "x-error-code").unwrap_or_default();
        let (fault, why) = match (code, status.as_u16()) {
            ("GatedRepo", _) => (RemoteFault::Gated, "access to this model has to be granted by its owner".to_owned()),
            ("RepoNotFound", _) => {
                let why = "there is no such model, or it is private and the token does not give access to it";
                (RemoteFault::Missing, why.to_owned())
            }
            ("RevisionNotFound", _) => (RemoteFault::Missing, "the model has no such revision".to_owned()),
            ("EntryNotFound", _) => (RemoteFault::Missing, "the model has no such file".to_owned()),
            (_, 401) => (RemoteFault::Unauthorized, format!("{host} asks for credentials, or does not accept them")),
            (_, 403) => (RemoteFault::Forbidden, format!("{host} refuses access")),
            (_, 404 | 410) => (RemoteFault::Missing, format!("{host} has no such file")),
            (_, 429) => (RemoteFault::RateLimit, format!("{host} answers too many requests with a pause")),
            _ => (RemoteFault::Status, format!("{host} answers with status {}", described(status))),
        };
        let retry_after =
            text(headers, "retry-after").and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        let is_temporary = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
        Self { error: RemoteError::new(fault, why), is_temporary, retry_after }
    }
}

fn described(status: StatusCode) -> String {
    format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default()).trim().to_owned()
}

/// A header as text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The error of an attempt without an answer.
fn failed(error: &ureq::Error, host: &str, timeout: Duration) -> RemoteError {
    match error {
        ureq::Error::Timeout(_) => timed_out(host, timeout),
        ureq::Error::Io(error) => of_io(error, host, timeout),
        ureq::Error::HostNotFound => {
            RemoteError::new(RemoteFault::Unreachable, format!("the host {host} is not known"))
        }
        ureq::Error::ConnectionFailed => RemoteError::new(RemoteFault::Connection, format!("{host} cannot be reached")),
        ureq::Error::Protocol(error) => {
            let why = format!("{host} answers with something that is not HTTP: {error}");
            RemoteError::new(RemoteFault::Answer, why)
        }
        // The text of other errors may contain the address with its query.
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
            RemoteError::new(RemoteFault::Address, "the address cannot be sent".to_owned())
        }
        other => RemoteError::new(RemoteFault::Connection, format!("the connection to {host} failed: {other}")),
    }
}

fn timed_out(host: &str, timeout: Duration) -> RemoteError {
    let why = format!("{host} did not answer within {:?}", timeout);
    RemoteError::new(RemoteFault::Timeout, why)
}

/// The error of a connection.
pub(crate) fn of_io(error: &std::io::Error, host: &str, timeout: Duration) -> RemoteError {
    use std::io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, TimedOut, UnexpectedEof,
        WouldBlock,
    };
    if let Some(found) = error.get_ref().and_then(|error| error.downcast_ref::<RemoteError>()) {
        return found.clone();
    }
    match error.kind() {
        TimedOut | WouldBlock => timed_out(host, timeout),
        UnexpectedEof => RemoteError::new(RemoteFault::Connection, format!("{host} cut the connection")),
        BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted => {
            RemoteError::new(RemoteFault::Connection, format!("the connection to {host} failed: {error}"))
        }
        // A host that is not known has no kind of its own.
        _ => RemoteError::new(RemoteFault::Unreachable, format!("{host} cannot be reached: {error}")),
    }
}

/// The certificates of a PEM file.
fn authorities(path: &std::path::Path) -> Result<RootCerts, RemoteError> {
    let fail = |why: String| {
        let path = path.display();
        RemoteError::new(RemoteFault::Connection, format!("the certificates of {path} cannot be used: {why}"))
    };
    let bytes = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?.len();
    if bytes > MAX_AUTHORITIES_BYTES {
        return Err(fail(format!("the file takes {bytes} bytes")));
    }
    let pem = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| fail(error.to_string()))? {
            found.push(certificate);
        }
    }
    match found.is_empty() {
        true => Err(fail("it has none".to_owned())),
        false => Ok(RootCerts::new_with_certs(&found)),
    }
}
