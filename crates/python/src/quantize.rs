//! Arrays quantised in memory, and packed arrays decoded.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use anamnesis::{
    BlockType, CancelToken, ConvertOptions, Existing, GgufType, GgufWriteTensor, Importance, InputWeights, OpenOptions,
    QuantizationError, encode_tensors, write_gguf_to_writer,
};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Given, arrays};
use crate::checkpoint::Checkpoint;
use crate::errors::exception;
use crate::options::open_options;
use crate::wait::interruptible;

/// Quantises one array. Returns the checkpoint that holds it, the configuration it needs, and what it lost.
#[pyfunction]
#[pyo3(signature = (array, to, importance=None, options=None))]
pub(crate) fn quantize<'py>(
    py: Python<'py>,
    array: Given<'py>,
    to: &str,
    importance: Option<Vec<f32>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Checkpoint, Option<String>, Option<Bound<'py, PyDict>>)> {
    let name = array.0.clone();
    let arrays = arrays(&[array], &[].into())?;
    let cancel = CancelToken::new();
    let mut convert = ConvertOptions::new();
    convert = convert.with_cancel(cancel.clone()).with_existing(Existing::Refuse);
    set(&mut convert, options)?;
    if let Some(weights) = importance {
        let mut all = Importance::default();
        all.weights.insert(name.clone(), InputWeights::from(weights));
        convert.quantise.blocks = convert.quantise.blocks.with_importance(Arc::new(all));
    }
    let work = || {
        let encoded = encode_tensors(to, arrays, convert)?;
        let (config, error) = (encoded.configuration().map(str::to_owned), encoded.errors().first().cloned());
        Ok((encoded.into_checkpoint(), config, error))
    };
    let done = interruptible(py, &cancel, |_| Ok(()), work)?;
    let (opened, config, error) = done.map_err(|error| exception(py, &error))?;
    Ok((Checkpoint::of(opened), config, error.map(|error| lost(py, &error)).transpose()?))
}

fn block_type(name: &str) -> Option<BlockType> {
    BlockType::all().find(|block| block.name().eq_ignore_ascii_case(name))
}

/// How weights are quantised, from keyword arguments.
fn set(convert: &mut ConvertOptions, given: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    for (name, value) in given.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        match name.extract::<String>()?.as_str() {
            "group_size" => {
                let text = value.str()?.to_string();
                let parsed = text.parse().map_err(|error: anamnesis::AnamnesisError| exception(value.py(), &error))?;
                convert.quantise.groups.size = Some(parsed);
            }
            "block_size" => convert.quantise.bnb.block_size = Some(value.extract()?),
            "double_quant" => convert.quantise.bnb.double_quant = value.extract()?,
            "measure" => convert.measure = value.extract()?,
            "allow_nonfinite" => convert.allow_nonfinite = value.extract()?,
            "threads" => *convert = convert.clone().with_threads(value.extract()?),
            other => {
                let why = format!("quantize() got an unexpected keyword argument '{other}'");
                return Err(PyTypeError::new_err(why));
            }
        }
    }
    Ok(())
}

/// The error that quantising has made.
fn lost<'py>(py: Python<'py>, error: &QuantizationError) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("mean_absolute", error.mean_absolute)?;
    fields.set_item("mean_squared", error.mean_squared)?;
    fields.set_item("sqnr_db", error.sqnr)?;
    fields.set_item("cosine", error.cosine)?;
    Ok(fields)
}

/// Stored arrays as a checkpoint, to be decoded. Keyword arguments are those of opening.
#[pyfunction]
#[pyo3(signature = (arrays, options=None))]
pub(crate) fn assemble(
    py: Python<'_>,
    arrays: Vec<Given<'_>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Checkpoint> {
    let (arrays, options) = (crate::arrays::arrays(&arrays, &[].into())?, open_options(options)?);
    let opened = py.detach(|| anamnesis::Checkpoint::from_positioned(arrays, &options));
    Ok(Checkpoint::of(opened.map_err(|error| exception(py, &error))?))
}

/// Blocks of a type of GGUF as a checkpoint of one tensor, `shape` being that of its values.
#[pyfunction]
pub(crate) fn assemble_blocks(
    py: Python<'_>,
    name: &str,
    block: &str,
    shape: Vec<usize>,
    data: &Bound<'_, PyArray1<u8>>,
) -> PyResult<Checkpoint> {
    let unknown = || PyValueError::new_err(format!("{block:?} is no block type of GGUF"));
    let is_named = |dtype: &GgufType| dtype.is_quantized() && dtype.to_string().eq_ignore_ascii_case(block);
    let dtype = GgufType::all().find(is_named).ok_or_else(unknown)?;
    let data = data.try_readonly().map_err(|error| PyValueError::new_err(error.to_string()))?;
    let data = data.as_slice().map_err(|_| PyValueError::new_err("the blocks are not contiguous"))?;
    let shape: Vec<usize> = shape.into_iter().rev().collect();
    let opened = py.detach(|| {
        let mut file = Cursor::new(Vec::new());
        let tensor = GgufWriteTensor { name, shape: &shape, dtype, data };
        write_gguf_to_writer(&mut file, &[tensor], &HashMap::<_, _>::default())?;
        anamnesis::Checkpoint::from_bytes_with(file.into_inner(), &OpenOptions::new())
    });
    Ok(Checkpoint::of(opened.map_err(|error| exception(py, &error))?))
}

/// Values and bytes of a block of a type of GGUF; `None` where it is none.
#[pyfunction]
pub(crate) fn block_size(name: &str) -> Option<(u64, u64)> {
    block_type(name).map(|block| (block.block_elements(), block.block_bytes()))
}
