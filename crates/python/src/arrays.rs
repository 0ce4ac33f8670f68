//! Arrays of Python's as a checkpoint: a file whose data stays in the arrays.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anamnesis::{
    CancelToken, Checkpoint, ConvertOptions, ConvertTarget, Dtype, Existing, MemoryTensor, MemoryTensors, OpenOptions,
};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::exception;
use crate::wait::interruptible;

/// A tensor that Python hands over: name, type by its name in safetensors, shape, bytes.
pub(crate) type Given<'py> = (String, String, Vec<usize>, Bound<'py, PyArray1<u8>>);

/// The bytes of one array.
pub(crate) struct ArrayBytes {
    data: *const u8,
    length: usize,
    /// Keeps the memory where it is.
    _array: Py<PyArray1<u8>>,
}

// SAFETY: the memory is only read, and lives as long as the reference to the array.
unsafe impl Send for ArrayBytes {}
// SAFETY: as above.
unsafe impl Sync for ArrayBytes {}

impl AsRef<[u8]> for ArrayBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: contiguous memory of an array that is referenced here, so that NumPy neither frees nor moves it. Who writes
        // to an array while it is being saved gets some of what was written, as with every function that reads arrays
        // without the interpreter's lock.
        unsafe { std::slice::from_raw_parts(self.data, self.length) }
    }
}

/// Arrays of Python's as a file, without a copy.
pub(crate) fn arrays(
    tensors: &[Given<'_>],
    metadata: &BTreeMap<String, String>,
) -> PyResult<MemoryTensors<ArrayBytes>> {
    let tensor = |(name, dtype, shape, array): &Given<'_>| {
        let data = array.try_readonly().map_err(|error| PyValueError::new_err(format!("{name:?}: {error}")))?;
        let data = data.as_slice().map_err(|_| PyValueError::new_err(format!("{name:?} is not contiguous")))?;
        // An empty array may point anywhere.
        let (data, length) = if data.is_empty() { ([].as_ptr(), 0) } else { (data.as_ptr(), data.len()) };
        let unknown = || PyValueError::new_err(format!("{name:?}: there is no type {dtype:?}"));
        let dtype = Dtype::from_name(dtype).ok_or_else(unknown)?;
        let data = ArrayBytes { data, length, _array: array.clone().unbind() };
        Ok(MemoryTensor { name: name.clone(), dtype, shape: shape.clone(), data })
    };
    let tensors = tensors.iter().map(tensor).collect::<PyResult<Vec<_>>>()?;
    MemoryTensors::new(tensors, metadata).map_err(|error| PyValueError::new_err(error.to_string()))
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
    let arrays = arrays(&tensors, &metadata.into_iter().collect())?;
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
