//! Arrays quantised in memory, and packed arrays decoded.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use anamnesis::{
    BlockOptions, BlockType, CancelToken, ConvertOptions, ConvertPlan, ConvertTarget, Dtype, Existing, GgufType,
    GgufWriteTensor, Importance, InputWeights, OpenOptions, QuantizationError, Request, write_gguf_to_writer,
};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Map;

use crate::arrays::{Arrays, Given};
use crate::checkpoint::Checkpoint;
use crate::errors::exception;
use crate::options::open_options;
use crate::wait::interruptible;

/// The target that types of single tensors are asked for with; any that writes blocks would do.
const BLOCK_TARGET: &str = "q8_0";

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
    let arrays = Arrays::new(&[array], Map::new())?;
    let cancel = CancelToken::new();
    let (target, mut convert, block) = target(to).map_err(|error| exception(py, &error))?;
    convert = convert.with_cancel(cancel.clone()).with_existing(Existing::Refuse).with_keep_names(true);
    set(&mut convert, options)?;
    if let Some(weights) = importance {
        let mut all = Importance::default();
        all.weights.insert(name.clone(), InputWeights::from(weights));
        convert.quantise.blocks = convert.quantise.blocks.with_importance(Arc::new(all));
    }
    let work = || {
        let plain = OpenOptions::new().with_plain(true);
        let convert = convert.with_quantized("*")?;
        let plan = anamnesis::Checkpoint::from_positioned(arrays, &plain)?.plan_convert(target, &convert)?;
        if plan.stats().quantized == 0 {
            let why = plan.kept().first().map_or("it holds no floats", |(_, keeping)| keeping.reason()).to_owned();
            return Err(Request::Contradiction { what: format!("quantising {name:?} to {to}"), why }.into());
        }
        if let Some(block) = block {
            refuse_other_types(&plan, block)?;
        }
        let (bytes, report) = plan.to_bytes(|_| {})?;
        let config = plan.configuration();
        let mut options = OpenOptions::new();
        options.config = config.clone().map(Into::into);
        let opened = anamnesis::Checkpoint::from_bytes_with(bytes, &options)?;
        Ok((opened, config, report.errors.into_iter().next()))
    };
    let done = interruptible(py, &cancel, |_| Ok(()), work)?;
    let (opened, config, error) = done.map_err(|error| exception(py, &error))?;
    Ok((Checkpoint::of(opened), config, error.map(|error| lost(py, &error)).transpose()?))
}

/// A target by its name, or a block type of GGUF by its own: as it is listed, so that `IQ2_S` is the block type and `iq2_s` the
/// mix, and in any case where there is no such target.
fn target(name: &str) -> anamnesis::Result<(ConvertTarget, ConvertOptions, Option<BlockType>)> {
    let options = ConvertOptions::new();
    let quantising = || ConvertTarget::all().filter(|target| target.is_quantized());
    let as_target = quantising().find(|target| target.name() == name);
    let as_block = block_type(name).filter(|block| block.name() == name || as_target.is_none());
    if let Some(block) = as_block {
        let mut options = options;
        options.quantise.blocks = BlockOptions::new().with_pure(true).with_tensor_type(".*", Dtype::Block(block));
        return Ok((ConvertTarget::parse(BLOCK_TARGET)?, options, Some(block)));
    }
    let target = as_target.or_else(|| quantising().find(|target| target.names().contains(&name)));
    let unknown = || {
        let known = quantising().map(|target| target.name().to_owned()).collect();
        Request::UnknownName { what: "encoding", name: name.to_owned(), known }
    };
    Ok((target.ok_or_else(unknown)?, options, None))
}

/// Refuses the types that llama.cpp falls back to where rows cannot be cut into blocks: this one was asked for.
fn refuse_other_types(plan: &ConvertPlan, block: BlockType) -> anamnesis::Result<()> {
    let other = plan.tensors().find(|tensor| tensor.dtype != Dtype::Block(block));
    other.map_or(Ok(()), |tensor| {
        let row = tensor.shape.last().map_or(0, |&length| length as u64);
        let (target, group) = (block.name().to_owned(), block.block_elements());
        Err(Request::Indivisible { target, group, tensors: vec![(tensor.name, row)] }.into())
    })
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
    let (arrays, options) = (Arrays::new(&arrays, Map::new())?, open_options(options)?);
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
