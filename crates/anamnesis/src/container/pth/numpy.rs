//! NumPy arrays and scalars, whose data is in the pickle itself.
//!
//! | callable | arguments | state |
//! |---|---|---|
//! | `numpy.core.multiarray._reconstruct` | class, placeholder shape and type | 1, shape, dtype, is Fortran order, bytes |
//! | `numpy.core.numeric._frombuffer` | bytes, dtype, shape, order, and axes if the order is `K` | |
//! | `numpy.core.multiarray.scalar` | dtype, bytes | |
//!
//! A dtype is a call of `numpy.dtype` with a code or an `ml_dtypes` class; its state contains the byte order.
//! Protocols before 3 have no byte strings: they call `_codecs.encode` on a Latin-1 text. Arrays of anything but
//! numbers are not tensors.

use super::element::{self, Element};
use super::latin1::Latin1Text;
use super::pickle::{Global, Id, Object, PickleValues, RawBytes, Value};
use super::storage::{ByteOrder, StorageSlice, Storages};
use super::view::{Kind, SignBits, View, check_dims, checked_view, numbers};
use crate::catalog::Dtype;
use crate::container::numpy::{dtype_of, unread_numbers, without_order};
use crate::error::{AnamnesisError, Result, quoted};

/// Version of an array's state.
const ARRAY_VERSION: i64 = 1;

/// The call that makes an array or a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumpyCall {
    Reconstruct,
    FromBuffer,
    Scalar,
}

impl NumpyCall {
    fn of(global: Global<'_>) -> Option<Self> {
        match (global.module, global.name) {
            ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Some(Self::Reconstruct),
            ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Some(Self::Scalar),
            ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => Some(Self::FromBuffer),
            _ => None,
        }
    }
}

/// The kind of a NumPy object; `None` if it is not one.
pub(super) fn kind(object: &Object, values: &PickleValues<'_>) -> Option<Kind> {
    let maker = NumpyCall::of(values.global(object.callable)?)?;
    // Contradictions are reported when the array is read.
    let numbers = dtype_in(maker, object, values).map(|dtype| numbers_of(dtype, values));
    Some(match (numbers, maker) {
        (Some(Ok(Numbers::Other)), _) | (Some(Ok(Numbers::Unread(_))), NumpyCall::Scalar) => Kind::Other,
        (_, NumpyCall::Scalar) => Kind::Scalar,
        (_, NumpyCall::Reconstruct | NumpyCall::FromBuffer) => Kind::Tensor,
    })
}

/// The dtype argument of an array.
fn dtype_in(maker: NumpyCall, object: &Object, values: &PickleValues<'_>) -> Option<Id> {
    let (tuple, place) = match maker {
        NumpyCall::Scalar => (object.args, 0),
        NumpyCall::FromBuffer => (object.args, 1),
        NumpyCall::Reconstruct => (object.state?, 2),
    };
    values.tuple(tuple)?.get(place).copied()
}

/// The view of an array or a scalar; `None` for any other object.
pub(super) fn tensor(object: &Object, values: &PickleValues<'_>, storages: &mut Storages) -> Option<Result<View>> {
    let maker = NumpyCall::of(values.global(object.callable)?)?;
    Some(parts(maker, object, values).and_then(|parts| view(&parts, values, storages)))
}

/// The parts of an array.
struct Parts {
    dtype: Id,
    shape: Vec<u64>,
    layout: Axes,
    content: Id,
}

/// The order of the axes.
enum Axes {
    LastFastest,
    FirstFastest,
    /// A permutation of the stored axes.
    Ordered(Vec<u64>),
}

fn wrong(what: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("a NumPy array {what}"))
}

