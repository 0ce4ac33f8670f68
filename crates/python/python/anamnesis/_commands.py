"""The commands of ``amn`` as functions. Keyword arguments are its flags, with ``_`` for ``-``; results are its JSON documents."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Type, TypeVar, Union

from ._anamnesis import command as _command
from ._anamnesis import flags as _flags_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import (
        ConvertOptions,
        ForgetOptions,
        InspectOptions,
        LimitOptions,
        RememberOptions,
        VerifyOptions,
    )

Progress = Union[None, bool, Callable[[int, int], object]]
Path = Union[str, "os.PathLike[str]"]
_D = TypeVar("_D", bound="Document")


class Document(Dict[str, Any]):
    """The JSON document of a command: a dict whose entries are attributes too.

    An entry that has the name of a method of dicts, such as ``values``, is reached by its key only.
    """

    schema: int
    command: str

    def __getattr__(self, name: str) -> Any:
        try:
            return _documented(self[name])
        except KeyError:
            raise AttributeError(f"the document has no {name!r}; it has {', '.join(self)}") from None

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self]


class Inspection(Document):
    """What ``amn inspect`` reports."""

    path: str
    format: str
    scheme: str
    schemes: List[Document]
    tensor_count: int
    quantized: int
    scales: int
    zero_points: int
    passthrough: int
    files: int
    bytes: int
    decoded_bytes: Optional[int]
    to: str
    notes: List[str]
    odd: List[str]
    problems: List[str]


class Conversion(Document):
    """What ``amn remember``, ``convert`` and ``forget`` report."""

    path: str
    output: str
    to: str
    dry_run: bool
    bytes: int
    input_bytes: int
    decoded: int
    copied: int
    cast: int
    left_out: int
    notes: List[str]


class Comparison(Document):
    """What ``amn forget --compare`` reports: a document for each target."""

    path: str
    input_bytes: int
    targets: List[Document]


class Verification(Document):
    """What ``amn verify`` reports. ``sound`` is the verdict, ``problems`` are the reasons."""

    path: str
    files: int
    tensor_count: int
    bytes: int
    sound: bool
    problems: List[str]


class Scan(Document):
    """What ``amn scan`` reports. ``safe`` is the verdict."""

    path: str
    verdict: str
    problems: List[str]
    pickles: List[Document]

    @property
    def safe(self) -> bool:
        """Whether there is nothing to fear of loading the file with Python."""
        return self["verdict"] in ("safe", "holds_no_code")


class Formats(Document):
    """What ``amn formats`` reports."""

    formats: List[Document]
    targets: List[Document]
    decoded: List[Document]
    decoded_types: List[str]
    block_types: List[Document]
    refused: List[str]


def _documented(value: Any) -> Any:
    if isinstance(value, dict) and not isinstance(value, Document):
        return Document(value)
    if isinstance(value, list):
        return [_documented(item) for item in value]
    return value


def _arguments(command: str, options: Mapping[str, Any]) -> List[str]:
    """Keyword arguments as flags: ``True`` is the flag alone, a list repeats it, a mapping repeats it with ``key=value``."""
    flags = _flags_of(command)
    if flags is None:
        raise TypeError(f"there is no command {command!r}")
    known = {name.replace("-", "_"): (f"--{name}", takes_value) for name, _, takes_value, _ in flags}
    arguments: List[str] = []
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"{command}() got an unexpected keyword argument {name!r}")
        flag, takes_value = known[name]
        if value is None or value is False:
            continue
        if not takes_value:
            if value is not True:
                raise TypeError(f"{name} is True or False, not {value!r}")
            arguments.append(flag)
            continue
        arguments.extend(f"{flag}={_text(item)}" for item in _items(value))
    return arguments


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [f"{key}={_text(item)}" for key, item in value.items()]
    return value if isinstance(value, (list, tuple)) else [value]


def _text(value: Any) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _bar() -> Tuple[Optional[Callable[[int, int], object]], Callable[[], None]]:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None, lambda: None
    bar = tqdm(unit="B", unit_scale=True, unit_divisor=1024)

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return show, bar.close


def _run(
    kind: Type[_D], command: str, paths: Iterable[Path], progress: Progress, options: Mapping[str, Any]
) -> _D:
    names = [os.fspath(path) for path in paths]
    if "-" in (*names, options.get("output")):
        raise ValueError("standard input and standard output belong to Python; name files")
    arguments = _arguments(command, options)
    show, close = _bar() if progress is True else (progress or None, lambda: None)
    try:
        return kind(json.loads(_command([command, *arguments, "--", *names], show)))
    finally:
        close()


def run(command: str, *paths: Path, progress: Progress = None, **options: Any) -> Document:
    """Runs any command of ``amn`` and returns its JSON document.

    ``progress`` is a function of the bytes done and their total, or ``True`` for a bar of ``tqdm`` where that is installed.
    Ctrl-C stops the command within a tile and leaves nothing half-written.

    >>> run("formats").command
    'formats'
    """
    return _run(Document, command, paths, progress, options)


def inspect(path: Path, **options: "Unpack[InspectOptions]") -> Inspection:
    """How a model is quantised, and how large it gets decoded. As ``amn inspect``."""
    return _run(Inspection, "inspect", [path], None, options)


def remember(
    path: Path, output: Optional[Path] = None, *, progress: Progress = None, **options: "Unpack[RememberOptions]"
) -> Conversion:
    """Decodes a quantised model and writes it as plain floats. As ``amn remember``."""
    return _run(Conversion, "remember", [path], progress, {"output": output, **options})


def convert(
    path: Path,
    output: Optional[Path] = None,
    *,
    to: Optional[str] = None,
    progress: Progress = None,
    **options: "Unpack[ConvertOptions]",
) -> Conversion:
    """Converts a model to another format. As ``amn convert``."""
    return _run(Conversion, "convert", [path], progress, {"output": output, "to": to, **options})


def forget(
    path: Path,
    output: Optional[Path] = None,
    *,
    to: str,
    progress: Progress = None,
    **options: "Unpack[ForgetOptions]",
) -> Conversion:
    """Quantises a model. As ``amn forget``."""
    return _run(Conversion, "forget", [path], progress, {"output": output, "to": to, **options})


def compare(
    path: Path, targets: Iterable[str], *, progress: Progress = None, **options: "Unpack[ForgetOptions]"
) -> Comparison:
    """Size and error of several targets; nothing is written. As ``amn forget --compare``."""
    return _run(Comparison, "forget", [path], progress, {"compare": ",".join(targets), **options})


def fit(
    path: Path,
    size: Union[int, str],
    output: Optional[Path] = None,
    *,
    to: Optional[str] = None,
    progress: Progress = None,
    **options: "Unpack[ForgetOptions]",
) -> Conversion:
    """Quantises with the mix of types that loses least and fits into ``size``. As ``amn forget --fit``."""
    return _run(Conversion, "forget", [path], progress, {"output": output, "to": to, "fit": size, **options})


def verify(path: Path, **options: "Unpack[VerifyOptions]") -> Verification:
    """Whether a checkpoint is complete and sound: see ``sound`` of the result. As ``amn verify``."""
    return _run(Verification, "verify", [path], None, options)


def scan(path: Path, **options: "Unpack[LimitOptions]") -> Scan:
    """What the pickles of a file refer to, without running them: see ``safe`` of the result. As ``amn scan``."""
    return _run(Scan, "scan", [path], None, options)


def formats() -> Formats:
    """What this build reads, writes, decodes and encodes. As ``amn formats``.

    >>> "bf16" in formats().decoded_types
    True
    """
    return _run(Formats, "formats", [], None, {})
