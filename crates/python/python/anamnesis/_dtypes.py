"""Element types by their names in safetensors, as NumPy knows them."""

from __future__ import annotations

import importlib
import warnings
from typing import Any, Dict, Optional, Tuple

import numpy as np

try:
    _ml_dtypes: Any = importlib.import_module("ml_dtypes")
except ImportError:  # NumPy alone has neither BF16 nor FP8.
    _ml_dtypes = None

_PLAIN: Dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
    "C64": np.complex64,
}

# The name in ml_dtypes, and the integers that hold the bits where it is not installed.
_EXTENDED: Dict[str, Tuple[str, Any]] = {
    "BF16": ("bfloat16", np.uint16),
    "F8_E4M3": ("float8_e4m3fn", np.uint8),
    "F8_E5M2": ("float8_e5m2", np.uint8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", np.uint8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", np.uint8),
    "F8_E8M0": ("float8_e8m0fnu", np.uint8),
}

#: Types that are decoded to F32, F16 and BF16 although they are not quantised.
FLOATS = {"F64", "F32", "F16", "BF16", *(name for name in _EXTENDED if name != "F8_E8M0")}

_TARGETS = {
    "f32": "F32",
    "float32": "F32",
    "float": "F32",
    "f16": "F16",
    "float16": "F16",
    "half": "F16",
    "bf16": "BF16",
    "bfloat16": "BF16",
}


class BitsWarning(UserWarning):
    """BF16 or FP8 values are returned as integers that hold their bits, as ``ml_dtypes`` is not installed."""


def numpy_dtype(name: str) -> "np.dtype[Any]":
    """The NumPy type of elements of this type; integers with their bits where NumPy has no such type.

    >>> numpy_dtype("F16")
    dtype('float16')
    """
    # Blocks of ggml, and whatever else has no element type: bytes.
    found: "np.dtype[Any]" = np.dtype(_PLAIN.get(name, np.uint8))
    if name in _EXTENDED:
        known, bits = _EXTENDED[name]
        extended = getattr(_ml_dtypes, known, None)
        found = np.dtype(bits if extended is None else extended)
        if extended is None:
            message = f"{name} values are the bits in {found.name}; install ml_dtypes to get {known}"
            warnings.warn(message, BitsWarning, stacklevel=4)
    return found


def stored_name(dtype: "np.dtype[Any]") -> Optional[str]:
    """The name of a NumPy type in safetensors; ``None`` where it has none.

    >>> stored_name(np.dtype("int8")), stored_name(np.dtype("S3"))
    ('I8', None)
    """
    for name, known in _PLAIN.items():
        if dtype == np.dtype(known):
            return name
    for name, (extended, _) in _EXTENDED.items():
        if dtype.name == extended:
            return name
    return None


def target_name(dtype: Any) -> str:
    """The type to decode to: ``"F32"``, ``"F16"`` or ``"BF16"``.

    >>> target_name("bfloat16"), target_name(np.float16), target_name("F32")
    ('BF16', 'F16', 'F32')
    """
    text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    # "torch.bfloat16", "float32"
    found = _TARGETS.get(text.rsplit(".", 1)[-1].lower())
    if found is None:
        try:
            found = _TARGETS.get(np.dtype(dtype).name)
        except TypeError:
            pass
    if found is None:
        raise ValueError(f"{dtype!r} is not a type that weights are decoded to; f32, f16 and bf16 are")
    return found
