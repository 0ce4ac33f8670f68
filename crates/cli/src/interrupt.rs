//! Ctrl-C and requests to end: the first stops the conversion cleanly, the second ends the process at once.

use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anamnesis::{AnamnesisError, CancelToken};

use crate::exit::{Exit, Failure};

/// Signals closer together than this are one request: tools like `timeout` signal both the process and its group.
const ONE_REQUEST: Duration = Duration::from_millis(300);

/// The token that the user's interruption cancels; the same for every call.
pub(crate) fn token() -> Result<CancelToken, Failure> {
    static TOKEN: OnceLock<CancelToken> = OnceLock::new();
    if let Some(token) = TOKEN.get() {
        return Ok(token.clone());
    }
    let token = CancelToken::new();
    let first: Mutex<Option<Instant>> = Mutex::new(None);
    let shared = token.clone();
    ctrlc::set_handler(move || {
        shared.cancel();
        let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.get_or_insert_with(Instant::now).elapsed() > ONE_REQUEST {
            std::process::exit(Exit::Interrupted as i32);
        }
    })
    .map_err(|error| AnamnesisError::Io(std::io::Error::other(error)))?;
    Ok(TOKEN.get_or_init(|| token).clone())
}
