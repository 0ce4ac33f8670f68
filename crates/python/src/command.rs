//! The commands of `amn`: called with the result as a document, or run as the program.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anamnesis::CancelToken;
use anamnesis_cli::CallFailure;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{raised, with_message};
use crate::wait::interruptible;

/// Bytes done, and bytes there are to do.
#[derive(Default)]
struct Figures {
    done: AtomicU64,
    total: AtomicU64,
}

impl Figures {
    fn set(&self, done: u64, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}

/// Runs a command and returns its document as JSON text. `progress` is called with the bytes done and their total.
#[pyfunction]
#[pyo3(signature = (arguments, progress=None))]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let (cancel, figures) = (CancelToken::new(), Arc::new(Figures::default()));
    let report = {
        let figures = Arc::clone(&figures);
        Arc::new(move |done, total| figures.set(done, total))
    };
    let mut last = None;
    let mut show = |py: Python<'_>| match &progress {
        Some(progress) if last.replace(figures.get()) != Some(figures.get()) => {
            progress.call1(py, figures.get()).map(drop)
        }
        _ => Ok(()),
    };
    let called = interruptible(py, &cancel, &mut show, || anamnesis_cli::call(&arguments, &cancel, Some(report)))?;
    match called {
        Ok(document) => {
            // Headers and sidecars are not counted on the way.
            let (_, total) = figures.get();
            figures.set(total, total);
            show(py)?;
            Ok(document.to_string())
        }
        // What `verify` and `scan` found is their result, whatever it is.
        Err(failure) => match failure.document {
            Some(document) => Ok(document.to_string()),
            None => Err(exception(py, &failure)?),
        },
    }
}

fn exception(py: Python<'_>, failure: &CallFailure) -> PyResult<PyErr> {
    if let Some(error) = &failure.error {
        return with_message(py, error, &failure.message);
    }
    let class = match failure.kind {
        "usage" => "UsageError",
        "nothing" => "NothingToDoError",
        "cancelled" => "CancelledError",
        _ => "AnamnesisError",
    };
    raised(py, class, &failure.message, &PyDict::new(py))
}

/// The options of a command: name, help, whether a value follows, whether it repeats. `None` where there is no such command.
#[pyfunction]
pub(crate) fn flags(command: &str) -> Option<Vec<(String, String, bool, bool)>> {
    let flags = anamnesis_cli::flags(command)?;
    Some(flags.into_iter().map(|flag| (flag.name, flag.help, flag.takes_value, flag.repeats)).collect())
}

/// Runs the command line with these arguments, and returns its exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| anamnesis_cli::run_with(&arguments))
}
