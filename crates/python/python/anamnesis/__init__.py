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
from ._dtypes import BitsWarning
from ._safetensors import SafeSlice, load, load_file, safe_open, save_file
from ._tensor import Scheme, StoredTensor, Tensor
from .errors import AnamnesisError

__all__ = [
    "AnamnesisError",
    "BitsWarning",
    "Checkpoint",
    "SafeSlice",
    "Scheme",
    "StoredTensor",
    "Tensor",
    "errors",
    "load",
    "load_file",
    "open",
    "safe_open",
    "save_file",
]
