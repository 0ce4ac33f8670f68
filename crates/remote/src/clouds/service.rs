//! The requests of `object_store`, sent by this crate's client.
//!
//! An answer that is not a success never reaches `object_store`: its text may repeat signed headers. It becomes a
//! [`Failure`] with the code that the store gives, which the caller finds behind the error.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Body, Frame};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use ureq::http::{HeaderMap, Method, StatusCode};
use ureq::{AsSendBody, SendBody};

use super::address::Scheme;
use crate::client::{Client, Failure, of_io, text};
use crate::error::{RemoteError, RemoteFault};

/// Bytes per read from a connection.
const STEP_BYTES: usize = 64 << 10;
/// Most bytes of an error that are read for its code.
const MAX_ERROR_BYTES: u64 = 64 << 10;
/// How long to wait for the credentials of the machine itself, which only machines of a cloud have.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(2);
/// The servers that machines of a cloud get their credentials from.
const MACHINE_HOSTS: [&str; 3] = ["169.254.169.254", "169.254.170.2", "metadata.google.internal"];

/// Makes the services of a store.
pub(super) struct Connector {
    client: Arc<Client>,
    scheme: Scheme,
}

impl Connector {
    pub(super) fn new(client: &Arc<Client>, scheme: Scheme) -> Self {
        Self { client: Arc::clone(client), scheme }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        Ok(HttpClient::new(Service { client: Arc::clone(&self.client), scheme: self.scheme, allows_http }))
    }
}

struct Service {
    client: Arc<Client>,
    scheme: Scheme,
    allows_http: bool,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.exchange(request).map_err(wrapped)
    }
}

fn wrapped(failure: Failure) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, failure)
}

impl Service {
    fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, Failure> {
        let host = request.uri().authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        let is_machine = request.uri().host().is_some_and(|host| MACHINE_HOSTS.contains(&host));
        if request.uri().scheme_str() != Some("https") && !self.allows_http {
            let variable = self.scheme.http_variable();
            let why = format!("the endpoint {host} is used without TLS only if {variable}=true");
            return Err(RemoteError::new(RemoteFault::Address, why).into());
        }
        let (parts, body) = request.into_parts();
        let pieces = pieces(body)?;
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        let has_body = bytes > 0 || matches!(parts.method, Method::PUT | Method::POST);
        let timeout = is_machine.then_some(MACHINE_TIMEOUT);
        let response = match has_body {
            true => {
                let mut request = ureq::http::Request::from_parts(parts, SendBody::from_owned_reader(Pieces(pieces)));
                request.headers_mut().entry("content-length").or_insert(bytes.into());
                self.send(request, &host, timeout)
            }
            false => self.send(ureq::http::Request::from_parts(parts, ()), &host, timeout),
        };
        let no_credentials = || {
            let why = format!(
                "there are no credentials in the environment ({}), and this machine has none of its own",
                self.scheme.credentials()
            );
            Failure::from(RemoteError::new(RemoteFault::Credentials, why))
        };
        let mut response = match response {
            Err(_) if is_machine => return Err(no_credentials()),
            response => response?,
        };
        let status = response.status();
        if !status.is_success() {
            if is_machine {
                return Err(no_credentials());
            }
            let mut found = Vec::new();
            let body = response.body_mut().with_config().limit(u64::MAX).reader();
            // Without the text there is no code.
            let _ = body.take(MAX_ERROR_BYTES).read_to_end(&mut found);
            self.client.count_bytes(found.len());
            return Err(refusal(status, response.headers(), &code(&found), &host));
        }
        let (parts, body) = response.into_parts();
        let reader = Mutex::new(body.into_with_config().limit(u64::MAX).reader());
        let body = AnswerBody { client: Arc::clone(&self.client), reader, host };
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }

    fn send(
        &self,
        request: ureq::http::Request<impl AsSendBody>,
        host: &str,
        timeout: Option<Duration>,
    ) -> Result<ureq::http::Response<ureq::Body>, Failure> {
        Ok(self.client.exchange(request, host, timeout)?)
    }
}

