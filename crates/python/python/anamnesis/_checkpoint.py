"""An open checkpoint: a mapping from names to tensors."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping as MappingABC
from typing import Any, BinaryIO, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Optional, Union

from ._anamnesis import Checkpoint as NativeCheckpoint
from ._dtypes import FLOATS
from ._tensor import Array, Scheme, StoredTensor, Tensor, shaped, stored_tensor
from .errors import UnknownTensorError

Path = Union[str, "os.PathLike[str]"]
Source = Union[Path, bytes, bytearray, memoryview, BinaryIO]

#: Names that are suggested in place of one that is not there.
_NEAR = 3
#: Names among which similar ones are searched for.
_SEARCHED = 20_000


class Checkpoint(MappingABC[str, Tensor]):
    """The tensors of a model: a mapping from names to :class:`Tensor`, and a context manager.

    Opening reads headers and the configuration beside them, not the weights.
    """

    def __init__(self, native: NativeCheckpoint) -> None:
        self._native = native
        self._names: Optional[List[str]] = None
        self._known: Optional[FrozenSet[str]] = None

    def _all(self) -> List[str]:
        if self._names is None or self._native.is_closed:
            # Raises if the checkpoint is closed.
            self._names = self._native.names()
        return self._names

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __contains__(self, name: object) -> bool:
        names = self._all()
        if self._known is None:
            self._known = frozenset(names)
        return name in self._known

    def __getitem__(self, name: str) -> Tensor:
        if not isinstance(name, str):
            raise TypeError(f"tensors have names, {name!r} is none")
        if name not in self:
            raise self._unknown(name)
        return Tensor(self._native, name)

    def _unknown(self, name: str) -> UnknownTensorError:
        near = difflib.get_close_matches(name, self._all()[:_SEARCHED], n=_NEAR, cutoff=0.6)
        question = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        error = UnknownTensorError(f"there is no tensor {name!r}{question}")
        error.name, error.near = name, near
        return error

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        if self._native.is_closed:
            return "<anamnesis.Checkpoint, closed>"
        return f"<anamnesis.Checkpoint {self.format}, {len(self)} tensors>"

    def __enter__(self) -> "Checkpoint":
        self._all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the files. Calls of other threads that are under way end as they would have."""
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._native.is_closed

    @property
    def format(self) -> str:
        """The format of its files: ``safetensors``, ``gguf``, ``npz``, ``npy`` or ``pth``."""
        return self._native.format

    @property
    def files(self) -> List[str]:
        """The files that hold the tensors; empty for bytes and file objects."""
        return [str(path) for path in self._native.files()]

    @property
    def metadata(self) -> Dict[str, Any]:
        """The metadata of the files: texts of safetensors, numbers, texts and lists of GGUF."""
        return self._native.metadata()

    @property
    def stored(self) -> Mapping[str, StoredTensor]:
        """Every stored tensor by its name, companions of quantised weights included."""
        found = ((name, stored_tensor(self._native, name)) for name in self._native.stored_names())
        return {name: tensor for name, tensor in found if tensor is not None}

    @property
    def weights(self) -> Dict[str, Scheme]:
        """The quantised weights, each with how it is quantised."""
        found = ((name, Tensor(self._native, name).scheme) for name in self._native.weight_names())
        return {name: scheme for name, scheme in found if scheme is not None}

    @property
    def scheme(self) -> Optional[str]:
        """The scheme of the quantised weights, or the several there are; ``None`` where nothing is quantised."""
        return self._native.scheme()

    @property
    def problems(self) -> List[str]:
        """The reasons why it cannot be decoded; empty where it can."""
        return self._native.problems()

    def load(
        self, names: Optional[Iterable[str]] = None, dtype: Any = None, *, threads: Optional[int] = None
    ) -> Dict[str, Array]:
        """Decodes many tensors at once, each into its final array.

        ``names`` are all by default. ``dtype`` is as for :meth:`Tensor.numpy`, and leaves tensors that hold no floats as they
        are. ``threads`` are by default as many as the machine has cores for.
        """
        wanted = []
        for name in self._all() if names is None else names:
            tensor = self[name]
            is_float = dtype is None or tensor.is_quantized or tensor.dtype in FLOATS
            wanted.append((tensor, tensor.resolve(dtype if is_float else None)))
        jobs = [(tensor.name, target) for tensor, (_, target) in wanted]
        arrays = self._native.read_all(jobs, threads)
        return {tensor.name: shaped(data, name, tensor.shape) for (tensor, (name, _)), data in zip(wanted, arrays)}


def open(
    source: Source,
    config: Union[None, Path, Mapping[str, Any]] = None,
    limits: Optional[Mapping[str, int]] = None,
    select: Optional[str] = None,
    *,
    all: bool = False,
    skip_unsupported: bool = False,
    allow_unclaimed: bool = False,
    plain: bool = False,
    npy_dtypes: Optional[Mapping[str, str]] = None,
    gptq_format: Optional[str] = None,
    arith: str = "f32",
) -> Checkpoint:
    """Opens a checkpoint of any format.

    ``source`` is a file, a directory, an index, one shard of a set, an ``"https://"`` address, ``"hf:org/name"`` of the local
    cache or the hub, ``"ollama:name"`` of the local store, the bytes of a file, or a binary file object that can seek.

    ``config`` replaces the configuration beside the weights: a path, JSON text or a dict. ``limits`` bound what a file may
    cost: bytes of ``memory`` altogether and of one ``buffer``, ``items`` of a kind, the ``ratio`` of decompression. ``plain`` takes
    every stored tensor as it is and decodes nothing. The other arguments are those of the command line.
    """
    options = {
        "config": json.dumps(dict(config)) if isinstance(config, MappingABC) else config,
        "limits": None if limits is None else dict(limits),
        "select": select,
        "all": all,
        "skip_unsupported": skip_unsupported,
        "allow_unclaimed": allow_unclaimed,
        "plain": plain,
        "npy_dtypes": None if npy_dtypes is None else dict(npy_dtypes),
        "gptq_format": gptq_format,
        "arith": arith,
    }
    if isinstance(source, (bytearray, memoryview)):
        source = bytes(source)
    return Checkpoint(NativeCheckpoint(source, options))
