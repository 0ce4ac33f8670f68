//! An open checkpoint: names, shapes and schemes as plain values of Python, and tensors as bytes in arrays of NumPy's.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anamnesis::{AnamnesisError, CancelToken, ParseLimits, TensorRole};
use anamnesis_remote::{Remote, RemoteMount, RemoteOptions};
use numpy::PyArray1;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

use crate::buffer::{Aligned, empty, slice, writable};
use crate::dlpack;
use crate::errors::{closed, exception_of};
use crate::metadata;
use crate::options::{open_options, target_type};
use crate::reading::{Job, Kind, run, run_all, without_shape};
use crate::source::{Bytes, FileObject, Raised};
use crate::wait::interruptible;

/// A checkpoint that is open until it is closed.
#[pyclass(frozen, module = "anamnesis._anamnesis")]
pub(crate) struct Checkpoint {
    open: RwLock<Option<Arc<anamnesis::Checkpoint>>>,
    limits: ParseLimits,
    /// By the object it is read from.
    raised: Raised,
    /// The address it is read from, if it is one.
    mount: Mutex<Option<RemoteMount>>,
}

/// Makes an address readable; `None` if the path is none, or a model of the local cache.
fn mounted(path: &Path) -> anamnesis::Result<Option<RemoteMount>> {
    if !Remote::is_address(path) {
        return Ok(None);
    }
    let remote = Remote::new(RemoteOptions::from_environment()).map_err(|error| AnamnesisError::Io(error.into()))?;
    remote.mount(path)
}

/// Bytes from which on Ctrl-C is looked for while a tensor is decoded.
const LONG_BYTES: u64 = 32 << 20;

/// A stored tensor: `(dtype, shape, bytes, role, file)`.
type Stored = (String, Vec<usize>, u64, &'static str, Option<PathBuf>);

impl Checkpoint {
    /// One that was made in memory, without limits.
    pub(crate) fn of(open: anamnesis::Checkpoint) -> Self {
        let open = RwLock::new(Some(Arc::new(open)));
        Self { open, limits: ParseLimits::unbounded(), raised: Raised::default(), mount: Mutex::default() }
    }

    /// The checkpoint; calls that have it go on after another thread closes it.
    fn get(&self) -> PyResult<Arc<anamnesis::Checkpoint>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)
    }

    fn failed(&self, py: Python<'_>, error: &AnamnesisError) -> PyErr {
        exception_of(py, error, &self.raised)
    }

    /// Asks the checkpoint without the interpreter: it may have to read from an object of Python's, for which other threads
    /// may be waiting in turn.
    fn ask<T: Send>(&self, py: Python<'_>, question: impl FnOnce(&anamnesis::Checkpoint) -> T + Send) -> PyResult<T> {
        let checkpoint = self.get()?;
        Ok(py.detach(move || question(&checkpoint)))
    }

    /// What is to be read of a tensor, within the limits.
    fn kind(&self, py: Python<'_>, name: &str, dtype: Option<&str>, rows: Option<(usize, usize)>) -> PyResult<Kind> {
        let dtype = dtype.map(target_type).transpose()?;
        let kind = self.ask(py, |checkpoint| Kind::new(checkpoint, name, dtype, rows.map(|(start, stop)| start..stop)));
        let kind = kind?.map_err(|error| self.failed(py, &error))?;
        let most = self.limits.max_single_alloc_bytes();
        if kind.bytes() > most {
            let message = format!("tensor {name:?} takes {} bytes, {most} are allowed", kind.bytes());
            return Err(self.failed(py, &AnamnesisError::LimitExceeded { limit: "max_single_alloc_bytes", message }));
        }
        Ok(kind)
    }

    /// Reads or decodes into `out`.
    fn read_into(
        &self,
        py: Python<'_>,
        name: &str,
        kind: Kind,
        out: &mut [u8],
        threads: Option<usize>,
    ) -> PyResult<()> {
        let (checkpoint, cancel) = (self.get()?, CancelToken::new());
        let is_long = out.len() as u64 >= LONG_BYTES;
        let job = Job { name, kind, out };
        let read = || run(&checkpoint, job, threads, &cancel);
        let read = if is_long { interruptible(py, &cancel, |_| Ok(()), read)? } else { py.detach(read) };
        read.map_err(|error| self.failed(py, &error))
    }
}

