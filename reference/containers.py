"""Helpers of the generators whose libraries are not in the environment of the others: they need no torch."""

import json
import os
import struct
from pathlib import Path

import ml_dtypes
import numpy as np

HERE = Path(__file__).resolve().parent
FIXTURES = Path(
    os.environ.get("FIXTURES", HERE.parent / "crates" / "anamnesis" / "tests" / "fixtures")
)
SEED = int(os.environ.get("SEED", "0"))
rng = np.random.default_rng(SEED)

TYPES = {
    "float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int8": "I8",
    "uint8": "U8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "bool": "BOOL", "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip


def floats(*shape):
    return rng.standard_normal(shape).astype("f4")


def directory(family):
    path = FIXTURES / family
    path.mkdir(parents=True, exist_ok=True)
    return path


def expected(family, case, plain, decoded=None):
    """Write the arrays that a library reads: plain ones in their types, decoded ones rounded."""
    arrays = {name: np.asarray(array) for name, array in plain.items()}
    for name, values in (decoded or {}).items():
        arrays[f"{name}.f32"] = values
        arrays[f"{name}.bf16"] = values.astype(ml_dtypes.bfloat16)
        arrays[f"{name}.f16"] = values.astype("f2")
    header, data = {}, b""
    for name, array in arrays.items():
        wide = {"int4": "i1", "uint4": "u1"}.get(array.dtype.name)
        array = array.astype(wide or array.dtype.newbyteorder("<"))
        content = np.ascontiguousarray(array).tobytes()
        place = [len(data), len(data) + len(content)]
        kind = TYPES[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": place}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path = directory(family) / f"{case}.expected.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    print(f"{family}/{case}: {len(arrays)} arrays")
