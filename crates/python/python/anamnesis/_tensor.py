"""One tensor of a checkpoint, decoded when its values are asked for."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np
import numpy.typing as npt

from ._anamnesis import Checkpoint as NativeCheckpoint
from ._dtypes import numpy_dtype, target_name
from .errors import UnsupportedError

#: A step from which on rows are decoded one by one rather than with everything between them.
_SPARSE_STEP = 16

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Scheme:
    """How a weight is quantised."""

    #: In words, such as ``"AWQ 4-bit, groups of 128"``.
    description: str
    #: The family, such as ``"AWQ"``.
    family: str
    #: The form of the scheme: ``E4M3``, ``gptq_v2``, ``NF4``, ``Q4_K``.
    format: str
    #: Bits of a code.
    bits: Optional[int]
    #: Consecutive values that share a scale.
    group_size: Optional[int]
    #: Rows and columns that share a scale, where scales form a grid over a matrix.
    block_shape: Optional[Tuple[int, int]]
    #: Whether codes stand for values around zero.
    symmetric: Optional[bool]
    #: The evidence for all this: names and shapes, a type, a configuration, metadata.
    evidence: str


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor as a file holds it."""

    name: str
    #: The type of its elements by its name in safetensors, or a block type of GGUF.
    dtype: str
    shape: Tuple[int, ...]
    nbytes: int
    #: ``quantized``, ``scale``, ``zero_point``, ``passthrough`` …
    role: str
    #: The file it is in; ``None`` where the checkpoint was not opened from files.
    file: Optional[str]
    _native: NativeCheckpoint = dataclasses.field(repr=False, compare=False)

    def numpy(self) -> Array:
        """The stored elements. Blocks, and types that NumPy cannot hold, are bytes with the shape of the rows."""
        data = self._native.read(self.name, None)
        array = shaped(data, self.dtype, self.shape)
        rows = int(np.prod(self.shape[:-1], dtype=np.int64))
        if array is data and rows > 0 and data.size % rows == 0:
            return data.reshape((*self.shape[:-1], -1))
        return array


def stored_tensor(native: NativeCheckpoint, name: str) -> Optional[StoredTensor]:
    """The stored tensor of this name."""
    found = native.stored(name)
    if found is None:
        return None
    dtype, shape, nbytes, role, file = found
    return StoredTensor(name, dtype, tuple(shape), nbytes, role, None if file is None else str(file), native)


