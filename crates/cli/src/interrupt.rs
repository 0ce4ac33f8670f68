//! Signals: the first one cancels the conversion cleanly, the second one ends the process.
//!
//! A thread waits for the signals, which all others block, and cancels the token that workers poll. A process that is
//! blocked on a pipe may not poll: then the thread ends the process after a grace period, and nothing is lost that a
//! pipe could have kept.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anamnesis::{AnamnesisError, CancelToken};

use crate::exit::Exit;

/// Signals within this time are one request: tools like `timeout` signal both the process and its group.
const ONE_REQUEST: Duration = Duration::from_millis(300);

/// How long a process blocked on a pipe may take to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// The exit code of the first signal; zero before it.
static REQUESTED: AtomicU8 = AtomicU8::new(0);

/// Whether the process reads from or writes to a pipe that may block.
static IS_IN_PIPE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The token of a program that calls commands on this thread and handles signals itself.
    static CALLER: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// Runs `work` with `token` instead of signals.
pub(crate) fn by<T>(token: &CancelToken, work: impl FnOnce() -> T) -> T {
    let before = CALLER.replace(Some(token.clone()));
    let result = work();
    CALLER.set(before);
    result
}

/// The token that signals cancel, shared by all callers.
pub(crate) fn token() -> Result<CancelToken, AnamnesisError> {
    if let Some(token) = CALLER.with_borrow(Clone::clone) {
        return Ok(token);
    }
    static TOKEN: OnceLock<CancelToken> = OnceLock::new();
    if let Some(token) = TOKEN.get() {
        return Ok(token.clone());
    }
    let token = CancelToken::new();
    let request = Request { token: token.clone(), first: None };
    system::listen(request).map_err(|error| {
        let text = format!("the thread for signals cannot be started: {error}");
        AnamnesisError::Io(std::io::Error::new(error.kind(), text))
    })?;
    Ok(TOKEN.get_or_init(|| token).clone())
}

/// The exit code of an interrupted process, that of the first signal.
pub(crate) fn exit() -> Exit {
    [Exit::HungUp, Exit::Terminated]
        .into_iter()
        .find(|exit| *exit as u8 == REQUESTED.load(Ordering::Acquire))
        .unwrap_or(Exit::Interrupted)
}

/// Runs work that may block on a pipe, so that a signal ends it too.
pub(crate) fn in_pipe<T>(work: impl FnOnce() -> T) -> T {
    IS_IN_PIPE.store(true, Ordering::Release);
    let result = work();
    IS_IN_PIPE.store(false, Ordering::Release);
    result
}

/// Handles signals.
struct Request {
    token: CancelToken,
    first: Option<Instant>,
}

impl Request {
    fn take(&mut self, exit: Exit) {
        match self.first {
            Some(first) if first.elapsed() > ONE_REQUEST => std::process::exit(exit as i32),
            Some(_) => {}
            None => {
                self.first = Some(Instant::now());
                REQUESTED.store(exit as u8, Ordering::Release);
                self.token.cancel();
                // If the thread cannot be started, a second signal is needed.
                let _ = std::thread::Builder::new().spawn(move || {
                    std::thread::sleep(GRACE);
                    if IS_IN_PIPE.load(Ordering::Acquire) {
                        std::process::exit(exit as i32);
                    }
                });
            }
        }
    }
}

#[cfg(unix)]
mod system {
    use nix::sys::signal::{SigSet, Signal};

    use super::Request;
    use crate::exit::Exit;

    const SIGNALS: [(Signal, Exit); 3] =
        [(Signal::SIGINT, Exit::Interrupted), (Signal::SIGTERM, Exit::Terminated), (Signal::SIGHUP, Exit::HungUp)];

    /// Starts the thread that waits for signals. Threads started later inherit the blocked signals.
    pub(super) fn listen(mut request: Request) -> std::io::Result<()> {
        let ignored = ignored();
        let mut signals = SigSet::empty();
        for (signal, _) in SIGNALS.iter().filter(|(signal, _)| ignored & mask(*signal) == 0) {
            signals.add(*signal);
        }
        signals.thread_block()?;
        let wait = move || {
            while let Ok(signal) = signals.wait() {
                if let Some((_, exit)) = SIGNALS.iter().find(|(known, _)| *known == signal) {
                    request.take(*exit);
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
    }

    /// The signals that the parent process set to be ignored, as `nohup` does; none if the system does not report
    /// them.
    fn ignored() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    }

    const fn mask(signal: Signal) -> u64 {
        1 << (signal as u32 - 1)
    }
}

#[cfg(not(unix))]
mod system {
    use std::sync::{Mutex, PoisonError};

    use super::Request;
    use crate::exit::Exit;

    pub(super) fn listen(request: Request) -> std::io::Result<()> {
        let request = Mutex::new(request);
        let take = move || request.lock().unwrap_or_else(PoisonError::into_inner).take(Exit::Interrupted);
        ctrlc::set_handler(take).map_err(std::io::Error::other)
    }
}
