//! Tensors from the calls that a pickle records.

use super::element::{self, Element};
use super::numpy;
use super::pickle::{Global, Id, Object, PickleValues, Value};
use super::storage::Storages;
use super::view::{Kind, SignBits, View, checked_view, numbers};
use crate::error::{AnamnesisError, Result, quoted};

/// Maximum number of wrappers (parameter, type) around a tensor.
const MAX_WRAPPERS: usize = 8;

pub(super) fn kind(object: &Object, values: &PickleValues<'_>) -> Kind {
    let mut object = object;
    for _ in 0..MAX_WRAPPERS {
        let Some(global) = values.global(object.callable) else { return Kind::Other };
        match (global.module, global.name) {
            // A parameter has the kind of its data.
            ("torch.nn.parameter" | "torch.nn" | "torch.autograd" | "torch.autograd.variable", _) => {
                let inner = values.tuple(object.args).and_then(|args| args.first());
                match inner.map(|&inner| values.get(inner)) {
                    Some(Value::Object(inner)) => object = inner,
                    _ => return Kind::Other,
                }
            }
            ("torch._utils" | "torch._tensor", _) => return Kind::Tensor,
            ("collections", "OrderedDict" | "defaultdict" | "Counter") => return Kind::Mapping,
            ("torch.jit._pickle", "build_tensorlist" | "restore_type_tag") => return Kind::Tagged,
            (module, _) if module.starts_with("numpy.") => return numpy::kind(object, values).unwrap_or(Kind::Other),
            (module, _) if module == "__torch__" || module.starts_with("__torch__.") => return Kind::Script,
            _ => return Kind::Other,
        }
    }
    Kind::Tensor
}

/// The view of an object of [`Kind::Tensor`] or [`Kind::Scalar`].
///
/// # Errors
/// `Unsupported` for an unsupported kind of tensor, `Parse` if it is inconsistent.
pub(super) fn tensor(object: &Object, values: &PickleValues<'_>, storages: &mut Storages) -> Result<View> {
    if let Some(array) = numpy::tensor(object, values, storages) {
        return array;
    }
    let mut object = object;
    for _ in 0..MAX_WRAPPERS {
        if object.state.is_some() || !object.items().is_empty() || !object.appended().is_empty() {
            return Err(AnamnesisError::parse("the pickle changes a tensor after it is made"));
        }
        let global =
            values.global(object.callable).ok_or_else(|| AnamnesisError::parse("a call without a callable"))?;
        let args = values.tuple(object.args).unwrap_or_default();
        match classify_call(global, args, values)? {
            RebuildCall::View(function, args) => return view(function, args, values, storages),
            RebuildCall::Wrapped(inner) => match values.get(inner) {
                Value::Object(inner) => object = inner,
                _ => return Err(AnamnesisError::parse("a parameter without a tensor")),
            },
        }
    }
    Err(AnamnesisError::parse(format!("a tensor inside more than {MAX_WRAPPERS} wrappers")))
}

/// The meaning of a call.
enum RebuildCall<'p> {
    /// A view of a storage: the function and its arguments.
    View(&'p str, &'p [Id]),
    /// A wrapper around another value.
    Wrapped(Id),
}

