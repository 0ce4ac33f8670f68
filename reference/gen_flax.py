"""Flax parameters, written and read back by flax.serialization. Writes flax/ among the fixtures."""

import json
import shutil

import ml_dtypes
import numpy as np
from flax import serialization

from containers import TYPES, directory, expected, floats, rng


def flat(tree, prefix=""):
    """The arrays of a tree by their names joined by dots."""
    found = {}
    for key, value in tree.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, dict):
            found |= flat(value, name)
        elif isinstance(value, (np.ndarray, np.generic)):
            found[name] = value
    return found


def write(case, tree):
    content = serialization.msgpack_serialize(tree)
    (directory("flax") / f"{case}.msgpack").write_bytes(content)
    expected("flax", case, flat(serialization.msgpack_restore(content)))


types = {kind: (np.abs(floats(3, 4)) * 9).astype(kind) for kind in TYPES}
four = {"int4": (-8, 8), "uint4": (0, 16)}
for kind, (low, high) in four.items():
    types[kind] = rng.integers(low, high, (3, 4)).astype("i1").astype(getattr(ml_dtypes, kind))
leaves = {"number": 3, "text": "x", "none": None, "complex": 1 + 2j, "scalar": np.float32(1.5)}
leaves |= {"empty": np.zeros((0, 3), "f4"), "fortran": np.asfortranarray(floats(3, 5))}
lengths = {f"k{size}" + "x" * (size % 40): np.arange(size, dtype="u1") for size in (1, 12, 250, 300)}
write("tree", {"params": {"types": types, "leaves": leaves}, "lengths": lengths})

serialization.MAX_CHUNK_SIZE = 64
write("chunked", {"deep": {"wide": np.arange(100)}, "half": floats(7, 9).astype("f2"), "i": floats(2)})
serialization.MAX_CHUNK_SIZE = 2**30

home = directory("flax") / "sharded"
shutil.rmtree(home, ignore_errors=True)
home.mkdir()
shards = [
    {"model": {"layers": {"0": {"kernel": floats(3, 4)}}}},
    {"model": {"layers": {"1": {"kernel": floats(3, 4)}}}, "lm_head": {"bias": floats(5)}},
]
arrays, weight_map = {}, {}
for number, shard in enumerate(shards, 1):
    name = f"flax_model-{number:05}-of-{len(shards):05}.msgpack"
    (home / name).write_bytes(serialization.to_bytes(shard))
    arrays |= flat(shard)
    weight_map |= {key.replace(".", "/"): name for key in flat(shard)}
total = sum(array.nbytes for array in arrays.values())
index = {"metadata": {"total_size": total}, "weight_map": weight_map}
(home / "flax_model.msgpack.index.json").write_text(json.dumps(index, indent=2) + "\n")
expected("flax", "sharded", arrays)
