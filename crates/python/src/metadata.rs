//! Metadata as values of Python.

use anamnesis::{GgufMetadataArray, GgufMetadataValue};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The entries by their keys.
pub(crate) fn entries<'py>(py: Python<'py>, entries: Vec<(String, GgufMetadataValue)>) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (key, value) in entries {
        all.set_item(key, object(py, &value)?)?;
    }
    Ok(all)
}

/// One arm for every type that Python has, of a value or of an array.
macro_rules! each {
    ($py:expr, $value:expr, $of:ident, $array:ident => $nested:expr) => {
        match $value {
            $of::U8(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::I8(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::U16(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::I16(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::U32(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::I32(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::U64(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::I64(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::F32(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::F64(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::Bool(held) => Ok(held.into_pyobject($py)?.to_owned().into_any()),
            $of::String(held) => Ok(held.into_pyobject($py)?.into_any()),
            $of::Array($array) => $nested,
        }
    };
}

fn object<'py>(py: Python<'py>, value: &GgufMetadataValue) -> PyResult<Bound<'py, PyAny>> {
    each!(py, value, GgufMetadataValue, array => list(py, array))
}

fn list<'py>(py: Python<'py>, array: &GgufMetadataArray) -> PyResult<Bound<'py, PyAny>> {
    // Bytes would be `bytes` where they stand for small numbers.
    if let GgufMetadataArray::U8(numbers) = array {
        return Ok(PyList::new(py, numbers)?.into_any());
    }
    each!(py, array, GgufMetadataArray, arrays => {
        let lists = arrays.iter().map(|inner| list(py, inner)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, lists)?.into_any())
    })
}
