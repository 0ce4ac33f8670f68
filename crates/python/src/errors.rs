//! Errors of the library as exceptions of the package, which has a class for every kind: see `python/anamnesis/errors.py`.

use std::sync::PoisonError;

use anamnesis::{AnamnesisError, Request};
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::source::Raised;

/// The exception of an error: the class of its kind, with its fields as attributes.
pub(crate) fn exception(py: Python<'_>, error: &AnamnesisError) -> PyErr {
    with_message(py, error, &error.to_string()).unwrap_or_else(|error| error)
}

/// The same where an object of Python's may have `raised` what went wrong.
pub(crate) fn exception_of(py: Python<'_>, error: &AnamnesisError, raised: &Raised) -> PyErr {
    let cause = match error {
        AnamnesisError::Io(_) => raised.lock().unwrap_or_else(PoisonError::into_inner).take(),
        _ => None,
    };
    match cause {
        // KeyboardInterrupt and other exceptions that are not errors are passed on.
        Some(cause) if !cause.is_instance_of::<PyException>(py) => cause,
        cause => {
            let exception = exception(py, error);
            exception.set_cause(py, cause);
            exception
        }
    }
}

/// The same with another message, such as one with advice.
pub(crate) fn with_message(py: Python<'_>, error: &AnamnesisError, message: &str) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    let class = class_and_fields(error, &fields)?;
    if let Some(path) = error.path() {
        fields.set_item("path", path)?;
    }
    raised(py, class, message, &fields)
}

/// An exception of the package by the name of its class.
pub(crate) fn raised(py: Python<'_>, class: &str, message: &str, fields: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let class = py.import("anamnesis.errors")?.getattr(class)?;
    let value = class.call1((message,))?;
    for (name, field) in fields {
        value.setattr(name.extract::<String>()?, field)?;
    }
    Ok(PyErr::from_value(value))
}

/// Fills a dictionary: `fields!(dict, name = value, ...)`.
macro_rules! fields {
    ($fields:expr, $($name:ident),*) => {{ $($fields.set_item(stringify!($name), $name)?;)* }};
}

/// The class of an error; its fields go into `fields`.
fn class_and_fields(error: &AnamnesisError, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    Ok(match error {
        AnamnesisError::Parse { reason } => {
            fields!(fields, reason);
            "ParseError"
        }
        AnamnesisError::Unsupported { format, detail } | AnamnesisError::TensorNotRead { format, detail, .. } => {
            fields!(fields, format, detail);
            match error {
                AnamnesisError::TensorNotRead { .. } => "TensorNotReadError",
                _ => "UnsupportedError",
            }
        }
        AnamnesisError::UnsupportedModel { part, name, detail } => {
            fields.set_item("part", format!("{part:?}"))?;
            fields!(fields, name, detail);
            "UnsupportedModelError"
        }
        AnamnesisError::LimitExceeded { limit, message } => {
            fields.set_item("detail", message)?;
            fields!(fields, limit);
            "LimitError"
        }
        AnamnesisError::DisallowedGlobal { module, name } => {
            fields!(fields, module, name);
            "DisallowedGlobalError"
        }
        AnamnesisError::Io(cause) => {
            fields.set_item("errno", cause.raw_os_error())?;
            io_class(cause.kind())
        }
        AnamnesisError::Cancelled => "CancelledError",
        AnamnesisError::NotAModel { kind, detail } => {
            fields.set_item("kind", format!("{kind:?}"))?;
            fields!(fields, detail);
            "NotAModelError"
        }
        AnamnesisError::Request(request) => class_of_request(request, fields)?,
        AnamnesisError::NotFinite { tensor, index, value } => {
            fields!(fields, tensor, index, value);
            "NotFiniteError"
        }
        AnamnesisError::Overflow { tensor, index, value, decoded, encoding } => {
            fields!(fields, tensor, index, value, decoded, encoding);
            "EncodingOverflowError"
        }
        AnamnesisError::Undecided { tensor, what, choices } => {
            fields!(fields, tensor, what, choices);
            "UndecidedError"
        }
        AnamnesisError::NoWeights { directory } => {
            fields!(fields, directory);
            "NoWeightsError"
        }
        AnamnesisError::OtherPlan { difference } => {
            fields!(fields, difference);
            "OtherPlanError"
        }
        AnamnesisError::Internal { reason } => {
            fields!(fields, reason);
            "InternalError"
        }
        _ => "AnamnesisError",
    })
}

const fn io_class(kind: std::io::ErrorKind) -> &'static str {
    match kind {
        std::io::ErrorKind::NotFound => "MissingFileError",
        std::io::ErrorKind::AlreadyExists => "ExistingFileError",
        std::io::ErrorKind::PermissionDenied => "DeniedFileError",
        _ => "IoError",
    }
}

fn class_of_request(request: &Request, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    Ok(match request {
        Request::UnusedPattern { pattern } => {
            fields!(fields, pattern);
            "UnusedPatternError"
        }
        Request::UnknownTensor { name } => {
            fields!(fields, name);
            "UnknownTensorError"
        }
        Request::UnknownKey { key } => {
            fields!(fields, key);
            "UnknownKeyError"
        }
        Request::UnknownPart { path, missing, found } => {
            fields.set_item("select", path)?;
            fields!(fields, missing, found);
            "UnknownPartError"
        }
        Request::UnknownName { what, name, known } => {
            fields!(fields, what, name, known);
            "UnknownNameError"
        }
        Request::Unavailable { what, name, available } => {
            fields!(fields, what, name, available);
            "UnavailableError"
        }
        Request::Malformed { what, text, why } => {
            fields!(fields, what, text, why);
            "MalformedError"
        }
        Request::NothingSelected => "NothingSelectedError",
        Request::SameName { name, tensors } => {
            fields!(fields, name, tensors);
            "SameNameError"
        }
        Request::Indivisible { target, group, tensors } => {
            fields!(fields, target, group, tensors);
            "IndivisibleError"
        }
        Request::DoesNotFit { bytes, least } => {
            fields!(fields, bytes, least);
            "DoesNotFitError"
        }
        Request::Contradiction { what, why } => {
            fields!(fields, what, why);
            "ContradictionError"
        }
        _ => "RequestError",
    })
}

/// The answer of a closed checkpoint.
pub(crate) fn closed() -> PyErr {
    PyValueError::new_err("the checkpoint is closed")
}

/// Something that only a defect of this module can cause.
pub(crate) fn internal(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("anamnesis: {what}"))
}