#[pymethods]
impl Checkpoint {
    /// Opens a path, the name of a model in a store, `bytes`, or a binary file object.
    #[new]
    #[pyo3(signature = (source, options=None))]
    fn open(py: Python<'_>, source: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (options, raised) = (open_options(options)?, Raised::default());
        let mut mount = None;
        let opened = if let Ok(bytes) = source.cast::<PyBytes>() {
            let bytes = Bytes(PyBackedBytes::from(bytes.clone()));
            py.detach(|| anamnesis::Checkpoint::from_positioned(bytes, &options))
        } else if let Ok(path) = source.extract::<PathBuf>() {
            py.detach(|| {
                mount = mounted(&path)?;
                let path = mount.as_ref().map_or(path.as_path(), RemoteMount::path);
                anamnesis::Checkpoint::open_with(path, &options)
            })
        } else if FileObject::fits(source) {
            let file = FileObject::new(source.clone().unbind(), raised.clone());
            py.detach(|| anamnesis::Checkpoint::from_positioned(file, &options))
        } else {
            let kind = source.get_type().name()?.to_string();
            let needed = "a path, bytes or a binary file that can seek";
            return Err(PyTypeError::new_err(format!("{needed} is needed, not {kind}")));
        };
        let opened = opened.map_err(|error| exception_of(py, &error, &raised))?;
        let open = RwLock::new(Some(Arc::new(opened)));
        Ok(Self { open, limits: options.limits, raised, mount: Mutex::new(mount) })
    }

    /// Releases the files. Calls that are under way end as they would have.
    fn close(&self, py: Python<'_>) {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        let mount = self.mount.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Memory maps of many files take time to undo.
        py.detach(move || drop((open, mount)));
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.open.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The format of its files: safetensors, gguf, npz, npy or pth.
    #[getter]
    fn format(&self) -> PyResult<String> {
        Ok(format!("{:?}", self.get()?.format()).to_lowercase())
    }

    /// The names that tensors have once decoded, in order.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.ask(py, |checkpoint| checkpoint.names().into_iter().map(str::to_owned).collect())
    }