fn parts(maker: NumpyCall, object: &Object, values: &PickleValues<'_>) -> Result<Parts> {
    if !object.items().is_empty() || !object.appended().is_empty() {
        return Err(wrong("that the pickle changes after it is made"));
    }
    let args = values.tuple(object.args).unwrap_or_default();
    let shape_of = |id| {
        let shape = numbers(id, values).ok_or_else(|| wrong("whose shape is negative or not an integer"))?;
        check_dims(shape.len()).map(|()| shape)
    };
    if maker != NumpyCall::Reconstruct && object.state.is_some() {
        return Err(wrong("that the pickle changes after it is made"));
    }
    match (maker, args) {
        (NumpyCall::Scalar, &[dtype, content]) => {
            Ok(Parts { dtype, shape: Vec::new(), layout: Axes::LastFastest, content })
        }
        (NumpyCall::FromBuffer, &[content, dtype, shape, order, ref axes @ ..]) => {
            let layout = match (values.text(order), axes) {
                (Some("C"), []) => Axes::LastFastest,
                (Some("F"), []) => Axes::FirstFastest,
                (Some("K"), &[axes]) => {
                    let axes = numbers(axes, values);
                    Axes::Ordered(axes.ok_or_else(|| wrong("whose axes are not integers"))?)
                }
                _ => return Err(wrong("in an unknown order")),
            };
            Ok(Parts { dtype, shape: shape_of(shape)?, layout, content })
        }
        (NumpyCall::Reconstruct, &[class, ..]) => {
            if !values.global(class).is_some_and(|class| class.is("numpy", "ndarray")) {
                return Err(wrong("of an unknown class"));
            }
            let state = object.state.and_then(|state| values.tuple(state));
            let Some(&[version, shape, dtype, is_fortran, content]) = state else {
                return Err(wrong("without shape, type and content"));
            };
            if values.int(version) != Some(ARRAY_VERSION) {
                return Err(wrong("of an unknown version"));
            }
            let layout = match values.get(is_fortran) {
                Value::Bool(false) | Value::Int(0) => Axes::LastFastest,
                Value::Bool(true) | Value::Int(1) => Axes::FirstFastest,
                _ => return Err(wrong("in an unknown order")),
            };
            Ok(Parts { dtype, shape: shape_of(shape)?, layout, content })
        }
        _ => Err(wrong("without its parts")),
    }
}

fn view(parts: &Parts, values: &PickleValues<'_>, storages: &mut Storages) -> Result<View> {
    let (dtype, order) = match numbers_of(parts.dtype, values)? {
        Numbers::Read(dtype, order) => (dtype, order),
        Numbers::Unread(what) => return Err(AnamnesisError::unsupported("pth", format!("{what}, are not supported"))),
        Numbers::Other => return Err(wrong("that does not hold numbers")),
    };
    let element = Element { name: "array", bytes: dtype.byte_size() as u64, dtype: Some(dtype) };
    let elements = parts.shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    let wanted = elements.and_then(|elements| elements.checked_mul(element.bytes));
    let wanted = wanted.ok_or_else(|| wrong(&format!("of shape {:?}, which overflows", parts.shape)))?;
    let (storage, start, bytes) = content(parts.content, values, storages)?;
    if bytes != wanted {
        let why = format!("of shape {:?} and type {dtype} that takes {wanted} bytes and has {bytes}", parts.shape);
        return Err(wrong(&why));
    }
    let (shape, strides) = parts.axes()?;
    let part = StorageSlice { storage, element, start, bytes, order };
    checked_view(part, element, dtype, 0, shape, strides, SignBits::default())
}

impl Parts {
    /// Sizes and strides of the axes, in reading order.
    fn axes(&self) -> Result<(Vec<u64>, Vec<u64>)> {
        // Strides matter only if there are elements, and then they are less than 2^64.
        let distances = |shape: &mut dyn Iterator<Item = &u64>| {
            let step = |distance: &mut u64, &size: &u64| {
                let here = *distance;
                *distance = here.saturating_mul(size);
                Some(here)
            };
            shape.scan(1, step).collect::<Vec<_>>()
        };
        match &self.layout {
            Axes::FirstFastest => Ok((self.shape.clone(), distances(&mut self.shape.iter()))),
            layout => {
                let mut strides = distances(&mut self.shape.iter().rev());
                strides.reverse();
                let Axes::Ordered(axes) = layout else { return Ok((self.shape.clone(), strides)) };
                let mut sorted = axes.clone();
                sorted.sort_unstable();
                if !sorted.iter().copied().eq(0..self.shape.len() as u64) {
                    return Err(wrong("whose axes are not a permutation"));
                }
                let ordered = |all: &[u64]| axes.iter().filter_map(|&axis| all.get(axis as usize).copied()).collect();
                Ok((ordered(&self.shape), ordered(&strides)))
            }
        }
    }
}

