"""Rows of numbers in every block type that ggml can encode, with and without an importance matrix.

Writes encoded/ among the kernels' test data: the rows and weights as F32, and ggml's own bytes of them. `again.txt` has, for each
type, digests of what ggml decodes those bytes to and of what it encodes that to again; `nonfinite.txt` those of rows with values
that are no numbers, row by row, where ggml ends (it stops the process for some).
$REF/libggmlref.so is ggml, built as a shared library.
"""

import ctypes
import os
import signal
from pathlib import Path

import numpy as np

from common import HERE, REF, SEED

KERNELS = Path(os.environ.get("KERNELS", HERE.parent / "crates" / "kernels"))
DATA = KERNELS / "tests" / "data" / "encoded"
COLS = 512
# Type id, values per block, bytes per block.
TYPES = {
    "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210), "IQ2_XXS": (16, 256, 66), "IQ2_XS": (17, 256, 74), "IQ3_XXS": (18, 256, 98),
    "IQ1_S": (19, 256, 50), "IQ4_NL": (20, 32, 18), "IQ3_S": (21, 256, 110), "IQ2_S": (22, 256, 82),
    "IQ4_XS": (23, 256, 136), "IQ1_M": (29, 256, 56), "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66),
    "MXFP4": (39, 32, 17), "NVFP4": (40, 64, 36), "Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18),
}
# These types need an importance matrix.
NEEDS_WEIGHTS = {"IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"}


class InitParams(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def library():
    os.environ["GGML_NO_BACKTRACE"] = "1"
    ggml = ctypes.CDLL(str(REF / "libggmlref.so"), mode=os.RTLD_LAZY)
    ggml.ggml_init.argtypes = [InitParams]
    ggml.ggml_init.restype = ctypes.c_void_p
    ggml.ggml_init(InitParams(1 << 20, None, True))  # fills the tables of half precision
    ggml.ggml_quantize_init.argtypes = [ctypes.c_int]
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, pointer, pointer, count, count, count, pointer]
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    return ggml


def rows(rng):
    """Rows that exercise the scale searches: normal, heavy-tailed, sparse, constant, small, one-sided, integer, zero."""
    usual = rng.standard_normal(COLS) * 0.05
    sparse = np.where(rng.random(COLS) < 0.8, 0, rng.standard_normal(COLS))
    outliers = rng.standard_normal(COLS)
    outliers[::37] *= 40
    powers = 2.0 ** rng.integers(-9, 9, COLS) * (1 - 2.0 ** -rng.integers(18, 26, COLS))
    halves = np.concatenate([np.zeros(COLS // 2), rng.standard_normal(COLS // 2)])
    return np.stack([
        usual, rng.standard_t(2, COLS) * 0.1, sparse, np.full(COLS, -0.37), rng.standard_normal(COLS) * 1e-6,
        np.abs(rng.standard_normal(COLS)), -np.abs(rng.standard_normal(COLS)), rng.integers(-8, 8, COLS).astype(float),
        outliers, powers * rng.choice([-1, 1], COLS), halves, np.zeros(COLS),
    ]).astype(np.float32)


def encoded(ggml, kind, values, weights):
    number, elements, size = TYPES[kind]
    out = np.zeros((len(values), COLS // elements * size), np.uint8)
    ggml.ggml_quantize_init(number)
    address = None if weights is None else weights.ctypes.data
    made = ggml.ggml_quantize_chunk(number, values.ctypes.data, out.ctypes.data, 0, len(values), COLS, address)
    assert made == out.size, (kind, made, out.size)
    return out


def digest(array):
    """FNV-1a over the bytes."""
    value = 0xCBF29CE484222325
    for byte in array.tobytes():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def decoded(ggml, kind, blocks):
    """Blocks decoded by ggml."""
    out = np.zeros((len(blocks), COLS), np.float32)
    name = kind.lower().replace("_k", "_K")
    decode = getattr(ggml, f"dequantize_row_{name}")
    decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    decode(blocks.ctypes.data, out.ctypes.data, out.size)
    return out


def nonfinite_rows(rng):
    """Rows with one, some and only non-finite values."""
    nan, inf = np.float32("nan"), np.float32("inf")
    rows = (rng.standard_normal((8, COLS)) * 0.05).astype(np.float32)
    rows[0, 3] = nan
    rows[1, -1] = nan
    rows[2, :] = nan
    rows[3, 100] = inf
    rows[4, 200] = -inf
    rows[5, 7], rows[5, 9] = inf, -inf
    rows[6, 40], rows[6, 300] = nan, inf
    rows[7, :] = inf
    return rows


def ended(work):
    """The result of a function that may abort the process; `None` if it does."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(3)
        os.write(writer, work().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else None


def beyond(ggml, values, weights):
    """Digests of rows decoded and encoded again, and of rows with non-finite values."""
    again, nonfinite = [], []
    rng = np.random.default_rng(8191 + SEED)
    strange = nonfinite_rows(rng)
    strange.tofile(DATA / "nonfinite.f32")
    for kind in TYPES:
        for how, used in (("plain", None), ("weighted", weights)):
            if used is None and kind in NEEDS_WEIGHTS:
                continue
            first = encoded(ggml, kind, values, used)
            back = decoded(ggml, kind, first)
            second = encoded(ggml, kind, back, used)
            same = "same" if np.array_equal(first, second) else "other"
            again.append(f"{kind} {how} {digest(back)} {digest(second)} {same}")
            rows = [ended(lambda: digest(encoded(ggml, kind, row[None].copy(), used))) or "-" for row in strange]
            nonfinite.append(f"{kind} {how} {' '.join(rows)}")
    (DATA / "again.txt").write_text("\n".join(again) + "\n")
    (DATA / "nonfinite.txt").write_text("\n".join(nonfinite) + "\n")


def main():
    ggml = library()
    rng = np.random.default_rng(4099 + SEED)
    values = rows(rng)
    weights = (rng.random(COLS) + 0.01).astype(np.float32)
    DATA.mkdir(parents=True, exist_ok=True)
    values.tofile(DATA / "rows.f32")
    weights.tofile(DATA / "weights.f32")
    for kind in TYPES:
        if kind not in NEEDS_WEIGHTS:
            encoded(ggml, kind, values, None).tofile(DATA / f"{kind}.bin")
        encoded(ggml, kind, values, weights).tofile(DATA / f"{kind}.weighted.bin")
    beyond(ggml, values, weights)
    print(f"ggml_encode: {len(TYPES)} types, {sum(f.stat().st_size for f in DATA.iterdir())} bytes")


if __name__ == "__main__":
    main()
