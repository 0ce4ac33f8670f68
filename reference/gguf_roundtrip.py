"""GGUF files as the gguf package writes and reads them, against what anamnesis reads and writes.

usage: gguf_roundtrip.py make DIR
       gguf_roundtrip.py check AMN REWRITE DIR [FILE.gguf ...]

`make` writes files of every type and every kind of metadata with the gguf package. `check` goes through them and through
the files named, such as llama.cpp's models/ggml-vocab-*.gguf:

- `amn inspect --metadata --json` gives every key with its type and value;
- REWRITE (`cargo build --example rewrite_gguf`) writes a file in which the package finds the same keys and tensors;
- `amn convert --to gguf` does so too, where this amn has it;
- a copy that gguf-convert-endian has turned is decoded to the same bytes as the original.
"""

import builtins
import json
import logging
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

# The package's own bars, before it is imported.
os.environ.setdefault("TQDM_DISABLE", "1")

import numpy as np
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFValueType, GGUFWriter, quants
from gguf.constants import GGML_QUANT_SIZES
from gguf.scripts import gguf_convert_endian

logging.disable(logging.WARNING)

VALUE_TYPES = {
    GGUFValueType.UINT8: "u8",
    GGUFValueType.INT8: "i8",
    GGUFValueType.UINT16: "u16",
    GGUFValueType.INT16: "i16",
    GGUFValueType.UINT32: "u32",
    GGUFValueType.INT32: "i32",
    GGUFValueType.FLOAT32: "f32",
    GGUFValueType.BOOL: "bool",
    GGUFValueType.STRING: "string",
    GGUFValueType.ARRAY: "array",
    GGUFValueType.UINT64: "u64",
    GGUFValueType.INT64: "i64",
    GGUFValueType.FLOAT64: "f64",
}
# The package has the size that Q8_1 had before its scale and sum became F16.
OUTDATED = {GGMLQuantizationType.Q8_1}
# The types that gguf-convert-endian supports.
TURNED = {"F32", "F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "MXFP4", "NVFP4"}


def make(root):
    """Files with every kind of metadata, with every type of tensor, and with neither."""
    root.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    every_value(GGUFWriter(root / "values.gguf", "llama"))
    every_value(GGUFWriter(root / "values-big.gguf", "llama", endianess=GGUFEndian.BIG))
    every_type(GGUFWriter(root / "types.gguf", "llama"), random, TYPES)
    turned = [kind for kind in TYPES if kind.name in TURNED]
    every_type(GGUFWriter(root / "turned.gguf", "llama"), random, turned)
    for alignment in (8, 64, 4096):
        writer = GGUFWriter(root / f"aligned-{alignment}.gguf", "llama")
        writer.add_custom_alignment(alignment)
        for length in (1, 7, 64, 1000):
            writer.add_tensor(f"tensor.{length}", random.standard_normal(length).astype(np.float32))
        finish(writer)
    print(f"{root}: {len(list(root.glob('*.gguf')))} files")


TYPES = [kind for kind in GGMLQuantizationType if kind not in OUTDATED]


def every_value(writer):
    """A value of every type at its limits, alone and in arrays."""
    for kind, name in VALUE_TYPES.items():
        for index, value in enumerate(values(kind)):
            writer.add_key_value(f"one.{name}.{index}", value, kind)
        items = values(kind)
        if items:
            writer.add_key_value(f"some.{name}", items, GGUFValueType.ARRAY, sub_type=kind)
    writer.add_key_value("long", "0123456789" * 10_000, GGUFValueType.STRING)
    writer.add_array("many", [f"<{token}>" for token in range(20_000)])
    writer.add_array("nested", [[1, 2], [3]])
    finish(writer)


def values(kind):
    """Values at the limits of a type."""
    if kind == GGUFValueType.STRING:
        return ["", "naïve “text”\n\x00\x1b", "\U0001f40d"]
    if kind == GGUFValueType.BOOL:
        return [True, False]
    if kind == GGUFValueType.ARRAY:
        return []
    if kind in (GGUFValueType.FLOAT32, GGUFValueType.FLOAT64):
        return [0.1, -0.0, math.inf, -math.inf, math.nan, 1e-40]
    name = VALUE_TYPES[kind]
    limits = np.iinfo({"u": "uint", "i": "int"}[name[0]] + name[1:])
    return [int(limits.min), int(limits.max), 1]


def every_type(writer, random, kinds):
    """One tensor of each type and of several shapes; blocks the package cannot make are random bytes."""
    for kind in kinds:
        elements, block_bytes = GGML_QUANT_SIZES[kind]
        for shape in ((elements,), (3, 2 * elements), (2, 3, elements)):
            numbers = random.standard_normal(shape).astype(np.float32)
            try:
                data = quants.quantize(numbers, kind)
            except (NotImplementedError, KeyError):
                bytes_shape = (*shape[:-1], shape[-1] // elements * block_bytes)
                data = random.integers(0, 256, bytes_shape, dtype=np.uint8)
            name = f"{kind.name.lower()}.{len(shape)}"
            writer.add_tensor(name, data, raw_dtype=kind)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read(path):
    """What the package reads: keys with types and values, tensors with types, shapes and bytes, and the byte order."""
    reader = GGUFReader(path)
    fields = {
        name: ([VALUE_TYPES[kind] for kind in field.types], field.contents())
        for name, field in reader.fields.items()
        if not name.startswith("GGUF.")
    }
    tensors = {
        tensor.name: (tensor.tensor_type, tensor.shape.tolist(), tensor.data.tobytes())
        for tensor in reader.tensors
    }
    return SimpleNamespace(fields=fields, tensors=tensors, endianess=reader.endianess)


def told(document):
    """A value of amn's document as the package would give it: its types and its value."""
    if document["type"] != "array":
        return [document["type"]], number(document["value"], document["type"])
    kind = document["item_type"]
    if kind != "array":
        return ["array", kind], [number(item, kind) for item in document["value"]]
    # The package flattens arrays of arrays.
    inner = [told(item) for item in document["value"]]
    return ["array", *inner[0][0]], [item for _, items in inner for item in items]


def number(value, kind):
    """JSON has no infinities."""
    return float(value) if kind in ("f32", "f64") else value


def same(ours, theirs):
    """Equal, NaN to NaN and -0 to -0."""
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, float):
        return np.float64(ours).tobytes() == np.float64(theirs).tobytes() or (ours != ours and theirs != theirs)
    return type(ours) is type(theirs) and ours == theirs


def assert_same_fields(ours, theirs, what):
    assert ours.keys() == theirs.keys(), (what, ours.keys() ^ theirs.keys())
    for key, (types, value) in theirs.items():
        kinds, found = ours[key]
        # An empty array has no item to infer the type from; a nested array has the type of its innermost items.
        assert kinds == types or not value, (what, key, kinds, types)
        assert same(found, value), (what, key)


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def check_metadata(amn, path, original):
    document = json.loads(run(amn, "inspect", path, "--metadata", "--json"))
    found = {key: told(value) for key, value in document["metadata"].items()}
    assert_same_fields(found, original.fields, path)


def check_same_file(written, original, what):
    """A rewritten file has the keys and tensors of the original."""
    found = read(written)
    fields = dict(original.fields)
    # The alignment describes the layout of one file: it is always written, and a conversion chooses its own.
    if what == "convert" or "general.alignment" not in fields:
        assert found.fields.pop("general.alignment") == (["u32"], 32)
        fields.pop("general.alignment", None)
    assert_same_fields(found.fields, fields, what)
    assert found.tensors == original.tensors, what


def check_turned(amn, path):
    """Convert the byte order in place with gguf-convert-endian; the decoded values must not change."""
    turned = path.with_suffix(".turned")
    turned.write_bytes(path.read_bytes())
    ask, builtins.input = builtins.input, lambda _: "YES"
    try:
        gguf_convert_endian.convert_byteorder(
            GGUFReader(turned, "r+"), SimpleNamespace(order="big", dry_run=False)
        )
    finally:
        builtins.input = ask
    outputs = []
    for file in (path, turned):
        output = file.with_suffix(file.suffix + ".safetensors")
        run(amn, "remember", file, "--to", "f32", "-o", output, "--force")
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1], path


def check(amn, rewrite, root, others):
    """All checks on all files."""
    can_convert = subprocess.run([amn, "convert", "--help"], capture_output=True).returncode == 0
    for path in [*sorted(root.glob("*.gguf")), *others]:
        original = read(path)
        check_metadata(amn, path, original)
        done = ["metadata"]
        if original.endianess == GGUFEndian.LITTLE:
            written = root / (path.stem + ".written")
            run(rewrite, path, written)
            check_same_file(written, original, "rewrite")
            done.append("written")
            if can_convert:
                converted = root / (path.stem + ".converted")
                run(amn, "convert", path, "--to", "gguf", "-o", converted, "--force")
                check_same_file(converted, original, "convert")
                done.append("converted")
        if path.stem == "turned":
            check_turned(amn, path)
            done.append("turned")
        print(f"{path.name}: {len(original.fields)} keys, {len(original.tensors)} tensors: {', '.join(done)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"] and len(sys.argv) == 3:
        make(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["check"] and len(sys.argv) > 4:
        check(sys.argv[2], sys.argv[3], Path(sys.argv[4]), [Path(file) for file in sys.argv[5:]])
    else:
        sys.exit(__doc__)