/// The element type of an array.
enum Numbers {
    Read(Dtype, ByteOrder),
    /// Unsupported numbers, described.
    Unread(String),
    /// Not numbers.
    Other,
}

fn numbers_of(id: Id, values: &PickleValues<'_>) -> Result<Numbers> {
    let Value::Object(object) = values.get(id) else { return Err(wrong("without a type")) };
    let is_dtype = values.global(object.callable).is_some_and(|global| global.is("numpy", "dtype"));
    let first = values.tuple(object.args).and_then(|args| args.first());
    let (Some(&first), true) = (first, is_dtype) else { return Err(wrong("without a type")) };
    let (dtype, mut order) = match values.get(first) {
        Value::Text(code) => match (dtype_of(without_order(code)), unread_numbers(without_order(code))) {
            (Some(dtype), _) => (dtype, order_of(code.get(..1).unwrap_or_default()).unwrap_or(ByteOrder::Little)),
            (None, Some(what)) => return Ok(Numbers::Unread(what.to_owned())),
            (None, None) => return Ok(Numbers::Other),
        },
        Value::Global(global) if global.module == "ml_dtypes" => match element::of_dtype(global.name) {
            Some(Element { dtype: Some(dtype), .. }) => (dtype, ByteOrder::Little),
            _ => return Ok(Numbers::Unread(format!("numbers of type ml_dtypes.{}", quoted(global.name)))),
        },
        _ => return Err(wrong("of a type without a name")),
    };
    if let Some(state) = object.state {
        let Some(&[_, byte_order, parent, names, fields, ..]) = values.tuple(state) else {
            return Err(wrong("with an incomplete dtype"));
        };
        if [parent, names, fields].iter().any(|&part| !matches!(values.get(part), Value::None)) {
            return Ok(Numbers::Other);
        }
        let byte_order = values.text(byte_order).and_then(|byte_order| match byte_order {
            "|" if dtype.byte_size() == 1 => Some(ByteOrder::Little),
            byte_order => order_of(byte_order),
        });
        order = byte_order.ok_or_else(|| wrong("in an unknown byte order"))?;
    }
    Ok(Numbers::Read(dtype, order))
}

/// Native order is little-endian on nearly all machines.
fn order_of(text: &str) -> Option<ByteOrder> {
    match text {
        "<" | "=" => Some(ByteOrder::Little),
        ">" => Some(ByteOrder::Big),
        _ => None,
    }
}

/// The storage that holds the data of an array, the offset in it, and the size in bytes.
fn content(id: Id, values: &PickleValues<'_>, storages: &mut Storages) -> Result<(u32, u64, u64)> {
    let raw = match values.get(id) {
        Value::Object(object) => match encoded(object, values)? {
            Some(text) => (text, values.raw_bytes(text)),
            None => return Ok((storages.pickle(), 0, 0)),
        },
        _ => (id, values.raw_bytes(id)),
    };
    match raw {
        (_, Some(RawBytes::Plain { start, bytes })) => Ok((storages.pickle(), start, bytes)),
        (_, Some(RawBytes::Text { start, text })) if text.is_ascii() => {
            Ok((storages.pickle(), start, text.len() as u64))
        }
        (id, Some(RawBytes::Text { start, text })) => {
            let (storage, bytes) = storages.text(id, || Latin1Text::new(start, text))?;
            Ok((storage, 0, bytes))
        }
        (_, None) => Err(wrong("whose content is not a byte string")),
    }
}

/// The text argument of `_codecs.encode`; `None` for `bytes()`, the empty byte string.
fn encoded(object: &Object, values: &PickleValues<'_>) -> Result<Option<Id>> {
    let args = values.tuple(object.args).unwrap_or_default();
    let global = values.global(object.callable);
    match (global.map(|global| (global.module, global.name)), args) {
        (Some(("_codecs", "encode")), &[text, encoding])
            if matches!(values.text(encoding), Some("latin1" | "latin-1")) =>
        {
            Ok(Some(text))
        }
        (Some(("builtins" | "__builtin__", "bytes")), []) => Ok(None),
        _ => Err(wrong("whose content is not a byte string")),
    }
}
