//! From the headers of tensors to extents: values that are typed, packed or sparse become regions.

use std::path::PathBuf;
use std::sync::Arc;

use super::element::{Element, Form};
use super::external::ModelFiles;
use super::graph::{FoundTensor, FoundValue};
use super::limits::{FREE_SPARSE_BYTES, ONNX_MAX_SHARING_RATIO, ONNX_MAX_SPARSE_RATIO};
use super::sparse::Dense;
use super::tensor::{Data, Sparse, Tensor, product};
use super::typed::Typed;
use super::unpacked::{Code, Unpacked};
use crate::catalog::{Dtype, Extent, Note, StoredTensor, Unreadable};
use crate::container::options::OpenOptions;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{ArrangedSource, Source};
use crate::limits::Budget;

/// A model whose tensors can be read.
pub(super) struct Arranged {
    pub(super) source: Box<dyn Source>,
    pub(super) tensors: Vec<StoredTensor>,
    pub(super) notes: Vec<Note>,
    pub(super) unreadable: Vec<Unreadable>,
    /// The names of tensors whose small floats are presented as F32.
    pub(super) widened: Vec<String>,
    /// The files with external data.
    pub(super) files: Vec<PathBuf>,
}

/// A tensor whose values are located: type, dimensions, offset.
struct Located {
    dtype: Dtype,
    dims: Vec<u64>,
    offset: u64,
    bytes: u64,
    /// Whether it has small floats, presented as F32.
    is_widened: bool,
}

/// Bytes of a tensor in the catalog, without its name.
const ENTRY_BYTES: u64 = 96;

/// Locates the values of all tensors.
pub(super) fn arrange(
    source: Box<dyn Source>,
    tensors: Vec<FoundTensor>,
    names: Vec<Arc<str>>,
    file: u32,
    options: &OpenOptions,
    budget: &mut Budget,
) -> Result<Arranged> {
    let mut files = ModelFiles::new(source);
    let mut stored_at = Vec::with_capacity(tensors.len());
    for (found, name) in tensors.iter().zip(&names) {
        let places = match &found.value {
            FoundValue::Dense(tensor) => external(&mut files, tensor).map(|place| [place, None]),
            FoundValue::Sparse(sparse) => external(&mut files, &sparse.values)
                .and_then(|values| Ok([values, external(&mut files, &sparse.indices)?])),
        };
        stored_at.push(places.map_err(|error| error.in_tensor(name))?);
    }
    let paths = files.paths;
    let mut source = ArrangedSource::new(Box::new(files.joined));
    let file_bytes = source.len();
    let (mut stored, mut unsupported, mut widened) = (Vec::with_capacity(tensors.len()), Vec::new(), Vec::new());
    let mut total = 0u64;
    for ((found, name), places) in tensors.into_iter().zip(names).zip(stored_at) {
        budget.working_set(ENTRY_BYTES + name.len() as u64, "the tensors")?;
        let located = match &found.value {
            FoundValue::Dense(tensor) => locate(&mut source, tensor, places[0]),
            FoundValue::Sparse(sparse) => locate_sparse(&mut source, sparse, places),
        };
        let Located { dtype, dims, offset, bytes, is_widened } = match located.map_err(|error| error.in_tensor(&name)) {
            Ok(located) => located,
            Err(AnamnesisError::Unsupported { detail, .. }) => {
                unsupported.push((name, detail));
                continue;
            }
            Err(error) => return Err(error),
        };
        let too_large = || AnamnesisError::parse(format!("a dimension of {dims:?} is too large")).in_tensor(&name);
        let shape = dims.iter().map(|dim| usize::try_from(*dim).map_err(|_| too_large()));
        let shape = shape.collect::<Result<Vec<usize>>>()?;
        total = total.saturating_add(bytes);
        if is_widened {
            widened.push(name.to_string());
        }
        stored.push(StoredTensor { name: name.to_string(), dtype, shape, extent: Extent { file, offset, bytes } });
    }
    if total > file_bytes.saturating_mul(ONNX_MAX_SHARING_RATIO).max(FREE_SPARSE_BYTES) {
        let message = format!(
            "the tensors take {total} bytes together, the files hold {file_bytes}: {ONNX_MAX_SHARING_RATIO} times are allowed"
        );
        return Err(AnamnesisError::limit("ONNX_MAX_SHARING_RATIO", message));
    }
    let (mut notes, mut unreadable) = (Vec::new(), Vec::new());
    match options.skip_unsupported {
        true if unsupported.is_empty() => {}
        true => {
            let (count, first) = (unsupported.len(), unsupported.first().map_or("", |(_, why)| why.as_str()));
            let noun = if count == 1 { "tensor" } else { "tensors" };
            notes.push(Note::new(format!("left out {count} {noun}: {first}")));
        }
        false => unreadable.extend(unsupported.into_iter().map(|(_, why)| Unreadable { format: "onnx", why })),
    }
    Ok(Arranged { source: Box::new(source), tensors: stored, notes, unreadable, widened, files: paths })
}

/// Offset and length of external data.
fn external(files: &mut ModelFiles, tensor: &Tensor) -> Result<Option<(u64, u64)>> {
    match &tensor.data {
        Data::External(external) => files.find(external).map(Some),
        _ => Ok(None),
    }
}