class Tensor:
    """A tensor of a checkpoint. Nothing is read until its values are asked for.

    Indexing decodes only the rows it needs and returns NumPy arrays; :meth:`numpy`, :meth:`torch` and :meth:`jax` decode
    the whole. Everything that takes ``__array__``, DLPack or (from Python 3.12 on) the buffer protocol takes a tensor too.
    """

    __slots__ = ("_about", "_name", "_native")

    def __init__(self, native: NativeCheckpoint, name: str) -> None:
        self._native = native
        self._name = name
        self._about: Optional[Tuple[Tuple[int, ...], Optional[str], Optional[Scheme], List[str]]] = None

    def _described(self) -> Tuple[Tuple[int, ...], Optional[str], Optional[Scheme], List[str]]:
        """Shape, stored type where it is plain, scheme where it is quantised, and the stored tensors it is made of."""
        if self._about is None:
            weight = self._native.weight(self._name)
            if weight is not None:
                parts, shape = weight.pop("parts"), tuple(weight.pop("shape"))
                self._about = (shape, None, Scheme(**weight), parts)
            else:
                stored = self._native.stored(self._name)
                if stored is None:
                    raise KeyError(self._name)
                self._about = (tuple(stored[1]), stored[0], None, [self._name])
        return self._about

    @property
    def name(self) -> str:
        """Its name once decoded."""
        return self._name

    @property
    def shape(self) -> Tuple[int, ...]:
        """Its shape once decoded."""
        return self._described()[0]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of values."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dtype(self) -> str:
        """The default type of its values: as they are stored, and ``"F32"`` for a quantised weight."""
        return self._described()[1] or "F32"

    @property
    def scheme(self) -> Optional[Scheme]:
        """How it is quantised; ``None`` where it is plain."""
        return self._described()[2]

    @property
    def is_quantized(self) -> bool:
        """Whether its values are decoded from codes."""
        return self._described()[2] is not None

    @property
    def stored(self) -> Mapping[str, StoredTensor]:
        """Its parts as the file holds them, the codes first."""
        found: Dict[str, StoredTensor] = {}
        for name in self._described()[3]:
            part = stored_tensor(self._native, name)
            if part is not None:
                found[name] = part
        return found

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        if self._about is None and self._native.is_closed:
            return f"<anamnesis.Tensor {self._name!r}, closed>"
        how = self.scheme.description if self.scheme is not None else self.dtype
        return f"<anamnesis.Tensor {self._name!r} {list(self.shape)} {how}>"

    def resolve(self, dtype: Any) -> Tuple[str, Optional[str]]:
        """The type of the values that are returned for ``dtype``, and the type to decode to; ``None`` is as stored."""
        stored = self._described()[1]
        if dtype is None:
            return (stored, None) if stored is not None else ("F32", "F32")
        if isinstance(dtype, str) and stored is not None and dtype.upper() == stored:
            return stored, None
        try:
            name = target_name(dtype)
        except ValueError:
            if stored is None or not _is_dtype(dtype, numpy_dtype(stored)):
                raise
            name = stored
        return name, None if name == stored else name

    def numpy(self, dtype: Any = None, *, threads: Optional[int] = None) -> Array:
        """All values, in an array of their own.

        ``dtype`` is f32, f16 or bf16, by name or as a type of NumPy, ``ml_dtypes``, torch or JAX; by default plain tensors
        keep their type and quantised weights become f32. Without ``ml_dtypes``, BF16 is returned as ``uint16`` with a
        :class:`BitsWarning`.
        """
        name, target = self.resolve(dtype)
        data = self._native.read(self._name, target, None, threads)
        return shaped(data, name, self.shape)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        if copy is False:
            raise ValueError("decoding makes a new array, which copy=False forbids")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __buffer__(self, flags: int) -> memoryview:
        # Before Python 3.12 there is no type for what has a buffer.
        values: Any = self.numpy()
        return memoryview(values)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        return self._capsule(None, stream, max_version, dl_device, copy)

    def _capsule(
        self,
        dtype: Any,
        stream: Any,
        max_version: Optional[Tuple[int, int]],
        dl_device: Optional[Tuple[int, int]],
        copy: Optional[bool],
    ) -> Any:
        if stream not in (None, -1):
            raise BufferError("the values are in memory of the CPU, which has no streams")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError("the values are in memory of the CPU")
        if copy is False:
            raise BufferError("decoding makes new values, which copy=False forbids")
        versioned = max_version is not None and max_version[0] >= 1
        return self._native.dlpack(self._name, self.resolve(dtype)[1], versioned)

    def torch(self, dtype: Any = None) -> Any:
        """All values as a ``torch.Tensor``, decoded into the memory that it keeps."""
        import torch

        name, _ = self.resolve(dtype)
        if self.size == 0 or name.startswith("F8_"):
            # torch takes neither by DLPack in every version that is in use.
            return as_torch(self.numpy(dtype), name)
        return torch.from_dlpack(_Decoded(self, dtype))

    def jax(self, dtype: Any = None) -> Any:
        """All values as a JAX array, decoded into the memory that it keeps where JAX allows that."""
        import jax.numpy

        if self.size == 0:
            return jax.numpy.asarray(self.numpy(dtype))
        return jax.dlpack.from_dlpack(_Decoded(self, dtype))

    def __getitem__(self, index: Any) -> Array:
        return self.rows(index)

    def rows(self, index: Any, dtype: Any = None) -> Array:
        """The values at an index as NumPy has it; only the rows that it needs are decoded.

        A row is everything under one value of the first index. Integers, slices, ``...`` and tuples of them are accepted.
        """
        key = index if isinstance(index, tuple) else (index,)
        key = _without_ellipsis(key, self.ndim)
        for part in key:
            _check_index(part)
        if not self.shape:
            return np.asarray(self.numpy(dtype)[()])
        first, rest = (key[0], key[1:]) if key else (slice(None), ())
        rows = self.shape[0]
        if isinstance(first, slice):
            start, stop, step = first.indices(rows)
            array = self._range(range(start, stop, step), dtype)
            return array[(slice(None), *rest)] if rest else array
        row = operator.index(first)
        if not -rows <= row < rows:
            raise IndexError(f"index {row} is out of bounds for axis 0 of {self._name!r} with size {rows}")
        array = self._rows(row % rows, row % rows + 1, dtype)[0]
        return np.asarray(array[rest] if rest else array)

    def _range(self, wanted: range, dtype: Any) -> Array:
        if len(wanted) == 0:
            return self._rows(0, 0, dtype)
        if abs(wanted.step) >= _SPARSE_STEP:
            return np.concatenate([self._rows(row, row + 1, dtype) for row in wanted])
        low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
        array = self._rows(low, high + 1, dtype)
        return array if wanted.step == 1 else array[:: wanted.step]

    def _rows(self, start: int, stop: int, dtype: Any) -> Array:
        name, target = self.resolve(dtype)
        data = self._native.read(self._name, target, (start, stop))
        return shaped(data, name, (stop - start, *self.shape[1:]))