    /// The names of stored tensors, in order.
    fn stored_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.ask(py, |checkpoint| checkpoint.tensors().into_iter().map(|tensor| tensor.name.to_owned()).collect())
    }

    /// The names of quantised weights, in order.
    fn weight_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let mut names: Vec<String> =
            self.ask(py, |checkpoint| checkpoint.weights().into_iter().map(|weight| weight.name).collect())?;
        names.sort_unstable();
        Ok(names)
    }

    /// The name of the scheme, or of the several there are.
    fn scheme(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.ask(py, |checkpoint| {
            let info = checkpoint.inspect(&Default::default());
            (info.quantized > 0).then(|| info.scheme_name())
        })
    }

    /// The files that hold the tensors.
    fn files(&self) -> PyResult<Vec<PathBuf>> {
        Ok(self.get()?.files().to_vec())
    }

    /// Why it cannot be decoded; empty where it can.
    fn problems(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.ask(py, |checkpoint| checkpoint.inspect(&Default::default()).problems)
    }

    /// A stored tensor, or `None`.
    fn stored(&self, py: Python<'_>, name: &str) -> PyResult<Option<Stored>> {
        self.ask(py, |checkpoint| {
            checkpoint.stored(name).map(|tensor| {
                let file = tensor.file.map(Path::to_path_buf);
                (tensor.dtype.to_string(), tensor.shape.to_vec(), tensor.bytes, role_name(tensor.role), file)
            })
        })
    }

    /// A quantised weight: its shape, scheme, codes and parts; `None` where the name is that of plain data or of nothing.
    fn weight<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let found = self.ask(py, |checkpoint| {
            let weight = checkpoint.weight(name)?;
            Some(if weight.shape.is_some() { Ok(weight) } else { Err(without_shape(checkpoint, name)) })
        })?;
        let Some(weight) = found.transpose().map_err(|error| self.failed(py, &error))? else { return Ok(None) };
        let fields = PyDict::new(py);
        fields.set_item("shape", weight.shape)?;
        fields.set_item("description", weight.scheme)?;
        fields.set_item("family", weight.family.to_string())?;
        fields.set_item("format", weight.coding.format)?;
        fields.set_item("bits", weight.coding.bits)?;
        fields.set_item("group_size", weight.coding.group_size)?;
        fields.set_item("block_shape", weight.coding.block_shape)?;
        fields.set_item("symmetric", weight.coding.symmetric)?;
        fields.set_item("evidence", weight.coding.evidence.to_string())?;
        fields.set_item("parts", weight.parts)?;
        Ok(Some(fields))
    }

    /// The metadata of the files.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.ask(py, anamnesis::Checkpoint::metadata)?;
        metadata::entries(py, found.map_err(|error| self.failed(py, &error))?)
    }

    /// The bytes of a tensor, or of its rows from `start` to `stop`: decoded to `dtype`, or as stored where that is `None`.
    #[pyo3(signature = (name, dtype, rows=None, threads=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        dtype: Option<&str>,
        rows: Option<(usize, usize)>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let kind = self.kind(py, name, dtype, rows)?;
        let array = empty(py, kind.bytes())?;
        self.read_into(py, name, kind, slice(&mut writable(&array)?)?, threads)?;
        Ok(array)
    }

    /// [`read`](Self::read) for many tensors at once, each a name and a type.
    #[pyo3(signature = (tensors, threads=None))]
    fn read_all<'py>(
        &self,
        py: Python<'py>,
        tensors: Vec<(String, Option<String>)>,
        threads: Option<usize>,
    ) -> PyResult<Vec<Bound<'py, PyArray1<u8>>>> {
        let (checkpoint, cancel) = (self.get()?, CancelToken::new());
        let mut kinds = Vec::with_capacity(tensors.len());
        for (name, dtype) in &tensors {
            kinds.push(self.kind(py, name, dtype.as_deref(), None)?);
        }
        let arrays = kinds.iter().map(|kind| empty(py, kind.bytes())).collect::<PyResult<Vec<_>>>()?;
        let mut guards = Vec::with_capacity(arrays.len());
        for array in &arrays {
            guards.push(writable(array)?);
        }
        let mut jobs = Vec::with_capacity(arrays.len());
        for (((name, _), kind), array) in tensors.iter().zip(kinds).zip(&mut guards) {
            jobs.push(Job { name, kind, out: slice(array)? });
        }
        let read = interruptible(py, &cancel, |_| Ok(()), || run_all(&checkpoint, jobs, threads, &cancel))?;
        read.map_err(|error| self.failed(py, &error))?;
        drop(guards);
        Ok(arrays)
    }

    /// A whole tensor as a capsule of DLPack: decoded to `dtype`, or as stored where that is `None`.
    #[pyo3(signature = (name, dtype, versioned))]
    fn dlpack<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        dtype: Option<&str>,
        versioned: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = self.kind(py, name, dtype, None)?;
        let (shape, elements) = (kind.shape().to_vec(), kind.dtype());
        let elements = dlpack::element_type(elements)?;
        let mut values = Aligned::new(kind.bytes())?;
        self.read_into(py, name, kind, values.as_mut_slice(), None)?;
        dlpack::capsule(py, &shape, values, elements, versioned)
    }
}

fn role_name(role: TensorRole) -> &'static str {
    match role {
        TensorRole::Quantized => "quantized",
        TensorRole::Scale => "scale",
        TensorRole::Passthrough => "passthrough",
        TensorRole::ZeroPoint => "zero_point",
        TensorRole::GroupIndex => "group_index",
        TensorRole::QuantMap => "quant_map",
        TensorRole::NestedScale => "nested_scale",
        TensorRole::QuantState => "quant_state",
        _ => "other",
    }
}