/// The failure that an answer other than success is.
fn refusal(status: StatusCode, headers: &HeaderMap, code: &str, host: &str) -> Failure {
    let shown = if code.is_empty() { String::new() } else { format!(" ({code})") };
    let region = text(headers, "x-amz-bucket-region").filter(|region| region.len() < 40);
    let failure = Failure::of_answer(status, headers, host);
    let (fault, why) = match (code, status.as_u16()) {
        ("NoSuchBucket" | "ContainerNotFound", _) => (RemoteFault::Missing, "there is no such bucket".to_owned()),
        (_, 301 | 307 | 308) if region.is_some() => {
            let why = format!("the bucket is in the region {}: set AWS_REGION", region.unwrap_or_default());
            (RemoteFault::Redirect, why)
        }
        (_, 300..=399) => (RemoteFault::Redirect, format!("{host} redirects, which is not followed{shown}")),
        ("SlowDown" | "ServerBusy", _) => (RemoteFault::RateLimit, format!("{host} is busy{shown}")),
        (_, 401) => (RemoteFault::Credentials, format!("{}{shown}", failure.error)),
        (_, 404 | 410) => (RemoteFault::Missing, format!("there is no such object{shown}")),
        (_, 409 | 412) => (RemoteFault::Changed, format!("the object changed or exists by now{shown}")),
        _ => (failure.error.fault(), format!("{}{shown}", failure.error)),
    };
    Failure { error: RemoteError::new(fault, why), ..failure }
}

/// The text of `<Code>` in an error.
fn code(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let found = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map(|(code, _)| code.trim());
    let is_code = |code: &&str| code.len() < 60 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    found.filter(is_code).unwrap_or_default().to_owned()
}

/// The body of a request, which is in memory.
fn pieces(mut body: HttpRequestBody) -> Result<VecDeque<Bytes>, Failure> {
    let mut pieces = VecDeque::new();
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
        let frame = frame.map_err(|_| RemoteError::new(RemoteFault::Connection, "the request cannot be sent"))?;
        pieces.extend(frame.into_data());
    }
    Ok(pieces)
}

/// Reads pieces one after the other.
struct Pieces(VecDeque<Bytes>);

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(first) = self.0.front_mut() {
            if first.is_empty() {
                self.0.pop_front();
                continue;
            }
            let count = first.len().min(buffer.len());
            if let Some(to) = buffer.get_mut(..count) {
                to.copy_from_slice(&first.split_to(count));
            }
            return Ok(count);
        }
        Ok(0)
    }
}

/// The body of an answer. Reading blocks.
struct AnswerBody {
    client: Arc<Client>,
    reader: Mutex<ureq::BodyReader<'static>>,
    host: String,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let mut buffer = vec![0; STEP_BYTES];
        let reader = self.reader.get_mut().unwrap_or_else(PoisonError::into_inner);
        match reader.read(&mut buffer) {
            Ok(0) => Poll::Ready(None),
            Ok(count) => {
                buffer.truncate(count);
                self.client.count_bytes(count);
                Poll::Ready(Some(Ok(Frame::data(buffer.into()))))
            }
            Err(error) => {
                let error = of_io(&error, &self.host, self.client.options.timeout);
                Poll::Ready(Some(Err(wrapped(error.into()))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_of_an_error_is_used() {
        let text = b"<Error><Code>SignatureDoesNotMatch</Code><StringToSign>x-amz-security-token:secret</StringToSign></Error>";
        assert_eq!(code(text), "SignatureDoesNotMatch");
        assert_eq!((code(b"<Code>a secret</Code>"), code(b"<html>"), code(b"")), Default::default());
        let failure = refusal(StatusCode::FORBIDDEN, &HeaderMap::new(), &code(text), "host");
        assert_eq!(failure.error.to_string(), "host refuses access (SignatureDoesNotMatch)");
        assert!(!failure.is_temporary && failure.error.fault() == RemoteFault::Forbidden);
    }
}