class _Decoded:
    """A tensor in one type, for libraries that take DLPack."""

    def __init__(self, tensor: Tensor, dtype: Any) -> None:
        self._tensor = tensor
        self._dtype = dtype

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        return self._tensor._capsule(self._dtype, stream, max_version, dl_device, copy)


def shaped(data: Array, dtype: str, shape: Tuple[int, ...]) -> Array:
    """Bytes as an array of this type and shape; as they are where NumPy has no such type."""
    known = numpy_dtype(dtype)
    if known.itemsize * int(np.prod(shape, dtype=np.int64)) != data.size:
        return data
    try:
        return data.view(known).reshape(shape)
    except ValueError as error:
        raise UnsupportedError(f"a tensor of {len(shape)} dimensions is not an array: {error}") from error


def as_torch(array: Array, dtype: str) -> Any:
    """An array as a ``torch.Tensor`` with the same memory; ``dtype`` is the type of its values, by its name in safetensors."""
    import torch

    wanted = _TORCH.get(dtype)
    if wanted is None:
        return torch.from_numpy(np.ascontiguousarray(array))
    bits = torch.from_numpy(np.ascontiguousarray(array).view(np.int16 if dtype == "BF16" else np.uint8))
    return bits.view(getattr(torch, wanted))


_TORCH = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}


def _is_dtype(given: Any, known: "np.dtype[Any]") -> bool:
    try:
        return bool(np.dtype(given) == known)
    except TypeError:
        return False


def _check_index(part: Any) -> None:
    if isinstance(part, slice):
        if part.step == 0:
            raise ValueError("slice step cannot be zero")
        return
    try:
        operator.index(part)
    except TypeError:
        raise TypeError(f"a tensor is indexed by integers, slices and ..., not by {part!r}") from None


def _without_ellipsis(key: Tuple[Any, ...], ndim: int) -> Tuple[Any, ...]:
    dots = [place for place, part in enumerate(key) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if len(key) - len(dots) > ndim:
        raise IndexError(f"too many indices: the tensor has {ndim} dimensions, {len(key) - len(dots)} were indexed")
    if dots:
        place = dots[0]
        missing = ndim - (len(key) - 1)
        key = key[:place] + (slice(None),) * missing + key[place + 1 :]
    return key