/// Locates the values of a dense tensor, whose external data is at `place`.
fn locate(source: &mut ArrangedSource, tensor: &Tensor, place: Option<(u64, u64)>) -> Result<Located> {
    let element = Element::of(tensor.data_type)
        .ok_or_else(|| AnamnesisError::unsupported("onnx", format!("the element type {}", tensor.data_type)))?;
    if element.form == Form::None {
        return Err(AnamnesisError::unsupported("onnx", format!("tensors of {}", element.name)));
    }
    let overflow = || AnamnesisError::parse(format!("a tensor of shape {:?} overflows", tensor.dims));
    let elements = tensor.elements().ok_or_else(overflow)?;
    let raw_bytes = element.raw_bytes(elements).ok_or_else(overflow)?;
    let of_size = |found: u64| match found == raw_bytes {
        true => Ok(()),
        false => Err(AnamnesisError::parse(format!(
            "{} {:?} takes {raw_bytes} bytes, {found} are stored",
            element.name, tensor.dims
        ))),
    };
    let mut is_spread = false;
    let offset = match (&tensor.data, place) {
        (Data::Raw(range), _) => {
            of_size(range.end - range.start)?;
            range.start
        }
        (Data::External(_), Some((offset, length))) => {
            of_size(length)?;
            offset
        }
        (Data::Typed(field), _) if *field == element.field => {
            let entries = element.entries(elements).ok_or_else(overflow)?;
            let typed = Typed::scan(&*source, &tensor.message, element, entries)?;
            is_spread = true;
            source.add(Box::new(typed))?
        }
        (Data::Typed(field), _) => {
            return Err(AnamnesisError::parse(format!("values of {} are in field {field}", element.name)));
        }
        (Data::Missing | Data::External(_), _) if elements == 0 => 0,
        (Data::Missing | Data::External(_), _) => return Err(AnamnesisError::parse("it has no values")),
    };
    let dims = tensor.dims.clone();
    let (dtype, code) = match element.form {
        Form::Stored(dtype) => return Ok(Located { dtype, dims, offset, bytes: raw_bytes, is_widened: false }),
        Form::Float4 if elements.is_multiple_of(2) => {
            return Ok(Located { dtype: Dtype::F4, dims, offset, bytes: raw_bytes, is_widened: false });
        }
        Form::Float4 => (Dtype::F32, Code::Float { exponent_bits: 2, mantissa_bits: 1 }),
        Form::Bytes(Dtype::I8) => (Dtype::I8, Code::Signed { bits: element.bits as u32 }),
        Form::Bytes(dtype) => (dtype, Code::Unsigned { bits: element.bits as u32 }),
        Form::Float6 { exponent_bits } => (Dtype::F32, Code::Float { exponent_bits, mantissa_bits: 5 - exponent_bits }),
        Form::None => return Err(AnamnesisError::unsupported("onnx", element.name)),
    };
    // In the typed field, every six-bit float has an entry of its own.
    let stride = if is_spread && element.bits == 6 { 8 } else { element.bits as u32 };
    let bytes = elements.checked_mul(dtype.byte_size() as u64).ok_or_else(overflow)?;
    let offset = source.add(Box::new(Unpacked { base: offset, elements, stride, code }))?;
    Ok(Located { dtype, dims, offset, bytes, is_widened: dtype == Dtype::F32 })
}

/// The code of INT64, the type of indices.
const INT64: u64 = 7;

fn locate_sparse(
    source: &mut ArrangedSource,
    sparse: &Sparse,
    [values_at, indices_at]: [Option<(u64, u64)>; 2],
) -> Result<Located> {
    let Sparse { values, indices, dims } = sparse;
    if indices.data_type != INT64 {
        return Err(AnamnesisError::parse("the indices of a sparse tensor are not INT64"));
    }
    let stored = locate(source, values, values_at)?;
    let width = stored.dtype.byte_size() as u64;
    if stored.dtype == Dtype::F4 {
        return Err(AnamnesisError::unsupported("onnx", "sparse tensors of FLOAT4E2M1"));
    }
    let count = values.elements().unwrap_or_default();
    let has_coordinates = match indices.dims[..] {
        [found] if found == count && values.dims.len() == 1 => false,
        [found, rank] if found == count && rank == dims.len() as u64 && values.dims.len() == 1 => true,
        _ => {
            let shapes = format!("indices of shape {:?} and values of shape {:?}", indices.dims, values.dims);
            return Err(AnamnesisError::parse(format!("{shapes} do not fit a sparse tensor of shape {dims:?}")));
        }
    };
    let places = locate(source, indices, indices_at)?;
    let overflow = || AnamnesisError::parse(format!("a tensor of shape {dims:?} overflows"));
    let elements = product(dims).ok_or_else(overflow)?;
    let bytes = elements.checked_mul(width).ok_or_else(overflow)?;
    let most = (stored.bytes + places.bytes).saturating_mul(ONNX_MAX_SPARSE_RATIO).max(FREE_SPARSE_BYTES);
    if bytes > most {
        let message = format!(
            "a sparse tensor of shape {} takes {bytes} bytes, {most} are allowed",
            quoted(&format!("{dims:?}"))
        );
        return Err(AnamnesisError::limit("ONNX_MAX_SPARSE_RATIO", message));
    }
    let dense = Dense {
        indices: places.offset,
        has_coordinates,
        values: stored.offset,
        count,
        dims: dims.clone(),
        elements,
        element_bytes: width,
    };
    dense.check(&*source)?;
    let offset = source.add(Box::new(dense))?;
    Ok(Located { dtype: stored.dtype, dims: dims.clone(), offset, bytes, is_widened: stored.is_widened })
}
