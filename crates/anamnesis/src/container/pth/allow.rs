//! What a pickle may refer to: names whose effect is plain data, and nothing else.
//!
//! Nothing is imported or called in any case. The list decides what is *read*: a name outside it may mean anything, so a
//! file that uses one is refused instead of half understood.

use super::pickle::Watcher;
use crate::error::{AnamnesisError, Result, printable};

/// Longest part of a global's name in an error, in characters.
const MAX_NAME_CHARS: usize = 160;

/// Modules with the names allowed in them.
const ALLOWED: &[(&str, &[&str])] = &[
    ("collections", &["OrderedDict", "defaultdict", "Counter", "deque"]),
    (
        "torch._utils",
        &[
            "_rebuild_tensor",
            "_rebuild_tensor_v2",
            "_rebuild_tensor_v3",
            "_rebuild_parameter",
            "_rebuild_parameter_with_state",
            "_rebuild_qtensor",
            "_rebuild_sparse_tensor",
            "_rebuild_sparse_csr_tensor",
            "_rebuild_nested_tensor",
            "_rebuild_meta_tensor_no_storage",
            "_rebuild_wrapper_subclass",
            "_rebuild_device_tensor_from_numpy",
            "_rebuild_device_tensor_from_cpu_tensor",
            "_rebuild_xla_tensor",
        ],
    ),
    ("torch._tensor", &["_rebuild_from_type_v2"]),
    ("torch", &["Size", "device", "Tensor"]),
    ("torch.nn.parameter", &["Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer"]),
    ("torch.nn", &["Parameter"]),
    ("torch.autograd.variable", &["Variable"]),
    ("torch.autograd", &["Variable"]),
    ("torch.storage", &["UntypedStorage", "TypedStorage", "_UntypedStorage", "_TypedStorage"]),
    ("torch.serialization", &["_get_layout"]),
    (
        "torch.jit._pickle",
        &["build_intlist", "build_doublelist", "build_boollist", "build_tensorlist", "restore_type_tag"],
    ),
    ("_codecs", &["encode"]),
    ("builtins", BUILTINS),
    ("__builtin__", BUILTINS),
    ("numpy", &["dtype", "ndarray"]),
    ("numpy.core.multiarray", &["scalar", "_reconstruct"]),
    ("numpy._core.multiarray", &["scalar", "_reconstruct"]),
    ("numpy.core.numeric", &["_frombuffer"]),
    ("numpy._core.numeric", &["_frombuffer"]),
    // Types of elements that NumPy does not have itself.
    (
        "ml_dtypes",
        &["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"],
    ),
    ("argparse", &["Namespace"]),
    ("pathlib", &["PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"]),
    ("pathlib._local", &["PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"]),
    ("typing", &["Any"]),
    ("torch.torch_version", &["TorchVersion"]),
    // Hyperparameters of training frameworks: nodes of a tree of settings.
    ("omegaconf.listconfig", &["ListConfig"]),
    ("omegaconf.dictconfig", &["DictConfig"]),
    ("omegaconf.base", &["ContainerMetadata", "Metadata"]),
    ("omegaconf.nodes", &["AnyNode", "IntegerNode", "FloatNode", "StringNode", "BooleanNode", "EnumNode", "PathNode"]),
    ("datetime", &["datetime", "date", "time", "timedelta", "timezone"]),
];

/// Types, as a value or as what makes the values of a `defaultdict`.
const BUILTINS: &[&str] = &[
    "bool",
    "bytearray",
    "bytes",
    "complex",
    "dict",
    "float",
    "frozenset",
    "int",
    "list",
    "long",
    "object",
    "range",
    "set",
    "slice",
    "str",
    "tuple",
    "unicode",
];

/// Types of elements and memory layouts, which are names in `torch` itself.
const TORCH_CONSTANTS: &[&str] = &[
    "strided",
    "sparse_coo",
    "sparse_csr",
    "sparse_csc",
    "sparse_bsr",
    "sparse_bsc",
    "per_tensor_affine",
    "per_channel_affine",
    "per_tensor_symmetric",
    "per_channel_symmetric",
    "per_channel_affine_float_qparams",
    "contiguous_format",
    "channels_last",
    "channels_last_3d",
    "preserve_format",
];

/// Whether a pickle may refer to this name. `script` says that the archive is a TorchScript one, where classes under
/// `__torch__` are records of attributes.
pub(crate) fn is_allowed(module: &str, name: &str, script: bool) -> bool {
    let listed = ALLOWED.iter().any(|(allowed, names)| *allowed == module && names.contains(&name));
    let in_torch = || {
        super::element::of_storage(name).is_some()
            || super::element::of_dtype(name).is_some()
            || TORCH_CONSTANTS.contains(&name)
            || is_typed_tensor(name)
    };
    let is_storage = |name: &str| super::element::of_storage(name).is_some();
    listed
        || (module == "torch" && in_torch())
        || (matches!(module, "torch.cuda" | "torch.storage") && (is_storage(name) || is_typed_tensor(name)))
        || (script && (module == "__torch__" || module.starts_with("__torch__.")))
}

/// `FloatTensor` and its kin.
fn is_typed_tensor(name: &str) -> bool {
    name.strip_suffix("Tensor").is_some_and(|kind| super::element::of_storage(&format!("{kind}Storage")).is_some())
}

/// Stops at the first name that is not allowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strict {
    pub(super) script: bool,
}

impl Watcher for Strict {
    fn global(&mut self, module: &str, name: &str, _: usize) -> Result<()> {
        if is_allowed(module, name, self.script) {
            return Ok(());
        }
        let shown = |text| printable(text, MAX_NAME_CHARS);
        Err(AnamnesisError::DisallowedGlobal { module: shown(module), name: shown(name) })
    }
}
