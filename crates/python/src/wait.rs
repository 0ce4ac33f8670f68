//! Long work without the interpreter, which Ctrl-C stops.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anamnesis::CancelToken;
use pyo3::prelude::*;

use crate::errors::internal;

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(30);

/// Does `work` on another thread and waits for it, without the interpreter. Python's handlers of signals run meanwhile; where
/// one raises, as Ctrl-C does, `cancel` is set, and the exception follows once the work has stopped.
///
/// `tick` is called between looks, with the interpreter; where it raises, the work is stopped in the same way.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: &CancelToken,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()> + Send,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, is_done) = channel::<()>();
            let worker = std::thread::Builder::new().name("anamnesis".to_owned()).spawn_scoped(scope, move || {
                // Dropped when the work ends in any way.
                let _done = done;
                work()
            });
            let worker = worker.map_err(PyErr::from)?;
            let mut raised = None;
            while is_done.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none() {
                    let looked = Python::attach(|py| py.check_signals().and_then(|()| tick(py)));
                    if let Err(error) = looked {
                        cancel.cancel();
                        raised = Some(error);
                    }
                }
            }
            let result = worker.join().map_err(|_| internal("a worker panicked"))?;
            match raised {
                Some(error) => Err(error),
                None => Ok(result),
            }
        })
    })
}
