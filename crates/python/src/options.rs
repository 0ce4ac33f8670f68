//! How a checkpoint is opened, from keyword arguments.

use anamnesis::{Configuration, Dtype, GptqFormat, OpenOptions, ParseLimits, Rounding, TargetDtype};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Options from the keyword arguments of `anamnesis.open`; those that are `None` keep their default.
pub(crate) fn open_options(given: Option<&Bound<'_, PyDict>>) -> PyResult<OpenOptions> {
    let mut options = OpenOptions::new();
    for (name, value) in given.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        match name.extract::<String>()?.as_str() {
            "all" => options.all = value.extract()?,
            "skip_unsupported" => options.skip_unsupported = value.extract()?,
            "allow_unclaimed" => options.allow_unclaimed = value.extract()?,
            "plain" => options.plain = value.extract()?,
            "select" => options.select = Some(value.extract()?),
            "limits" => options.limits = limits(value.cast()?)?,
            "config" => options.config = Some(configuration(&value)?),
            "gptq_format" => options.gptq_format = Some(gptq_format(&value.extract::<String>()?)?),
            "arith" => options.rounding = rounding(&value.extract::<String>()?)?,
            "npy_dtypes" => {
                for (array, dtype) in value.cast::<PyDict>()? {
                    options.npy_dtypes.push((array.extract()?, stored_type(&dtype.extract::<String>()?)?));
                }
            }
            other => {
                return Err(PyTypeError::new_err(format!("open() got an unexpected keyword argument '{other}'")));
            }
        }
    }
    Ok(options)
}

/// A type to decode to, by its name.
pub(crate) fn target_type(name: &str) -> PyResult<TargetDtype> {
    name.parse().map_err(|_| PyValueError::new_err(format!("{name:?} is no type to decode to; bf16, f16 and f32 are")))
}

/// A type of stored elements, by its name in safetensors.
pub(crate) fn stored_type(name: &str) -> PyResult<Dtype> {
    Dtype::from_name(name).ok_or_else(|| PyValueError::new_err(format!("{name:?} is no element type")))
}

fn gptq_format(text: &str) -> PyResult<GptqFormat> {
    text.parse().map_err(|_| PyValueError::new_err(format!("gptq_format is 'v1' or 'v2', not {text:?}")))
}

fn rounding(text: &str) -> PyResult<Rounding> {
    match text {
        "f32" => Ok(Rounding::Once),
        "reference" => Ok(Rounding::AsLibrary),
        other => Err(PyValueError::new_err(format!("arith is 'f32' or 'reference', not {other:?}"))),
    }
}

/// A configuration: JSON text, or the path of a file that holds it.
fn configuration(given: &Bound<'_, PyAny>) -> PyResult<Configuration> {
    match given.extract::<String>() {
        Ok(text) if text.trim_start().starts_with('{') => Ok(Configuration::Text(text)),
        _ => Ok(Configuration::File(given.extract()?)),
    }
}

/// Limits by the names of the command line, or by those that errors have.
fn limits(given: &Bound<'_, PyDict>) -> PyResult<ParseLimits> {
    let mut limits = ParseLimits::unbounded();
    for (name, value) in given {
        let (name, value) = (name.extract::<String>()?, value.extract::<u64>()?);
        limits = match name.as_str() {
            "buffer" | "max_single_alloc_bytes" => limits.with_max_single_alloc(value),
            "memory" | "max_total_bytes" => limits.with_max_total_bytes(value),
            "items" | "max_item_count" => limits.with_max_item_count(value),
            "ratio" | "max_decompression_ratio" => limits.with_max_decompression_ratio(value),
            _ => {
                let why = format!("there is no limit {name:?}; there are memory, buffer, items and ratio");
                return Err(PyValueError::new_err(why));
            }
        };
    }
    Ok(limits)
}
