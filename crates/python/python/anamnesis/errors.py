"""The exceptions of this package, one class for every kind of error.

Each derives from :class:`AnamnesisError` and from the built-in exception that a Python user expects in its place, so that
``except ValueError`` and ``except FileNotFoundError`` work as usual. The fields of an error are attributes.

>>> import anamnesis
>>> try:
...     anamnesis.open("no-such-model.gguf")
... except FileNotFoundError as error:
...     print(type(error).__name__)
MissingFileError
"""

from __future__ import annotations

from typing import List, Optional, Tuple

__all__ = [
    "AnamnesisError",
    "CancelledError",
    "ContradictionError",
    "DeniedFileError",
    "DisallowedGlobalError",
    "DoesNotFitError",
    "EncodingOverflowError",
    "ExistingFileError",
    "IndivisibleError",
    "InternalError",
    "IoError",
    "LimitError",
    "MalformedError",
    "MissingFileError",
    "NoWeightsError",
    "NotAModelError",
    "NotFiniteError",
    "NothingSelectedError",
    "NothingToDoError",
    "OtherPlanError",
    "ParseError",
    "RequestError",
    "SameNameError",
    "TensorNotReadError",
    "UnavailableError",
    "UndecidedError",
    "UnknownKeyError",
    "UnknownNameError",
    "UnknownPartError",
    "UnknownTensorError",
    "UnsupportedError",
    "UnsupportedModelError",
    "UnusedPatternError",
    "UsageError",
]


class AnamnesisError(Exception):
    """The base of all exceptions of this package."""

    #: The file that the operating system failed at, where there is one.
    path: Optional[str] = None


# The file is at fault.


class ParseError(AnamnesisError, ValueError):
    """Malformed bytes, or values that contradict each other."""

    reason: str = ""


class UnsupportedError(AnamnesisError, ValueError):
    """A container, scheme or element type that is recognised, but not read or written."""

    format: str = ""
    detail: str = ""


class TensorNotReadError(UnsupportedError):
    """A tensor that is not read, in a file whose others may be: see ``skip_unsupported``."""


class UnsupportedModelError(AnamnesisError, ValueError):
    """A model that the conversion between Hugging Face and GGUF has no rules for."""

    part: str = ""
    name: str = ""
    detail: str = ""


class DisallowedGlobalError(AnamnesisError, ValueError):
    """A pickle refers to something outside the allow-list: loading it with Python could run code."""

    module: str = ""
    name: str = ""


class NotAModelError(AnamnesisError, ValueError):
    """A file that is not a model, or not of the format of its extension."""

    kind: str = ""
    detail: str = ""


class NoWeightsError(AnamnesisError, FileNotFoundError):
    """A directory without weights."""

    directory: Optional[str] = None


class UndecidedError(AnamnesisError, ValueError):
    """A property that neither the file nor its configuration defines; the caller can pass it."""

    tensor: str = ""
    what: str = ""
    choices: List[str] = []


class NotFiniteError(AnamnesisError, ValueError):
    """A NaN or an infinity where only finite numbers can be quantised."""

    tensor: str = ""
    index: int = 0
    value: float = 0.0


class EncodingOverflowError(AnamnesisError, OverflowError, ValueError):
    """A finite value that an encoding cannot hold: it would decode to an infinity or to NaN."""

    tensor: str = ""
    index: int = 0
    value: float = 0.0
    decoded: float = 0.0
    encoding: str = ""


class OtherPlanError(AnamnesisError, FileExistsError):
    """An output directory that another conversion has begun."""

    difference: str = ""


# A limit, the system, this library.


class LimitError(AnamnesisError, MemoryError):
    """The file asks for more than the limits allow."""

    limit: str = ""
    detail: str = ""


class IoError(AnamnesisError, OSError):
    """The operating system or a file object failed; what a file object raised is the ``__cause__``."""


class MissingFileError(IoError, FileNotFoundError):
    """A file that is not there."""


class ExistingFileError(IoError, FileExistsError):
    """A file that is there already, and is not replaced unless asked for."""


class DeniedFileError(IoError, PermissionError):
    """A file that may not be read or written."""


class CancelledError(AnamnesisError):
    """The operation was stopped before it was done; nothing was written."""


class InternalError(AnamnesisError, RuntimeError):
    """A defect of this library, noticed before its consequences were written."""

    reason: str = ""


# The request is at fault.


class RequestError(AnamnesisError, ValueError):
    """The caller asks for something that cannot be, whatever the file."""


class UsageError(RequestError):
    """Arguments that a command does not have, or that contradict each other."""


class NothingToDoError(RequestError):
    """Nothing is left to do of what a command was asked for."""


class _Missing(RequestError, KeyError):
    def __str__(self) -> str:
        # KeyError shows its argument quoted.
        return str(self.args[0]) if self.args else ""


class UnknownTensorError(_Missing):
    """A tensor that is not there. ``near`` has the names most like the one asked for."""

    name: str = ""
    near: List[str] = []


class UnknownKeyError(_Missing):
    """A metadata key that is not there."""

    key: str = ""


class UnknownPartError(_Missing):
    """A part of a nested checkpoint that is not there."""

    select: str = ""
    missing: str = ""
    found: str = ""


class UnknownNameError(RequestError):
    """An unknown name, such as that of a target; ``known`` lists the valid ones."""

    what: str = ""
    name: str = ""
    known: List[str] = []


class UnavailableError(RequestError):
    """Something known by name that this machine does not have."""

    what: str = ""
    name: str = ""
    available: List[str] = []


class MalformedError(RequestError):
    """Text that cannot be read as what it should be, such as a pattern."""

    what: str = ""
    text: str = ""
    why: str = ""


class UnusedPatternError(RequestError):
    """A pattern that fits no tensor."""

    pattern: str = ""


class NothingSelectedError(RequestError):
    """A selection that leaves no tensor."""


class SameNameError(RequestError):
    """Two tensors that would get one name."""

    name: str = ""
    tensors: List[str] = []


class IndivisibleError(RequestError):
    """Tensors whose rows cannot be cut into groups of equal size."""

    target: str = ""
    group: int = 0
    tensors: List[Tuple[str, int]] = []


class DoesNotFitError(RequestError):
    """A model that takes more bytes than it may, however it is quantised."""

    bytes: int = 0
    least: int = 0


class ContradictionError(RequestError):
    """Options that contradict each other or the input."""

    what: str = ""
    why: str = ""
