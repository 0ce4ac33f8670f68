"""Arrays quantised in memory, and packed arrays decoded."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, Mapping, Optional, Tuple, Union

import numpy as np

from ._anamnesis import Checkpoint as NativeCheckpoint
from ._anamnesis import assemble as _assemble
from ._anamnesis import assemble_blocks as _assemble_blocks
from ._anamnesis import block_size as _block_size
from ._anamnesis import quantize as _quantize
from ._safetensors import given
from ._tensor import Array, Scheme, StoredTensor, Tensor, stored_tensor

#: The layer that weights belong to while they are in memory; the names of parts come without it.
_LAYER = "layer."
_NAME = f"{_LAYER}weight"


@dataclasses.dataclass(frozen=True)
class Lost:
    """The difference that quantising has made."""

    mean_absolute: float
    mean_squared: float
    #: Signal to quantisation noise, in decibels; infinite where nothing was lost.
    sqnr_db: float
    cosine: float


class Quantized:
    """A quantised array: its parts as files hold them, and how to get the numbers back."""

    def __init__(self, native: NativeCheckpoint, to: str, config: Optional[Dict[str, Any]], lost: Optional[Lost]) -> None:
        self._native = native
        self._tensor = Tensor(native, _NAME)
        #: The encoding, by the name it was asked for.
        self.to = to
        #: The members of a ``config.json`` that describe it; ``None`` where the parts say all by themselves.
        self.config = config
        #: The difference to the array, where it was measured.
        self.lost = lost

    @property
    def shape(self) -> Tuple[int, ...]:
        """The shape of the array."""
        return self._tensor.shape

    @property
    def scheme(self) -> Optional[Scheme]:
        """How it is quantised; ``None`` where it is only stored in a smaller type."""
        return self._tensor.scheme

    @property
    def stored(self) -> Mapping[str, StoredTensor]:
        """The parts as stored tensors, the codes first, by their names in the layer: ``qweight``, ``scales`` …"""
        names = list(self._tensor.stored)
        names += [name for name in self._native.stored_names() if name not in names]
        found = ((name, stored_tensor(self._native, name)) for name in names)
        return {name[len(_LAYER) :]: part for name, part in found if part is not None and name.startswith(_LAYER)}

    @property
    def parts(self) -> Dict[str, Array]:
        """The parts as arrays, the codes first. Blocks of GGUF are bytes, a row of them for every row of the array."""
        return {name: part.numpy() for name, part in self.stored.items()}

    @property
    def data(self) -> Array:
        """The codes, or the blocks."""
        return next(iter(self.stored.values())).numpy()

    @property
    def scales(self) -> Optional[Array]:
        """The scales, where they are a part of their own."""
        return self._of_role("scale")

    @property
    def zero_points(self) -> Optional[Array]:
        """The zero points, where they are a part of their own."""
        return self._of_role("zero_point")

    def _of_role(self, role: str) -> Optional[Array]:
        return next((part.numpy() for part in self.stored.values() if part.role == role), None)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.stored.values())

    def dequantize(self, dtype: Any = "f32") -> Array:
        """The numbers that the parts stand for, in the shape of the array."""
        return self._tensor.numpy(dtype)

    def __repr__(self) -> str:
        return f"<anamnesis.Quantized {self.to} {list(self.shape)}, {self.nbytes} bytes>"


def quantize(
    array: Any,
    to: str,
    importance: Optional[Any] = None,
    *,
    group_size: Union[None, int, str] = None,
    block_size: Optional[int] = None,
    double_quant: bool = False,
    allow_nonfinite: bool = False,
    measure: bool = False,
    threads: Optional[int] = None,
) -> Quantized:
    """Quantises an array: to a target of ``amn formats``, or to a block type of GGUF by its name, such as ``"q4_k"``.

    ``array`` is a matrix of floats (or what torch and others call so); ``importance`` a number for each of its columns, which
    the smallest block types need. ``measure`` sets ``lost`` of the result, the difference to the array. The bytes are those that
    ``amn forget`` writes.

    >>> import numpy
    >>> q = quantize(numpy.ones((2, 64), "float32"), "q8_0")
    >>> q.data.shape, q.scheme.format, q.dequantize().shape
    ((2, 68), 'Q8_0', (2, 64))
    """
    weights = None
    if importance is not None:
        weights = np.asarray(importance, np.float32).reshape(-1).tolist()
    options = {
        "group_size": group_size,
        "block_size": block_size,
        "double_quant": double_quant,
        "allow_nonfinite": allow_nonfinite,
        "measure": measure,
        "threads": threads,
    }
    native, config, lost = _quantize(given(_NAME, array), to, weights, options)
    return Quantized(native, to, None if config is None else json.loads(config), None if lost is None else Lost(**lost))


def dequantize(
    parts: Any,
    scheme: Union[None, str, Mapping[str, Any]] = None,
    dtype: Any = "f32",
    *,
    shape: Optional[Tuple[int, ...]] = None,
) -> Array:
    """The numbers that packed arrays stand for.

    ``parts`` are arrays by their names in a layer, as files have them (``{"qweight": …, "qzeros": …, "scales": …}``), or one
    array of the blocks of GGUF. ``scheme`` is the name of a block type (``"q4_k"``), or the configuration that describes the
    quantisation where the arrays do not say all (``{"quant_method": "gptq", "bits": 4, …}``, or a whole ``config.json``).
    ``shape`` is the shape of the numbers of blocks; by default every row of bytes is a row.

    >>> import numpy
    >>> dequantize(numpy.array([[0, 60] + [1] * 32], "uint8"), "q8_0")[0, :3]
    array([1., 1., 1.], dtype=float32)
    """
    if isinstance(scheme, str):
        return _dequantize_blocks(parts, scheme, dtype, shape)
    if shape is not None:
        raise TypeError("the shape of blocks can be given, others say it themselves")
    if not isinstance(parts, Mapping):
        raise TypeError("parts are arrays by their names; one array alone needs the name of a block type as its scheme")
    config = None if scheme is None else json.dumps(_whole(scheme))
    arrays = [given(f"{_LAYER}{name}", array) for name, array in parts.items()]
    native = _assemble(arrays, {"config": config})
    names = native.names()
    if len(names) != 1:
        what = ", ".join(name[len(_LAYER) :] for name in names) or "nothing"
        raise ValueError(f"the parts are not those of one weight: they are {what}")
    return Tensor(native, names[0]).numpy(dtype)


def _whole(config: Mapping[str, Any]) -> Dict[str, Any]:
    """A configuration whose values are what JSON has."""
    return {str(key): value for key, value in config.items()}


def _dequantize_blocks(parts: Any, scheme: str, dtype: Any, shape: Optional[Tuple[int, ...]]) -> Array:
    size = _block_size(scheme)
    if size is None:
        raise ValueError(f"{scheme!r} is no block type of GGUF; others are described by their configuration, a dict")
    values, nbytes = size
    if isinstance(parts, Mapping):
        if len(parts) != 1:
            raise ValueError(f"blocks are one array, not {len(parts)}")
        parts = next(iter(parts.values()))
    blocks = np.ascontiguousarray(parts)
    if blocks.dtype != np.uint8:
        raise TypeError(f"blocks are bytes (uint8), not {blocks.dtype}")
    if shape is None:
        if blocks.ndim == 0 or blocks.shape[-1] % nbytes != 0:
            raise ValueError(f"rows of {scheme} are multiples of {nbytes} bytes, the array has shape {blocks.shape}")
        shape = (*blocks.shape[:-1], blocks.shape[-1] // nbytes * values)
    if blocks.size == 0:
        return Tensor(_assemble([given(_NAME, np.empty(shape, np.float32))], None), _NAME).numpy(dtype)
    native = _assemble_blocks(_NAME, scheme, list(shape), blocks.reshape(-1))
    return Tensor(native, _NAME).numpy(dtype)
