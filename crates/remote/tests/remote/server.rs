//! An HTTP server for tests, which answers as it is told: correctly, or with faults.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// With the query.
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    /// First and last byte of its range.
    pub fn range(&self) -> Option<(u64, u64)> {
        let (first, last) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }

    pub fn name(&self) -> &str {
        self.path.split('?').next().unwrap()
    }
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Close the connection after so many bytes of the body.
    pub cut: Option<usize>,
    /// The declared length, if it is not that of the body.
    pub length: Option<usize>,
    /// Send nothing for so long.
    pub delay: Duration,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.retain(|(found, _)| !found.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// The answer of a correct server for a file.
    pub fn file(content: &[u8], etag: &str, request: &Request) -> Self {
        let etag = format!("\"{etag}\"");
        let is_current = request.headers.get("if-range").is_none_or(|wanted| *wanted == etag);
        let reply = match request.range().filter(|_| is_current) {
            None => Self::new(200, content),
            Some((first, _)) if first >= content.len() as u64 => {
                Self::new(416, "").with("Content-Range", format!("bytes */{}", content.len()))
            }
            Some((first, last)) => {
                let last = last.min(content.len() as u64 - 1);
                let range = format!("bytes {first}-{last}/{}", content.len());
                Self::new(206, &content[first as usize..=last as usize]).with("Content-Range", range)
            }
        };
        reply.with("ETag", etag)
    }
}

type Handler = dyn Fn(&Request, usize) -> Reply + Send + Sync;

/// A server on this machine, which ends with this value.
pub struct Server {
    pub address: String,
    seen: Arc<Mutex<Vec<Request>>>,
    bytes: Arc<AtomicU64>,
    is_closed: Arc<AtomicBool>,
}

impl Server {
    /// A server whose handler gets every request with its number.
    pub fn start(handler: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (seen, bytes, is_closed) = (Arc::default(), Arc::default(), Arc::new(AtomicBool::new(false)));
        let server = Self { address, seen, bytes, is_closed };
        let (seen, bytes, closed) =
            (Arc::clone(&server.seen), Arc::clone(&server.bytes), Arc::clone(&server.is_closed));
        let handler: Arc<Handler> = Arc::new(handler);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if closed.load(Ordering::Relaxed) {
                    break;
                }
                let (seen, bytes, handler) = (Arc::clone(&seen), Arc::clone(&bytes), Arc::clone(&handler));
                std::thread::spawn(move || {
                    let _ = serve(stream, &seen, &bytes, &*handler);
                });
            }
        });
        server
    }

    /// A correct server for these files.
    pub fn of(files: HashMap<String, Vec<u8>>) -> Self {
        Self::start(move |request, _| match files.get(request.name()) {
            Some(content) => Reply::file(content, &content.len().to_string(), request),
            None => Reply::new(404, "not found"),
        })
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// The bytes of all bodies so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<Request>>, bytes: &AtomicU64, handler: &Handler) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").and_then(|text: &String| text.parse::<usize>().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let request = Request { method, path, headers, body };
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        let reply = handler(&request, number);
        std::thread::sleep(reply.delay);
        let mut head = format!("HTTP/1.1 {} Status\r\n", reply.status);
        head += &format!("Content-Length: {}\r\n", reply.length.unwrap_or(reply.body.len()));
        for (name, value) in &reply.headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        let sent =
            if request.method == "HEAD" { 0 } else { reply.cut.unwrap_or(reply.body.len()).min(reply.body.len()) };
        stream.write_all(&reply.body[..sent])?;
        bytes.fetch_add(sent as u64, Ordering::Relaxed);
        let is_short = sent < reply.length.unwrap_or(reply.body.len()) && request.method != "HEAD";
        if reply.cut.is_some() || is_short {
            return stream.shutdown(std::net::Shutdown::Both);
        }
    }
}
