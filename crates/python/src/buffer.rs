//! Memory that decoded values are written to: an array of NumPy's, or an aligned block for DLPack.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use numpy::{PyArray1, PyArrayMethods, PyReadwriteArray1};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors::internal;

/// A new array of so many bytes, whose contents are not set.
pub(crate) fn empty(py: Python<'_>, bytes: u64) -> PyResult<Bound<'_, PyArray1<u8>>> {
    static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    // Called as Python calls it, so that a lack of memory is an exception.
    let array = EMPTY.import(py, "numpy", "empty")?.call1((bytes, "u1"))?;
    Ok(array.cast_into()?)
}

/// Exclusive access to a new array that is not shared yet.
pub(crate) fn writable<'py>(array: &Bound<'py, PyArray1<u8>>) -> PyResult<PyReadwriteArray1<'py, u8>> {
    array.try_readwrite().map_err(|_| internal("a new array is in use"))
}

/// The bytes of such an array.
pub(crate) fn slice<'a>(array: &'a mut PyReadwriteArray1<'_, u8>) -> PyResult<&'a mut [u8]> {
    array.as_slice_mut().map_err(|_| internal("a new array is not contiguous"))
}

/// Zeroed bytes that begin at a multiple of 64, as JAX wants them to be to take them without a copy.
pub(crate) struct Aligned {
    block: NonNull<u8>,
    layout: Layout,
    start: usize,
    bytes: usize,
}

const ALIGNMENT: usize = 64;

// SAFETY: the block belongs to this value alone.
unsafe impl Send for Aligned {}
// SAFETY: shared references give out nothing that could be written.
unsafe impl Sync for Aligned {}

impl Aligned {
    pub(crate) fn new(bytes: u64) -> PyResult<Self> {
        let too_large = || PyMemoryError::new_err(format!("{bytes} bytes"));
        let bytes = usize::try_from(bytes).map_err(|_| too_large())?;
        // Without an alignment, a zeroed allocation may use fresh pages, which need no clearing.
        let room = bytes.checked_add(ALIGNMENT).ok_or_else(too_large)?;
        let layout = Layout::from_size_align(room, 1).map_err(|_| too_large())?;
        // SAFETY: the layout is not empty.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_large)?;
        let start = block.as_ptr().align_offset(ALIGNMENT);
        if start > ALIGNMENT {
            return Err(internal("memory cannot be aligned"));
        }
        Ok(Self { block, layout, start, bytes })
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        // SAFETY: `start` is at most `ALIGNMENT`, and the block has that much more than its bytes.
        unsafe { self.block.as_ptr().add(self.start) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the bytes from `start` on are inside the block, were set to zero, and are borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr(), self.bytes) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout, and no reference to it is left.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}
