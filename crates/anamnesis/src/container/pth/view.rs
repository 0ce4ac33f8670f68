//! A tensor as a view of a storage.

use std::borrow::Cow;

use super::element::Element;
use super::pickle::{Id, PickleValues, Value};
use super::storage::{ByteOrder, StorageSlice};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};

/// Most dimensions of a tensor.
const PTH_MAX_DIMS: usize = 64;
/// How many times larger than its storage a tensor may be whose elements are used more than once.
const PTH_MAX_MATERIALISE_RATIO: u64 = 16;

/// A tensor as a view of a storage, inside its bounds.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// Index of the storage.
    pub(super) storage: u32,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// In elements; empty where elements follow one another as they are to be read.
    pub(super) strides: Box<[u64]>,
    /// Byte of the storage that the first element begins at.
    pub(super) start: u64,
    /// Bytes of the storage from the first element to the end of the last.
    pub(super) span: u64,
    /// Bytes of the tensor.
    pub(super) bytes: u64,
    pub(super) order: ByteOrder,
    pub(super) signs: Signs,
}

/// Signs that torch keeps beside the numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Signs {
    /// The imaginary parts are to be negated.
    pub(super) conjugated: bool,
    /// All parts are to be negated.
    pub(super) negated: bool,
}

impl View {
    /// Whether the elements lie in the storage as they are to be read.
    pub(super) fn is_plain(&self) -> bool {
        self.signs == Signs::default() && self.strides.is_empty()
    }

    /// Distances between the elements along each axis.
    pub(super) fn strides(&self) -> Cow<'_, [u64]> {
        if !self.strides.is_empty() {
            return Cow::Borrowed(&self.strides);
        }
        let mut strides = vec![1; self.shape.len()];
        for axis in (1..strides.len()).rev() {
            strides[axis - 1] = strides[axis] * self.shape[axis] as u64;
        }
        Cow::Owned(strides)
    }
}

/// Whether elements at these distances follow one another.
fn is_contiguous(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = 1u64;
    for (&dim, &stride) in shape.iter().zip(strides).rev() {
        if dim != 1 && stride != expected {
            return false;
        }
        expected = expected.saturating_mul(dim);
    }
    true
}

/// What a value is to someone who looks for tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tensor,
    /// A number with a type of NumPy, which is a tensor without axes and no sign of a model.
    Scalar,
    /// Keys with values.
    Mapping,
    /// A value with attributes of TorchScript.
    Script,
    /// What its first argument is: a list or a dict with a type, in TorchScript.
    Tagged,
    Other,
}

/// A view of elements at these distances, inside the bounds of its storage.
pub(super) fn place(
    part: StorageSlice,
    element: Element,
    dtype: Dtype,
    offset: u64,
    shape: Vec<u64>,
    strides: Vec<u64>,
    signs: Signs,
) -> Result<View> {
    check_dims(shape.len())?;
    let overflow =
        || AnamnesisError::parse(format!("a tensor of shape {shape:?} and strides {strides:?} has no possible size"));
    let elements = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim)).ok_or_else(overflow)?;
    let bytes = elements.checked_mul(element.bytes).ok_or_else(overflow)?;
    let mut dims = Vec::with_capacity(shape.len());
    for &dim in &shape {
        dims.push(usize::try_from(dim).map_err(|_| overflow())?);
    }
    let mut view = View {
        storage: part.storage,
        dtype,
        shape: dims,
        strides: Box::default(),
        start: part.start,
        span: 0,
        bytes,
        order: part.order,
        signs,
    };
    if elements == 0 {
        return Ok(view);
    }
    let steps = shape
        .iter()
        .zip(&strides)
        .try_fold(0u64, |last, (&dim, &stride)| last.checked_add((dim - 1).checked_mul(stride)?));
    let ends = steps.and_then(|steps| {
        let first = offset.checked_mul(element.bytes)?;
        let span = steps.checked_add(1)?.checked_mul(element.bytes)?;
        Some((first, span, first.checked_add(span)?))
    });
    let (first, span, end) = ends.ok_or_else(overflow)?;
    if end > part.bytes {
        let why = format!(
            "a tensor of shape {:?} and strides {strides:?} at element {offset} ends at byte {end} of its storage, which has {}",
            view.shape, part.bytes
        );
        return Err(AnamnesisError::parse(why));
    }
    if bytes > part.bytes.saturating_mul(PTH_MAX_MATERIALISE_RATIO) {
        let message = format!(
            "a tensor of {bytes} bytes repeats the {} bytes of its storage, {PTH_MAX_MATERIALISE_RATIO} times are allowed",
            part.bytes
        );
        return Err(AnamnesisError::limit("PTH_MAX_MATERIALISE_RATIO", message));
    }
    view.start += first;
    view.span = span;
    if !is_contiguous(&shape, &strides) {
        view.strides = strides.into_boxed_slice();
    }
    Ok(view)
}

/// Refuses a tensor with too many axes.
pub(super) fn check_dims(dims: usize) -> Result<()> {
    if dims <= PTH_MAX_DIMS {
        return Ok(());
    }
    let message = format!("a tensor has {dims} dimensions, {PTH_MAX_DIMS} are allowed");
    Err(AnamnesisError::limit("PTH_MAX_DIMS", message))
}

/// A tuple, list or `torch.Size` of numbers that are not negative.
pub(super) fn numbers(id: Id, values: &PickleValues<'_>) -> Option<Vec<u64>> {
    let items = match values.get(id) {
        Value::Tuple(items) | Value::List(items) => items,
        Value::Object(object) if values.global(object.callable)?.is("torch", "Size") => {
            match values.get(*values.tuple(object.args)?.first()?) {
                Value::Tuple(items) | Value::List(items) => items,
                _ => return None,
            }
        }
        _ => return None,
    };
    items.iter().map(|&item| u64::try_from(values.int(item)?).ok()).collect()
}