fn classify_call<'p>(global: Global<'p>, args: &'p [Id], values: &'p PickleValues<'_>) -> Result<RebuildCall<'p>> {
    let refused = |what: &str| {
        let name = format!("{}.{}", global.module, global.name);
        AnamnesisError::unsupported("pth", format!("{what} ({name}) are not supported"))
    };
    let first = || args.first().copied().ok_or_else(|| AnamnesisError::parse("a tensor without its parts"));
    match global.name {
        name @ ("_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3") => Ok(RebuildCall::View(name, args)),
        "_rebuild_parameter" | "_rebuild_parameter_with_state" | "Parameter" | "Buffer" | "Variable" => {
            first().map(RebuildCall::Wrapped)
        }
        "_rebuild_from_type_v2" => {
            let [function, class, args, _state] = args else {
                return Err(AnamnesisError::parse("a tensor of a class without its parts"));
            };
            let is_known = values.global(*class).is_some_and(|class| {
                class.is("torch", "Tensor")
                    || class.is("torch.nn.parameter", "Parameter")
                    || class.is("torch.nn.parameter", "Buffer")
            });
            let (Some(function), Some(args), true) = (values.global(*function), values.tuple(*args), is_known) else {
                return Err(refused("tensors of other classes"));
            };
            // The inner function may be any of the others, but not this one again.
            if function.name == "_rebuild_from_type_v2" {
                return Err(AnamnesisError::parse("a tensor of a class inside another"));
            }
            classify_call(function, args, values)
        }
        "_rebuild_qtensor" => Err(refused("quantised tensors")),
        "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor" => Err(refused("sparse tensors")),
        "_rebuild_nested_tensor" => Err(refused("nested tensors")),
        "_rebuild_meta_tensor_no_storage" => Err(refused("tensors without data")),
        "_rebuild_wrapper_subclass" => Err(refused("tensors of other classes")),
        "_rebuild_device_tensor_from_cpu_tensor" | "_rebuild_device_tensor_from_numpy" | "_rebuild_xla_tensor" => {
            Err(refused("tensors of other devices"))
        }
        "UninitializedParameter" | "UninitializedBuffer" => Err(refused("tensors without data")),
        _ => Err(refused("tensors made by this function")),
    }
}

/// Checks the arguments of `_rebuild_tensor` and its successors: storage, offset, size, stride; requires_grad, hooks;
/// in version 3 the dtype; then conj and neg bits.
fn view(function: &str, args: &[Id], values: &PickleValues<'_>, storages: &mut Storages) -> Result<View> {
    let wrong = |what: &str| AnamnesisError::parse(format!("a tensor {what}"));
    let [storage, offset, size, stride, rest @ ..] = args else {
        return Err(wrong("without storage, offset, size and stride"));
    };
    let Value::Persistent(pid) = values.get(*storage) else { return Err(wrong("without a storage")) };
    let part = storages.declare(pid, values)?;
    let is_third = function == "_rebuild_tensor_v3";
    let element = if is_third { dtype_of(rest.get(2), values)? } else { part.element };
    let signs = signs_of(rest.get(if is_third { 3 } else { 2 }), values)?;
    let dtype = element.dtype.ok_or_else(|| {
        AnamnesisError::unsupported("pth", format!("tensors of type torch.{} are not supported", element.name))
    })?;
    let offset = values.int(*offset).and_then(|offset| u64::try_from(offset).ok());
    let offset = offset.ok_or_else(|| wrong("with an invalid storage offset"))?;
    let (shape, strides) = (numbers(*size, values), numbers(*stride, values));
    let (Some(shape), Some(strides)) = (shape, strides) else {
        return Err(wrong("with a size or stride that is negative or not an integer"));
    };
    if shape.len() != strides.len() {
        return Err(wrong(&format!("with {} dimensions and {} strides", shape.len(), strides.len())));
    }
    checked_view(part, element, dtype, offset, shape, strides, signs)
}

fn dtype_of(id: Option<&Id>, values: &PickleValues<'_>) -> Result<Element> {
    let global = id.and_then(|&id| values.global(id));
    let global = global.ok_or_else(|| AnamnesisError::parse("a tensor without a type"))?;
    element::of_dtype(global.name).filter(|_| global.module == "torch").ok_or_else(|| {
        let name = quoted(&format!("{}.{}", global.module, global.name));
        AnamnesisError::unsupported("pth", format!("tensors of type {name} are not supported"))
    })
}

fn signs_of(id: Option<&Id>, values: &PickleValues<'_>) -> Result<SignBits> {
    let mut signs = SignBits::default();
    let unknown = || AnamnesisError::unsupported("pth", "a tensor with unknown properties");
    match id.map(|&id| values.get(id)) {
        None | Some(Value::None) => {}
        Some(Value::Dict(entries)) => {
            for &(key, value) in entries {
                let Value::Bool(value) = values.get(value) else { return Err(unknown()) };
                match values.text(key) {
                    Some("conj") => signs.conjugated = value,
                    Some("neg") => signs.negated = value,
                    _ => return Err(unknown()),
                }
            }
        }
        Some(_) => return Err(unknown()),
    }
    Ok(signs)
}
