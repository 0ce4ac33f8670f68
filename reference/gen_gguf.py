"""GGUF files of every block type, quantised and dequantised by ggml's own C code.

Writes gguf/ among the fixtures, the kernels' golden blocks, and the grids of the IQ types as Rust
tables. gguf-py must agree wherever it can decode a type. $REF/libggmlref.so is ggml, built as a
shared library.
"""

import ctypes
import os
import subprocess
import zlib
from enum import IntEnum
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFWriter, quants
from gguf.constants import GGML_QUANT_SIZES

from common import FIXTURES, HERE, REF, SEED, roundings, write_tensors

KERNELS = Path(os.environ.get("KERNELS", HERE.parent / "crates" / "kernels"))
WEIGHT = "blk.0.ffn_down.weight"


class Newer(IntEnum):
    """Types that ggml has and the gguf package does not yet know."""

    Q2_0 = 42


GGML_QUANT_SIZES[Newer.Q2_0] = (64, 18)
# The package still has the size from when the scale and the sum were F32.
GGML_QUANT_SIZES[GGMLQuantizationType.Q8_1] = (32, 36)
TYPES = [kind for kind in GGMLQuantizationType if GGML_QUANT_SIZES[kind][0] > 1] + list(Newer)

# The offsets of the F16 scales of a block.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q8_1": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ1_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64], "Q1_0": [0], "Q2_0": [0],
}  # fmt: skip
# Ordinary, subnormal, zero, largest, infinite, NaN.
HALF_BITS = [0xAE01, 0x0155, 0x8000, 0x7BFF, 0xFC00, 0xFFFF]
NEEDS_IMPORTANCE = {"IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"}


