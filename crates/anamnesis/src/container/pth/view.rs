//! A tensor as a view of a storage.

use std::borrow::Cow;

use super::element::Element;
use super::pickle::{Id, PickleValues, Value};
use super::storage::{ByteOrder, StorageSlice};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};

/// Maximum number of dimensions.
const PTH_MAX_DIMS: usize = 64;
/// Maximum ratio of the size of a tensor to that of its storage, for expanded views.
const PTH_MAX_MATERIALISE_RATIO: u64 = 16;

/// A tensor as a view of a storage, validated against its bounds.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// Index of the storage.
    pub(super) storage: u32,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// In elements; empty if the view is contiguous.
    pub(super) strides: Box<[u64]>,
    /// Offset of the first element in the storage, in bytes.
    pub(super) start: u64,
    /// Bytes of the storage from the first element to the end of the last.
    pub(super) span: u64,
    /// Size of the tensor in bytes.
    pub(super) bytes: u64,
    pub(super) order: ByteOrder,
    pub(super) signs: SignBits,
}

/// Lazy sign changes: torch's conj and neg bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct SignBits {
    /// The imaginary parts are negated.
    pub(super) conjugated: bool,
    /// All parts are negated.
    pub(super) negated: bool,
}

impl View {
    /// Whether the storage contains the tensor's bytes verbatim.
    pub(super) fn is_plain(&self) -> bool {
        self.signs == SignBits::default() && self.strides.is_empty()
    }

    /// Strides in elements.
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

/// Whether these strides are contiguous.
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

/// The kind of an object, in a search for tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tensor,
    /// A NumPy scalar: a tensor without axes, not an indication of a model.
    Scalar,
    /// A dict.
    Mapping,
    /// A TorchScript object.
    Script,
    /// A type tag around its first argument, in TorchScript.
    Tagged,
    Other,
}

/// A validated view of a storage.
pub(super) fn checked_view(
    part: StorageSlice,
    element: Element,
    dtype: Dtype,
    offset: u64,
    shape: Vec<u64>,
    strides: Vec<u64>,
    signs: SignBits,
) -> Result<View> {
    check_dims(shape.len())?;
    let overflow = || AnamnesisError::parse(format!("a tensor of shape {shape:?} and strides {strides:?} overflows"));
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

/// Refuses a tensor with too many dimensions.
pub(super) fn check_dims(dims: usize) -> Result<()> {
    if dims <= PTH_MAX_DIMS {
        return Ok(());
    }
    let message = format!("a tensor has more than {PTH_MAX_DIMS} dimensions");
    Err(AnamnesisError::limit("PTH_MAX_DIMS", message))
}

/// A tuple, list or `torch.Size` of unsigned integers; of a long one, only more than a tensor may have dimensions.
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
    // Many tensors can share one list.
    let items = items.iter().take(PTH_MAX_DIMS + 1);
    items.map(|&item| u64::try_from(values.int(item)?).ok()).collect()
}
