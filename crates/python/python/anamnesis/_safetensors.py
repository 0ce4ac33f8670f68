"""The functions of the ``safetensors`` package, over every format that is read here."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ._anamnesis import save as _save
from ._checkpoint import Checkpoint, Path
from ._checkpoint import open as _open
from ._dtypes import stored_name
from ._tensor import _TORCH, Array, Tensor, as_torch

_FRAMEWORKS = {"np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch", "jax": "jax", "flax": "jax"}
_FORMATS = ("safetensors", "gguf", "npz")


class SafeSlice:
    """A tensor whose rows are decoded when it is indexed."""

    def __init__(self, tensor: Tensor, framework: str, device: str, dtype: Any) -> None:
        self._tensor = tensor
        self._framework = framework
        self._device = device
        self._dtype = dtype

    def get_shape(self) -> List[int]:
        """The shape of the whole tensor."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The type of its values, by its name in safetensors."""
        return self._tensor.resolve(self._dtype)[0]

    def __getitem__(self, index: Any) -> Any:
        array = self._tensor.rows(index, self._dtype)
        if self._framework == "torch":
            return as_torch(array, self.get_dtype()).to(self._device)
        if self._framework == "jax":
            import jax.numpy

            return jax.numpy.asarray(array)
        return array


class safe_open:
    """Opens a checkpoint of any format with the interface of ``safetensors.safe_open``.

    Quantised weights appear decoded, under the names they have then; ``dtype`` is the type they are decoded to. Further
    keyword arguments are those of :func:`anamnesis.open`.
    """

    def __init__(
        self,
        filename: Path,
        framework: str = "numpy",
        device: Any = "cpu",
        *,
        dtype: Any = None,
        **options: Any,
    ) -> None:
        if framework not in _FRAMEWORKS:
            raise ValueError(f"framework is one of {', '.join(sorted(_FRAMEWORKS))}, not {framework!r}")
        self._framework = _FRAMEWORKS[framework]
        self._device = device
        self._dtype = dtype
        self._checkpoint: Checkpoint = _open(filename, **options)

    def __enter__(self) -> "safe_open":
        return self

    def __exit__(self, *_: object) -> None:
        self._checkpoint.close()

    def keys(self) -> List[str]:
        """The names of all tensors."""
        return list(self._checkpoint)

    def offset_keys(self) -> List[str]:
        """The names of all tensors, in the order in which the files hold them where they are stored under these names."""
        names = set(self._checkpoint)
        stored = [name for name in self._checkpoint.stored if name in names]
        return stored + [name for name in self._checkpoint if name not in set(stored)]

    def metadata(self) -> Optional[Dict[str, Any]]:
        """The metadata of the file; ``None`` where it has none."""
        return self._checkpoint.metadata or None

    def get_tensor(self, name: str) -> Any:
        """A tensor of the framework, on the device that was asked for."""
        tensor = self._checkpoint[name]
        if self._framework == "numpy":
            return tensor.numpy(self._dtype)
        if self._framework == "jax":
            return tensor.jax(self._dtype)
        return tensor.torch(self._dtype).to(self._device)

    def get_slice(self, name: str) -> SafeSlice:
        """A tensor that is decoded row by row as it is indexed."""
        return SafeSlice(self._checkpoint[name], self._framework, self._device, self._dtype)


def load_file(
    filename: Path, dtype: Any = None, *, threads: Optional[int] = None, **options: Any
) -> Dict[str, Array]:
    """Every tensor of a checkpoint, decoded, by name. Keyword arguments are those of :func:`anamnesis.open`."""
    with _open(filename, **options) as checkpoint:
        return checkpoint.load(dtype=dtype, threads=threads)


def load(data: bytes, dtype: Any = None, *, threads: Optional[int] = None, **options: Any) -> Dict[str, Array]:
    """Every tensor in the bytes of a file, decoded, by name.

    >>> import anamnesis, numpy, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.safetensors"
    >>> anamnesis.save_file({"x": numpy.arange(3.0)}, path)
    >>> anamnesis.load(path.read_bytes())
    {'x': array([0., 1., 2.])}
    """
    with _open(data, **options) as checkpoint:
        return checkpoint.load(dtype=dtype, threads=threads)


def save_file(
    tensors: Mapping[str, Any],
    filename: Path,
    metadata: Optional[Mapping[str, str]] = None,
    *,
    format: Optional[str] = None,
    force: bool = True,
) -> None:
    """Writes arrays to a safetensors, GGUF or NPZ file, which appears complete or not at all.

    ``format`` is by default given by the ending of the file. The values may be NumPy arrays, torch tensors, or anything else
    with ``__array__``; none is changed, whatever its name. Without ``force`` a file that exists is not replaced.
    """
    path = os.fspath(filename)
    if format is None:
        format = os.path.splitext(path)[1].lstrip(".").lower()
        if format not in _FORMATS:
            raise ValueError(f"{path!r} does not end in .safetensors, .gguf or .npz: say format=")
    if format not in _FORMATS:
        raise ValueError(f"format is one of {', '.join(_FORMATS)}, not {format!r}")
    entries = list((metadata or {}).items())
    for key, value in entries:
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(f"metadata are strings by strings, not {key!r}: {value!r}")
    _save([given(name, value) for name, value in tensors.items()], entries, path, format, force)


def given(name: Any, value: Any) -> Tuple[str, str, List[int], Array]:
    """An array for the native half: its name, type, shape and bytes."""
    if not isinstance(name, str):
        raise TypeError(f"names of tensors are strings, not {name!r}")
    dtype, array = _stored(name, value)
    data = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
    return name, dtype, list(array.shape), data


def _stored(name: str, value: Any) -> Tuple[str, Array]:
    """An array in the order and the byte order of files, and the name of its type there."""
    if type(value).__module__.split(".")[0] == "torch":
        import torch

        value = value.detach().cpu().contiguous()
        for dtype, known in _TORCH.items():
            if value.dtype == getattr(torch, known, None):
                return dtype, value.view(torch.int16 if dtype == "BF16" else torch.uint8).numpy()
        value = value.numpy()
    array = np.asarray(value)
    dtype_name = stored_name(array.dtype.newbyteorder("="))
    if dtype_name is None:
        raise TypeError(f"{name!r}: elements of type {array.dtype} have no name in a tensor file")
    # `ascontiguousarray` would make a scalar an array of one.
    return dtype_name, np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
