//! Arrays of Python's as a checkpoint: a safetensors file whose data stays in the arrays.

use std::io::{Error, ErrorKind};
use std::path::PathBuf;

use anamnesis::{CancelToken, Checkpoint, ConvertOptions, ConvertTarget, Existing, OpenOptions, PositionedRead};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use crate::errors::exception;
use crate::wait::interruptible;

/// A tensor that Python hands over: name, type by its name in safetensors, shape, bytes.
pub(crate) type Given<'py> = (String, String, Vec<usize>, Bound<'py, PyArray1<u8>>);

/// The bytes of one array.
struct Piece {
    /// Where they begin in the file.
    start: u64,
    data: *const u8,
    length: usize,
    /// Keeps the memory where it is.
    _array: Py<PyArray1<u8>>,
}

// SAFETY: the memory is only read, and lives as long as the reference to the array.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Piece {
    const fn bytes(&self) -> &[u8] {
        // SAFETY: contiguous memory of an array that is referenced here, so that NumPy neither frees nor moves it. Who writes
        // to an array while it is being saved gets some of what was written, as with every function that reads arrays
        // without the interpreter's lock.
        unsafe { std::slice::from_raw_parts(self.data, self.length) }
    }
}

/// A header, and the bytes of arrays behind it.
pub(crate) struct Arrays {
    header: Vec<u8>,
    /// In the order of their places.
    pieces: Vec<Piece>,
    bytes: u64,
}

impl Arrays {
    pub(crate) fn new(tensors: &[Given<'_>], metadata: Map<String, Value>) -> PyResult<Self> {
        let (mut entries, mut pieces, mut end) = (Map::new(), Vec::new(), 0u64);
        if !metadata.is_empty() {
            entries.insert("__metadata__".to_owned(), Value::Object(metadata));
        }
        for (name, dtype, shape, array) in tensors {
            let (data, length) = {
                let data = array.try_readonly().map_err(|error| PyValueError::new_err(format!("{name:?}: {error}")))?;
                let data = data.as_slice().map_err(|_| PyValueError::new_err(format!("{name:?} is not contiguous")))?;
                // An empty array may point anywhere.
                if data.is_empty() { ([].as_ptr(), 0) } else { (data.as_ptr(), data.len()) }
            };
            let start = end;
            end += length as u64;
            let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
            if entries.insert(name.clone(), entry).is_some() {
                return Err(PyValueError::new_err(format!("two tensors are named {name:?}")));
            }
            pieces.push(Piece { start, data, length, _array: array.clone().unbind() });
        }
        let mut text = Value::Object(entries).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut header = (text.len() as u64).to_le_bytes().to_vec();
        header.extend(text);
        let front = header.len() as u64;
        for piece in &mut pieces {
            piece.start += front;
        }
        Ok(Self { header, pieces, bytes: front + end })
    }
}

impl PositionedRead for Arrays {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|&end| end <= self.bytes);
        let end = end.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?;
        let first = self.pieces.partition_point(|piece| piece.start + piece.length as u64 <= offset);
        let header = std::iter::once((0, &self.header[..]));
        let pieces = self.pieces[first..].iter().map(|piece| (piece.start, piece.bytes()));
        for (start, bytes) in header.chain(pieces).take_while(|(start, _)| *start < end) {
            let (from, to) = (offset.max(start), end.min(start + bytes.len() as u64));
            if from < to {
                let piece = &bytes[(from - start) as usize..(to - start) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
            }
        }
        Ok(())
    }
}

/// Writes arrays to a file of a format by its name, as they are.
#[pyfunction]
#[pyo3(signature = (tensors, metadata, path, format, force))]
pub(crate) fn save(
    py: Python<'_>,
    tensors: Vec<Given<'_>>,
    metadata: Vec<(String, String)>,
    path: PathBuf,
    format: &str,
    force: bool,
) -> PyResult<()> {
    let metadata = metadata.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
    let arrays = Arrays::new(&tensors, metadata)?;
    let cancel = CancelToken::new();
    let existing = if force { Existing::Replace } else { Existing::Refuse };
    let mut options = ConvertOptions::new().with_existing(existing).with_keep_names(true);
    options = options.with_cancel(cancel.clone());
    let target = ConvertTarget::parse(format).map_err(|error| exception(py, &error))?;
    let work = || {
        let checkpoint = Checkpoint::from_positioned(arrays, &OpenOptions::new().with_plain(true))?;
        checkpoint.plan_convert(target, &options)?.write(path, |_| {})
    };
    interruptible(py, &cancel, |_| Ok(()), work)?.map_err(|error| exception(py, &error))?;
    Ok(())
}
