//! A server with the latency and the rate of a distant one, for measurements:
//!
//! ```sh
//! slow_server FILE [MILLISECONDS [BYTES_PER_SECOND]]
//! ```
//!
//! It prints its address and answers requests for FILE, whole or in ranges, each after a pause. All answers together
//! have the rate.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes between two pauses for the rate.
const STEP_BYTES: u64 = 256 << 10;

struct Service {
    path: String,
    pause: Duration,
    bytes_per_second: f64,
    /// When the bytes that were sent so far are due.
    due: Mutex<Instant>,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path =
        arguments.next().ok_or_else(|| io::Error::other("slow_server FILE [MILLISECONDS [BYTES_PER_SECOND]]"))?;
    let mut number = |default: f64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let pause = Duration::from_secs_f64(number(50.0) / 1000.0);
    let service = Service { path, pause, bytes_per_second: number(1e9), due: Mutex::new(Instant::now()) };
    let service = Arc::new(service);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}", listener.local_addr()?);
    for stream in listener.incoming().flatten() {
        let service = Arc::clone(&service);
        // A client that goes away is no error.
        std::thread::spawn(move || drop(service.serve(stream)));
    }
    Ok(())
}

impl Service {
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut requests = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        while requests.read_line(&mut line)? > 0 {
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let mut range = None;
            loop {
                line.clear();
                if requests.read_line(&mut line)? == 0 || line.trim().is_empty() {
                    break;
                }
                let lower = line.to_ascii_lowercase();
                if let Some((first, last)) =
                    lower.strip_prefix("range: bytes=").and_then(|text| text.trim().split_once('-'))
                {
                    range = first.parse::<u64>().ok().zip(last.parse::<u64>().ok());
                }
            }
            line.clear();
            std::thread::sleep(self.pause);
            self.answer(&mut stream, &path, range)?;
        }
        Ok(())
    }

    fn answer(&self, stream: &mut TcpStream, path: &str, range: Option<(u64, u64)>) -> io::Result<()> {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        if path.trim_start_matches('/') != name {
            return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        }
        let mut file = File::open(&self.path)?;
        let bytes = file.metadata()?.len();
        let (first, last) = range.map_or((0, bytes - 1), |(first, last)| (first, last.min(bytes - 1)));
        let (status, place) = match range {
            None => ("200 OK", String::new()),
            Some(_) => ("206 Partial Content", format!("Content-Range: bytes {first}-{last}/{bytes}\r\n")),
        };
        let left = last + 1 - first;
        write!(stream, "HTTP/1.1 {status}\r\nETag: \"{bytes}\"\r\nContent-Length: {left}\r\n{place}\r\n")?;
        file.seek(SeekFrom::Start(first))?;
        let mut left = left;
        while left > 0 {
            let step = left.min(STEP_BYTES);
            self.wait(step);
            io::copy(&mut (&file).take(step), stream)?;
            left -= step;
        }
        Ok(())
    }

    /// Waits until so many more bytes may be sent.
    fn wait(&self, bytes: u64) {
        let now = Instant::now();
        let due = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            *due = (*due).max(now) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
            *due
        };
        std::thread::sleep(due.saturating_duration_since(now));
    }
}
