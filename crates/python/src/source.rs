//! Bytes that Python holds, as the library reads them: `bytes`, and file objects that can seek.

use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};

use anamnesis::PositionedRead;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// A `bytes` object, read in place.
pub(crate) struct Bytes(pub PyBackedBytes);

impl PositionedRead for Bytes {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let start = usize::try_from(offset).ok();
        let found = start.and_then(|start| self.0.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(found.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The last exception that a file object raised.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// A binary file object of Python's. Readers take turns, as it has one position.
pub(crate) struct FileObject {
    object: Py<PyAny>,
    /// Whoever reads has it, and never waits for the interpreter's lock before it has.
    turn: Mutex<()>,
    /// The process that opened it: a child shares the position with its parent.
    process: u32,
    raised: Raised,
}

impl FileObject {
    /// Exceptions go to `raised`, as errors of the library are texts and numbers.
    pub(crate) fn new(object: Py<PyAny>, raised: Raised) -> Self {
        Self { object, turn: Mutex::new(()), process: std::process::id(), raised }
    }

    fn failed(&self, error: PyErr) -> Error {
        let text = format!("the file object raised {error}");
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        Error::other(text)
    }

    /// Whether an object can be read and can seek.
    pub(crate) fn fits(object: &Bound<'_, PyAny>) -> bool {
        ["read", "seek"].iter().all(|method| object.hasattr(*method).unwrap_or(false))
    }

    fn read(&self, py: Python<'_>, buffer: &mut [u8], offset: u64) -> PyResult<std::io::Result<()>> {
        self.object.call_method1(py, "seek", (offset,))?;
        let mut filled = 0;
        while filled < buffer.len() {
            let read = self.object.call_method1(py, "read", (buffer.len() - filled,))?;
            let read = read.bind(py).cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
            let rest = &mut buffer[filled..];
            if read.is_empty() || read.len() > rest.len() {
                let at = offset + filled as u64;
                let why = format!(
                    "the file object returned {} bytes at byte {at}, {} were asked for",
                    read.len(),
                    rest.len()
                );
                return Ok(Err(Error::new(ErrorKind::UnexpectedEof, why)));
            }
            rest[..read.len()].copy_from_slice(read);
            filled += read.len();
        }
        Ok(Ok(()))
    }
}

impl PositionedRead for FileObject {
    fn size(&self) -> std::io::Result<u64> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Python::attach(|py| self.object.call_method1(py, "seek", (0, 2))?.extract(py))
            .map_err(|error| self.failed(error))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        if std::process::id() != self.process {
            return Err(Error::other("the file object was opened before a fork, open it again in this process"));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Python::attach(|py| self.read(py, buffer, offset)).map_err(|error| self.failed(error))?
    }
}
