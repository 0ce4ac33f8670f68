"""Parse any tensor file, recover any precision.

:func:`open` takes any checkpoint: a file or a directory of safetensors, GGUF, NPZ or PyTorch, quantised or not. Tensors are
decoded when they are asked for, bit for bit as the library that wrote them computes them.

>>> import anamnesis, numpy, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
>>> anamnesis.save_file({"weight": numpy.eye(2, dtype="float32")}, path)
>>> with anamnesis.open(path) as model:
...     model["weight"][1]
array([0., 1.], dtype=float32)
"""

from . import errors
from ._checkpoint import Checkpoint, open
from ._commands import (
    Comparison,
    Conversion,
    Document,
    Formats,
    Inspection,
    Scan,
    Verification,
    compare,
    convert,
    fit,
    forget,
    formats,
    inspect,
    remember,
    run,
    scan,
    verify,
)
from ._dtypes import BitsWarning
from ._quantize import Lost, Quantized, dequantize, quantize
from ._safetensors import SafeSlice, load, load_file, safe_open, save_file
from ._tensor import Scheme, StoredTensor, Tensor
from .errors import AnamnesisError

__all__ = [
    "AnamnesisError",
    "BitsWarning",
    "Checkpoint",
    "Comparison",
    "Conversion",
    "Document",
    "Formats",
    "Inspection",
    "Lost",
    "Quantized",
    "SafeSlice",
    "Scan",
    "Scheme",
    "StoredTensor",
    "Tensor",
    "Verification",
    "compare",
    "convert",
    "dequantize",
    "errors",
    "fit",
    "forget",
    "formats",
    "inspect",
    "load",
    "load_file",
    "open",
    "quantize",
    "remember",
    "run",
    "safe_open",
    "save_file",
    "scan",
    "verify",
]