class Ggml:
    """ggml's quantisers and dequantisers."""

    class Parameters(ctypes.Structure):
        _fields_ = [
            ("size", ctypes.c_size_t),
            ("buffer", ctypes.c_void_p),
            ("no_alloc", ctypes.c_bool),
        ]

    def __init__(self):
        self.library = ctypes.CDLL(str(REF / "libggmlref.so"), mode=os.RTLD_LAZY)
        start = self.library.ggml_init
        start.argtypes, start.restype = [self.Parameters], ctypes.c_void_p
        start(self.Parameters(1 << 20, None, True))

    def function(self, name, *arguments):
        function = getattr(self.library, name)
        function.argtypes = arguments
        return function

    def quantize(self, kind, values):
        elements, block_bytes = GGML_QUANT_SIZES[kind]
        rows, columns = values.shape
        blocks = np.zeros((rows, columns // elements * block_bytes), np.uint8)
        if kind.name in ("Q8_1", "Q8_K"):
            function = self.function(
                f"quantize_row_{spelled(kind)}_ref", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
            )
            function(values.ctypes.data, blocks.ctypes.data, values.size)
            return blocks
        self.function("ggml_quantize_init", ctypes.c_int)(int(kind))
        function = self.function(
            "ggml_quantize_chunk",
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.c_void_p,
        )
        importance = np.linspace(0.1, 1.1, columns, dtype=np.float32)
        function(
            int(kind),
            values.ctypes.data,
            blocks.ctypes.data,
            0,
            rows,
            columns,
            importance.ctypes.data if kind.name in NEEDS_IMPORTANCE else None,
        )
        return blocks

    def dequantize(self, kind, blocks):
        elements, block_bytes = GGML_QUANT_SIZES[kind]
        blocks = np.ascontiguousarray(blocks)
        if kind.name == "Q8_1":
            # ggml has no function for it: the integers of Q8_0 behind another header.
            parts = blocks.reshape(-1, 36)
            kind = GGMLQuantizationType.Q8_0
            blocks = np.ascontiguousarray(np.delete(parts, [2, 3], axis=1))
            block_bytes = 34
        values = np.zeros(blocks.size // block_bytes * elements, np.float32)
        function = self.function(
            f"dequantize_row_{spelled(kind)}", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
        )
        function(blocks.ctypes.data, values.ctypes.data, values.size)
        check_against_gguf(kind, blocks, values)
        return values


def spelled(kind):
    """A type's name in ggml's functions."""
    return kind.name.lower().replace("_k", "_K")


def check_against_gguf(kind, blocks, values):
    """Check that gguf-py decodes to the same bits, if it supports the type."""
    try:
        with np.errstate(all="ignore"):
            other = quants.dequantize(blocks.reshape(-1), kind).astype(np.float32).reshape(-1)
    except (NotImplementedError, KeyError):
        return
    same = values.view(np.uint32) == other.view(np.uint32)
    assert (same | (np.isnan(values) & np.isnan(other))).all(), kind.name


def generator(case):
    return np.random.default_rng(zlib.crc32(case.encode()) + SEED)


def ordinary(random, rows, columns):
    """Typical weights, with a row of zeros and a row of large values."""
    values = (random.standard_normal((rows, columns)) * 0.05).astype(np.float32)
    values[0, columns // 2 :] = 0
    values[-1] *= 100
    return values


def golden_blocks(ggml, kind):
    """Quantised blocks, then random bytes, then every kind of scale, then all ones."""
    random = generator(f"golden/{kind.name}")
    elements, block_bytes = GGML_QUANT_SIZES[kind]
    quantised = ggml.quantize(kind, ordinary(random, 2, max(elements, 64))).reshape(-1, block_bytes)
    drawn = random.integers(0, 256, (2, block_bytes), dtype=np.uint8)
    offsets = HALVES.get(kind.name, [])
    special = random.integers(0, 256, (len(HALF_BITS), block_bytes), dtype=np.uint8)
    for i, block in enumerate(special):
        for n, offset in enumerate(offsets):
            bits = HALF_BITS[(i + 2 * n) % len(HALF_BITS)]
            block[offset : offset + 2] = np.array([bits], "<u2").view(np.uint8)
    ones = np.full((1, block_bytes), 255, np.uint8)
    return np.concatenate([quantised, drawn, special, ones])


def grid_blocks(kind, count, per_group):
    """Blocks that use every point of a grid once, with scales that give integer values."""
    elements, block_bytes = GGML_QUANT_SIZES[kind]
    indices = np.arange(count).reshape(-1, 8, per_group)
    blocks = np.zeros((indices.shape[0], block_bytes), np.uint8)

    def put(offset, values, dtype):
        values = np.ascontiguousarray(values.astype(dtype)).view(np.uint8)
        values = values.reshape(len(blocks), -1)
        blocks[:, offset : offset + values.shape[1]] = values

    def upper(bits):
        shifts = bits * np.arange(per_group)
        return ((indices >> 8) << shifts).sum(axis=2)

    scale = {"IQ1_S": 8, "IQ2_XXS": 8, "IQ2_XS": 8, "IQ2_S": 8, "IQ3_XXS": 4, "IQ3_S": 1}[kind.name]
    put(0, np.full(len(blocks), scale), "<f2")
    if kind.name == "IQ2_XXS":
        put(2, np.concatenate([indices, np.zeros_like(indices)], axis=2), "u1")
    elif kind.name == "IQ2_XS":
        put(2, indices, "<u2")
    else:
        put(2, indices & 255, "u1")
    if kind.name == "IQ2_S":
        put(66, upper(2), "u1")
    elif kind.name == "IQ3_S":
        put(66, upper(1), "u1")
    elif kind.name == "IQ1_S":
        put(34, upper(3), "<u2")
    return blocks


def kernels_data(ggml):
    """NAME.blocks and NAME.f32 for every type; NAME.grid.blocks and NAME.grid.i8 for every grid."""
    directory = KERNELS / "tests" / "data" / "ggml"
    directory.mkdir(parents=True, exist_ok=True)
    for kind in TYPES:
        name = kind.name.lower()
        blocks = golden_blocks(ggml, kind)
        (directory / f"{name}.blocks").write_bytes(blocks.tobytes())
        (directory / f"{name}.f32").write_bytes(ggml.dequantize(kind, blocks).tobytes())
    for name, _, levels, shape in grids():
        kind = GGMLQuantizationType[name]
        blocks = grid_blocks(kind, shape[0], 32 // shape[1])
        values = ggml.dequantize(kind, blocks)
        integers = values.astype(np.int8)
        assert (integers == values).all() and len(np.unique(values)) == len(levels), name
        (directory / f"{name.lower()}.grid.blocks").write_bytes(blocks.tobytes())
        (directory / f"{name.lower()}.grid.i8").write_bytes(integers.tobytes())


def grids():
    """Each grid's type, constant, levels and shape."""
    for name in ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"):
        quant = getattr(quants, name)
        constant = "IQ1" if name == "IQ1_S" else name
        yield name, constant, quant.grid_map, quant.grid_shape


def tables():
    """The grids as Rust constants: each point a number with two or three bits per element."""
    directory = KERNELS / "src" / "decode" / "ggml" / "tables"
    directory.mkdir(parents=True, exist_ok=True)
    for name, constant, levels, (count, per_point) in grids():
        quant = getattr(quants, name)
        quant.init_grid()
        bits = 2 if len(levels) <= 4 else 3
        points = quant.grid.reshape(count, per_point).astype(int)
        codes = np.searchsorted(levels, points)
        assert (np.array(levels)[codes] == points).all()
        numbers = (codes << (bits * np.arange(per_point))).sum(axis=1)
        digits = bits * per_point // 4
        lines = [
            f"//! The grid of {constant}: {count} points of {per_point} elements.",
            "//!",
            f"//! An element is {bits} bits, the first lowest, and counts the grid's levels. Written by",
            "//! `reference/gen_gguf.py`.",
            "",
            f"/// The points of {constant}.",
            f"pub(in crate::decode::ggml) const {constant}: [u16; {count}] = [",
            ", ".join(f"0x{number:0{digits}X}" for number in numbers),
            "];",
        ]
        path = directory / f"{constant.lower()}.rs"
        path.write_text("\n".join(lines) + "\n")
        subprocess.run(["rustfmt", "--edition", "2024", str(path)], check=True)


def begin(case, endianess=GGUFEndian.LITTLE):
    directory = FIXTURES / "gguf"
    directory.mkdir(parents=True, exist_ok=True)
    return GGUFWriter(directory / f"{case}.gguf", "llama", endianess=endianess)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def answers(expected):
    """The expected values with their roundings, by name and type."""
    return {
        f"{name}.{suffix}": rounded
        for name, values in expected.items()
        for suffix, rounded in roundings(torch.from_numpy(values)).items()
    }


def drawn(ggml, kind, random):
    """A block of random bytes that decodes to finite values."""
    while True:
        block = random.integers(0, 256, GGML_QUANT_SIZES[kind][1], dtype=np.uint8)
        if np.isfinite(ggml.dequantize(kind, block)).all():
            return block


def one_type(ggml, kind):
    """One weight of a type, its last row of random bytes that decode to finite values."""
    case = kind.name.lower()
    random = generator(f"gguf/{case}")
    elements, block_bytes = GGML_QUANT_SIZES[kind]
    rows, columns = 3, 256 if elements < 256 else 512
    blocks = ggml.quantize(kind, ordinary(random, rows, columns))
    for block in blocks[-1].reshape(-1, block_bytes):
        block[:] = drawn(ggml, kind, random)
    values = ggml.dequantize(kind, blocks).reshape(rows, columns)
    writer = begin(case)
    writer.add_tensor(WEIGHT, blocks, raw_dtype=kind)
    finish(writer)
    write_tensors("gguf", f"{case}.expected", answers({WEIGHT: values}))
    if isinstance(kind, GGMLQuantizationType):
        tensor = GGUFReader(FIXTURES / "gguf" / f"{case}.gguf").tensors[0]
        assert tensor.tensor_type == kind and list(tensor.shape) == [columns, rows]
    print(f"gguf/{case}: {[rows, columns]}")


def metadata(writer):
    """A value of every type, alone and in arrays."""
    writer.add_name("every type")
    writer.add_uint8("test.uint8", 255)
    writer.add_int8("test.int8", -128)
    writer.add_uint16("test.uint16", 65535)
    writer.add_int16("test.int16", -32768)
    writer.add_uint32("test.uint32", 4294967295)
    writer.add_int32("test.int32", -2147483648)
    writer.add_float32("test.float32", 0.1)
    writer.add_bool("test.bool", True)
    writer.add_string("test.string", "naïve “text”\n")
    writer.add_uint64("test.uint64", 18446744073709551615)
    writer.add_int64("test.int64", -9223372036854775808)
    writer.add_float64("test.float64", 0.1)
    writer.add_array("test.array.int32", [1, -2, 3])
    writer.add_array("test.array.float32", [0.5, -0.25])
    writer.add_array("test.array.bool", [True, False])
    writer.add_array("test.array.string", ["one", "", "three"])
    writer.add_array("test.array.array", [[1, 2], [3]])


def several_types(ggml):
    """One file with several types, plain numbers among them, and metadata of every value type."""
    case = "several_types"
    random = generator(f"gguf/{case}")
    writer = begin(case)
    metadata(writer)
    expected = {}
    for name, kind, shape in [
        ("token_embd.weight", GGMLQuantizationType.Q6_K, (4, 256)),
        ("blk.0.attn_q.weight", GGMLQuantizationType.Q4_K, (2, 256)),
        ("blk.0.attn_v.weight", GGMLQuantizationType.Q8_0, (3, 64)),
        ("blk.0.ffn_up.weight", GGMLQuantizationType.IQ4_NL, (2, 96)),
        ("blk.0.ffn_gate_exps.weight", GGMLQuantizationType.MXFP4, (2, 3, 32)),
    ]:
        columns = shape[-1]
        blocks = ggml.quantize(kind, ordinary(random, np.prod(shape[:-1]), columns))
        expected[name] = ggml.dequantize(kind, blocks).reshape(shape)
        writer.add_tensor(name, blocks.reshape(*shape[:-1], -1), raw_dtype=kind)
    norm = random.standard_normal(40).astype(np.float32)
    writer.add_tensor("blk.0.attn_norm.weight", norm)
    writer.add_tensor("blk.0.half.weight", norm.reshape(5, 8).astype(np.float16))
    expected["blk.0.attn_norm.weight"] = norm
    expected["blk.0.half.weight"] = norm.reshape(5, 8).astype(np.float16).astype(np.float32)
    finish(writer)
    write_tensors("gguf", f"{case}.expected", answers(expected))
    print(f"gguf/{case}: {len(expected)} tensors")


def structure(*fields):
    """A block of ggml-common.h on a little-endian machine: names, types and counts of its fields."""
    return np.dtype([(name, kind, (count,)) for name, kind, count in fields])


# The blocks whose fields are what ggml's code reads, as ggml-common.h declares them.
STRUCTURES = {
    "Q4_0": structure(("d", "<f2", 1), ("qs", "u1", 16)),
    "Q4_1": structure(("d", "<f2", 1), ("m", "<f2", 1), ("qs", "u1", 16)),
    "Q8_0": structure(("d", "<f2", 1), ("qs", "i1", 32)),
    "Q8_1": structure(("d", "<f2", 1), ("s", "<f2", 1), ("qs", "i1", 32)),
    "Q2_K": structure(("scales", "u1", 16), ("qs", "u1", 64), ("d", "<f2", 1), ("dmin", "<f2", 1)),
    "Q3_K": structure(("hmask", "u1", 32), ("qs", "u1", 64), ("scales", "u1", 12), ("d", "<f2", 1)),
    "Q4_K": structure(("d", "<f2", 1), ("dmin", "<f2", 1), ("scales", "u1", 12), ("qs", "u1", 128)),
    "Q5_K": structure(
        ("d", "<f2", 1), ("dmin", "<f2", 1), ("scales", "u1", 12), ("qh", "u1", 32), ("qs", "u1", 128)
    ),
    "Q6_K": structure(("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), ("d", "<f2", 1)),
    "Q8_K": structure(("d", "<f4", 1), ("qs", "i1", 256), ("bsums", "<i2", 16)),
    "IQ2_XS": structure(("d", "<f2", 1), ("qs", "<u2", 32), ("scales", "u1", 8)),
    "IQ2_S": structure(("d", "<f2", 1), ("qs", "u1", 64), ("qh", "u1", 8), ("scales", "u1", 8)),
    "IQ3_S": structure(
        ("d", "<f2", 1), ("qs", "u1", 64), ("qh", "u1", 8), ("signs", "u1", 32), ("scales", "u1", 4)
    ),
    "IQ1_S": structure(("d", "<f2", 1), ("qs", "u1", 32), ("qh", "<u2", 8)),
    "IQ4_NL": structure(("d", "<f2", 1), ("qs", "u1", 16)),
    "IQ4_XS": structure(("d", "<f2", 1), ("scales_h", "<u2", 1), ("scales_l", "u1", 4), ("qs", "u1", 128)),
    "TQ1_0": structure(("qs", "u1", 48), ("qh", "u1", 4), ("d", "<f2", 1)),
    "TQ2_0": structure(("qs", "u1", 64), ("d", "<f2", 1)),
    "MXFP4": structure(("e", "u1", 1), ("qs", "u1", 16)),
    "NVFP4": structure(("d", "u1", 4), ("qs", "u1", 32)),
    "Q1_0": structure(("d", "<f2", 1), ("qs", "u1", 16)),
    "Q2_0": structure(("d", "<f2", 1), ("qs", "u1", 16)),
}


def swapped(kind, blocks):
    """The same blocks as a big-endian machine has them."""
    structure = STRUCTURES[kind.name]
    assert structure.itemsize == GGML_QUANT_SIZES[kind][1], kind.name
    records = np.ascontiguousarray(blocks).reshape(-1).view(structure)
    return records.astype(structure.newbyteorder(">")).view(np.uint8).reshape(blocks.shape)


def big_endian(ggml):
    """Every type with a defined big-endian layout in one big-endian file."""
    case = "big_endian"
    random = generator(f"gguf/{case}")
    writer = begin(case, GGUFEndian.BIG)
    metadata(writer)
    expected = {}
    for kind in TYPES:
        if kind.name not in STRUCTURES:
            continue
        name = f"blk.0.{kind.name.lower()}.weight"
        # Random bytes, so that no number equals its byte-swapped form.
        blocks = drawn(ggml, kind, random).reshape(1, -1)
        expected[name] = ggml.dequantize(kind, blocks).reshape(1, -1)
        writer.add_tensor(name, swapped(kind, blocks), raw_dtype=kind)
    numbers = random.standard_normal((3, 5))
    for dtype in ("f2", "f4", "f8"):
        name = f"blk.0.{dtype}.weight"
        expected[name] = numbers.astype(dtype).astype(np.float32)
        writer.add_tensor(name, numbers.astype(dtype))
    bf16 = torch.from_numpy(numbers).to(torch.bfloat16)
    expected["blk.0.bf16.weight"] = bf16.to(torch.float32).numpy()
    writer.add_tensor(
        "blk.0.bf16.weight", bf16.view(torch.int16).numpy(), raw_dtype=GGMLQuantizationType.BF16
    )
    integers = random.integers(-100, 100, (3, 5))
    for dtype in ("i1", "i2", "i4", "i8"):
        writer.add_tensor(f"blk.0.{dtype}.weight", integers.astype(dtype))
    finish(writer)
    answers_and_integers = answers(expected)
    for dtype in ("i1", "i2", "i4", "i8"):
        answers_and_integers[f"blk.0.{dtype}.weight.f32"] = torch.from_numpy(integers.astype(dtype))
    write_tensors("gguf", f"{case}.expected", answers_and_integers)
    print(f"gguf/{case}: {len(answers_and_integers)} answers")


def main():
    ggml = Ggml()
    tables()
    kernels_data(ggml)
    for kind in TYPES:
        one_type(ggml, kind)
    several_types(ggml)
    big_endian(ggml)


if __name__ == "__main__":
    main()
