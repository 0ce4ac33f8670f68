"""NPY and NPZ files as NumPy writes them, and the arrays that NumPy reads from them.

Writes npz/ among the fixtures. The dates inside the archives are ZIP's first, as NumPy's always are.
"""

import io
import zlib

import ml_dtypes
import numpy as np
import torch
from numpy.lib import format as npy

from common import FIXTURES, SEED, roundings, write_tensors

DIRECTORY = FIXTURES / "npz"
CODES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def numbers(case):
    return np.random.default_rng(zlib.crc32(case.encode()) + SEED)


def all_dtypes():
    """Every type a tensor can have, in both byte orders where there are two."""
    random = numbers("all_dtypes")
    arrays = {}
    for order in "<>":
        for kind in ("b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8"):
            dtype = np.dtype(order + kind)
            if order == ">" and dtype.itemsize == 1:
                continue
            values = np.frombuffer(random.bytes(15 * dtype.itemsize), dtype).reshape(3, 5)
            arrays[f"{kind}_{'little' if order == '<' else 'big'}"] = values & True if kind == "b1" else values
    return arrays


def shapes():
    """Orders, ranks, and names."""
    random = numbers("shapes")
    cube = random.standard_normal((4, 3, 5)).astype("f4")
    return {
        "fortran": np.asfortranarray(cube),
        "fortran_matrix": np.asfortranarray(cube[0]),
        "fortran_big": np.asfortranarray(cube.astype(">f8")),
        "fortran_vector": np.asfortranarray(cube[0, 0]),
        "fortran_row": np.asfortranarray(cube[:1, 0]),
        "view": cube[::2, :, ::3],
        "scalar": np.array(np.float32(2.5)),
        "scalar_big": np.array(7, dtype=">i4"),
        "empty": np.zeros((0, 3), "f4"),
        "empty_fortran": np.zeros((3, 0, 2), "f8", order="F"),
        "deep": np.zeros((1,) * 20, "u1"),
        "layer/weight:0": cube[1],
        "größe": np.arange(3),
        "": np.arange(2, dtype="i1"),
    }


def tensor(array):
    """The array in C order and in this machine's byte order; a scalar stays one."""
    array = np.array(array.astype(array.dtype.newbyteorder("=")), order="C", copy=True)
    return torch.from_numpy(array)


def write_expected(case, loaded):
    write_tensors("npz", f"{case}.expected", {name: tensor(array) for name, array in loaded.items()})
    print(f"npz/{case}: {len(loaded)} arrays")


def load(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


class Pipe(io.RawIOBase):
    """A file that cannot seek: sizes and sums follow the data."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def archives():
    for case, arrays in {"dtypes": all_dtypes(), "shapes": shapes()}.items():
        for kind, save in {"stored": np.savez, "deflated": np.savez_compressed}.items():
            path = DIRECTORY / f"{case}_{kind}.npz"
            save(path, **arrays)
            write_expected(path.stem, load(path))
    for kind, save in {"stored": np.savez, "deflated": np.savez_compressed}.items():
        path = DIRECTORY / f"piped_{kind}.npz"
        with open(path, "wb") as file:
            save(Pipe(file), a=np.arange(12.0).reshape(3, 4), b=np.arange(5))
        write_expected(path.stem, load(path))
    others = {"text": np.array(["ab"]), "bytes": np.array([b"ab"]), "c16": np.zeros(2, "c16"),
              "long": np.zeros(2, "g"), "date": np.zeros(2, "M8[s]"), "span": np.zeros(2, "m8[s]"),
              "record": np.zeros(2, [("a", "<f4"), ("b", "<i2", (2,))]), "kept": np.arange(3.0)}  # fmt: skip
    np.savez(DIRECTORY / "others.npz", object=np.array([1, None], dtype=object), **others)
    write_expected("others", {"kept": others["kept"]})


def machine_learning():
    """The types of ml_dtypes, only some of which a file records."""
    values = (numbers("ml_dtypes").standard_normal((6, 7)) * 30).astype("f4")
    arrays = {name: values.astype(dtype) for name, dtype in CODES.items()}
    arrays["bf16"] = values.astype(ml_dtypes.bfloat16)
    np.savez(DIRECTORY / "ml_dtypes.npz", **arrays)
    bits = torch.from_numpy(arrays["bf16"].view(np.int16)).view(torch.bfloat16)
    answers = {"bf16": bits}
    # NumPy cannot load what it writes for E5M2, so the arrays are decoded as they were written.
    for name in CODES:
        decoded = torch.from_numpy(arrays[name].astype(np.float32))
        answers |= {f"{name}.{suffix}": rounded for suffix, rounded in roundings(decoded).items()}
    write_tensors("npz", "ml_dtypes.expected", answers)


def versions():
    array = numbers("versions").standard_normal((3, 4)).astype("f4")
    for version in (1, 2, 3):
        path = DIRECTORY / f"version_{version}.npy"
        with open(path, "wb") as file:
            npy.write_array(file, array, version=(version, 0))
        write_expected(path.stem, {path.stem: np.load(path)})
    np.save(DIRECTORY / "big_fortran.npy", np.asfortranarray(array.astype(">f4")))
    write_expected("big_fortran", {"big_fortran": np.load(DIRECTORY / "big_fortran.npy")})


DIRECTORY.mkdir(parents=True, exist_ok=True)
archives()
machine_learning()
versions()
