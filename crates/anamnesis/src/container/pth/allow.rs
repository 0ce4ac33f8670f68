//! The allow list of globals in a pickle: names that stand for plain data.
//!
//! Nothing is ever imported or called. A file that refers to any other name is refused, because its meaning is
//! unknown.

use super::pickle::Watcher;
use crate::error::{AnamnesisError, Result, printable};

/// Maximum characters of a global's name in an error.
const MAX_NAME_CHARS: usize = 160;

/// Allowed names by module.
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
    // Element types that NumPy itself lacks.
    (
        "ml_dtypes",
        &["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"],
    ),
    ("argparse", &["Namespace"]),
    ("pathlib", &["PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"]),
    ("pathlib._local", &["PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"]),
    ("typing", &["Any"]),
    ("torch.torch_version", &["TorchVersion"]),
    // Hyperparameters of training frameworks.
    ("omegaconf.listconfig", &["ListConfig"]),
    ("omegaconf.dictconfig", &["DictConfig"]),
    ("omegaconf.base", &["ContainerMetadata", "Metadata"]),
    ("omegaconf.nodes", &["AnyNode", "IntegerNode", "FloatNode", "StringNode", "BooleanNode", "EnumNode", "PathNode"]),
    ("datetime", &["datetime", "date", "time", "timedelta", "timezone"]),
    // The records of distributed checkpoints.
    (
        "torch.distributed.checkpoint.metadata",
        &[
            "Metadata",
            "TensorStorageMetadata",
            "BytesStorageMetadata",
            "ChunkStorageMetadata",
            "TensorProperties",
            "MetadataIndex",
            "StorageMeta",
            "_MEM_FORMAT_ENCODING",
        ],
    ),
    ("torch.distributed.checkpoint.filesystem", &["_StorageInfo"]),
    ("torch.distributed._shard.sharded_tensor.metadata", &["TensorProperties", "MEM_FORMAT_ENCODING"]),
];

/// Types, as values or as the default factory of a `defaultdict`.
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

/// Memory layouts and quantisation schemes, which are names in `torch` itself.
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

/// Whether a pickle may refer to this name. `script` means a TorchScript archive, where classes under `__torch__` are
/// plain records.
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

/// `FloatTensor` and the like.
fn is_typed_tensor(name: &str) -> bool {
    name.strip_suffix("Tensor").is_some_and(|kind| super::element::of_storage(&format!("{kind}Storage")).is_some())
}

/// Stops at the first global that is not allowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllowedGlobals {
    pub(super) script: bool,
}

impl Watcher for AllowedGlobals {
    fn global(&mut self, module: &str, name: &str, _: usize) -> Result<()> {
        if is_allowed(module, name, self.script) {
            return Ok(());
        }
        let shown = |text| printable(text, MAX_NAME_CHARS);
        Err(AnamnesisError::DisallowedGlobal { module: shown(module), name: shown(name) })
    }
}
