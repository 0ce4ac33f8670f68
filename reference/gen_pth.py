"""PyTorch files of every form, written by torch; the expected values come from torch.load.

CASE.pth (or .pt, .bin) is the file. CASE.expected.safetensors, or CASE@VARIANT.expected.safetensors for the same file read
with CASE@VARIANT.options.json, holds the tensors by the names they are converted under.
"""

import collections
import copy
import json
import zipfile
import zlib

import ml_dtypes
import numpy as np
import torch
from safetensors.torch import load_file

from common import FIXTURES, seed, write_tensors

DIRECTORY = FIXTURES / "pth"

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
    "c64": torch.complex64,
}  # fmt: skip
# Kept as untyped storages, with the type in the pickle.
UNTYPED = {
    "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2, "e4m3fnuz": torch.float8_e4m3fnuz, "e5m2fnuz": torch.float8_e5m2fnuz,
    "e8m0": torch.float8_e8m0fnu,
}  # fmt: skip


# NumPy types that torch does not have, by width.
BEYOND_TORCH = {torch.bfloat16: "bfloat16"} | {
    getattr(torch, name): name
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
}


def from_numpy(array):
    """An array as a tensor: in C order and in this machine's byte order."""
    array = np.asarray(array)
    for dtype, name in BEYOND_TORCH.items():
        if array.dtype.name == name:
            bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
            return torch.from_numpy(bits.copy()).view(dtype)
    return torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))


def plain(value):
    """A tensor as it is to be written: its signs applied, by torch."""
    if isinstance(value, (np.ndarray, np.generic)):
        return from_numpy(value)
    value = value.detach()
    return value.resolve_conj().resolve_neg().contiguous().clone()


def is_numbers(dtype):
    return dtype.kind in "biufc" or dtype.type.__module__ == "ml_dtypes"


def flat(value, path=""):
    """The tensors inside a value by the paths to them."""
    if isinstance(value, torch.Tensor) or (isinstance(value, (np.ndarray, np.generic)) and is_numbers(value.dtype)):
        return {path: plain(value)}
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, (list, tuple)):
        entries = enumerate(value)
    else:
        return {}
    found = {}
    for key, inner in entries:
        found.update(flat(inner, f"{path}.{key}" if path else str(key)))
    return found


def load(name):
    return torch.load(DIRECTORY / name, weights_only=False)


def expect(case, tensors, **options):
    write_tensors("pth", f"{case}.expected", tensors)
    if options:
        (DIRECTORY / f"{case}.options.json").write_text(json.dumps(options) + "\n")
    print(f"pth/{case}: {len(tensors)} tensors")


def save(name, value, **options):
    torch.save(value, DIRECTORY / name, **options)


def numbers(dtype):
    values = torch.randn(3, 5) * 3
    if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.float8_e8m0fnu):
        values = values.abs()
    if dtype == torch.complex64:
        return torch.randn(3, 5, dtype=dtype)
    return values.to(dtype)


def views():
    """Tensors that are not contiguous in their storage."""
    base = torch.randn(6, 8)
    complex_base = torch.randn(2, 3, dtype=torch.complex64)
    return collections.OrderedDict(
        scalar=torch.tensor(3.5),
        empty=torch.empty(0, 4),
        base=base,
        transposed=base.t(),
        row=base[2],
        column=base[:, 3],
        sliced=base[1:5, 2:7:2],
        expanded=torch.tensor([1.0, 2.0, 3.0]).expand(4, 3),
        channels_last=torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        permuted=torch.randn(2, 3, 4).permute(2, 0, 1),
        diagonal=base.diagonal(),
        windows=torch.arange(6.0).unfold(0, 3, 1),
        conjugated=complex_base.conj(),
        negated=torch.randn(2, 3, dtype=torch.complex64).conj().imag,
        parameter=torch.nn.Parameter(torch.randn(2, 2)),
        halves=torch.randn(4, 6).half().t(),
        codes=torch.arange(12, dtype=torch.uint8).reshape(3, 4).t(),
    )


def rewrite(source, target, change, compression=zipfile.ZIP_STORED):
    """Copies an archive entry by entry; `change` gets names and bytes."""
    with zipfile.ZipFile(DIRECTORY / source) as old, zipfile.ZipFile(DIRECTORY / target, "w", compression) as new:
        for entry in old.infolist():
            fresh = zipfile.ZipInfo(entry.filename, (1980, 1, 1, 0, 0, 0))
            new.writestr(fresh, change(entry.filename, old.read(entry)), compression)


def every_form():
    seed("dtypes")
    typed = collections.OrderedDict((f"t.{name}", numbers(dtype)) for name, dtype in DTYPES.items())
    untyped = {f"t.{name}": numbers(dtype) for name, dtype in UNTYPED.items()}
    save("dtypes.pth", collections.OrderedDict(**typed, **untyped))
    expect("dtypes", flat(load("dtypes.pth")))
    # Torch writes untyped storages into legacy streams and cannot read them back: what was saved is what is expected.
    bytes_only = {name: tensor for name, tensor in untyped.items() if tensor.element_size() == 1}
    legacy = collections.OrderedDict(**typed, **bytes_only)
    save("dtypes_legacy.pth", legacy, _use_new_zipfile_serialization=False)
    expect("dtypes_legacy", flat(legacy))

    seed("views")
    save("views.pth", views())
    expect("views", flat(load("views.pth")))
    seed("views")
    save("views_legacy.pth", views(), _use_new_zipfile_serialization=False)
    expect("views_legacy", flat(load("views_legacy.pth")))

    for protocol in (2, 3, 4, 5):
        seed("protocol")
        save(f"protocol{protocol}.pth", {"w": torch.randn(4, 4), "b": torch.arange(3)}, pickle_protocol=protocol)
        expect(f"protocol{protocol}", flat(load(f"protocol{protocol}.pth")))


def rewritten():
    rewrite("views.pth", "deflated.pth", lambda name, data: data, zipfile.ZIP_DEFLATED)
    expect("deflated", flat(load("deflated.pth")))

    seed("big_endian")
    tensors = collections.OrderedDict((name, numbers(dtype)) for name, dtype in DTYPES.items())
    tensors["transposed"] = tensors["f32"].t()
    save("little.pth", tensors)
    widths = {}
    for name, tensor in tensors.items():
        width = tensor.element_size() // (2 if tensor.is_complex() else 1)
        widths.setdefault(len(widths), width) if name != "transposed" else None

    def swap(name, data):
        if name.endswith("/byteorder"):
            return b"big"
        if "/data/" in name:
            return np.frombuffer(data, f"u{widths[int(name.rsplit('/', 1)[1])]}").byteswap().tobytes()
        return data

    rewrite("little.pth", "big_endian.pth", swap)
    (DIRECTORY / "little.pth").unlink()
    expect("big_endian", flat(load("big_endian.pth")))


def checkpoints():
    seed("checkpoint")
    with torch.enable_grad():
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        model(torch.randn(5, 4)).sum().backward()
        optimizer.step()
    checkpoint = {
        "epoch": 3,
        "state_dict": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loss": 0.25,
        "step": np.float64(1.5),
        "when": None,
        "seen": {1, 2},
        "mean": torch.tensor([0.5, 0.25]),
    }
    for name, modern in (("checkpoint.pth", True), ("checkpoint_legacy.pth", False)):
        save(name, checkpoint, _use_new_zipfile_serialization=modern)
        case = name.removesuffix(".pth")
        back = load(name)
        expect(case, flat(back["state_dict"]))
        if modern:
            expect(f"{case}@all", flat(back), all=True)
            expect(f"{case}@select", flat(back["optimizer"]["state"]), select="optimizer.state")
            expect(f"{case}@one", {"mean": plain(back["mean"])}, select="mean")
    save("nested_list.pt", [torch.ones(2), (torch.zeros(3), {"a": torch.arange(3), 7: torch.arange(2)})])
    expect("nested_list", flat(load("nested_list.pt")))
    save("bare.pt", torch.arange(5.0))
    expect("bare", {"tensor": load("bare.pt")})
    save("other_kinds.pth", {
        "kept": torch.arange(3.0),
        "quantised": torch.quantize_per_tensor(torch.randn(3, 3), 0.1, 10, torch.quint8),
        "sparse": torch.eye(3).to_sparse(),
        "wide": torch.randn(2, dtype=torch.complex128),
    })  # fmt: skip
    expect("other_kinds@skip", {"kept": load("other_kinds.pth")["kept"]}, skip_unsupported=True)
    torch.save(model, DIRECTORY / "whole_module.pth")


def scripts():
    seed("script")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).eval()
    for case, module in (
        ("scripted", torch.jit.script(model)),
        ("traced", torch.jit.trace(copy.deepcopy(model), torch.randn(2, 4))),
    ):
        module.save(str(DIRECTORY / f"{case}.pt"))
        expect(case, flat(dict(torch.jit.load(str(DIRECTORY / f"{case}.pt")).state_dict())))
    frozen = torch.jit.freeze(torch.jit.script(model))
    frozen.save(str(DIRECTORY / "frozen.pt"))
    constants = torch.jit.load(str(DIRECTORY / "frozen.pt")).code_with_constants[1].const_mapping
    expect("frozen", {f"CONSTANTS.{name}": plain(value) for name, value in constants.items()})


def arrays():
    """Arrays of NumPy in the pickle, in every type, order and form that NumPy writes."""
    seed("arrays")
    draw = np.random.default_rng(zlib.crc32(b"arrays"))
    numbers = draw.standard_normal((3, 5)) * 30
    complex_numbers = numbers[:, :4] + 1j * numbers[:, 1:]
    codes = ("b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
    held = {"layer.weight": torch.randn(2, 3)}
    for code in codes:
        whole = (np.abs(numbers) if code[0] == "u" else numbers).astype(code)
        held[f"little.{code}"] = whole
        held[f"big.{code}"] = whole.astype(f">{code}")
    for name in ("<c8", ">c8"):
        held[f"complex.{name}"] = complex_numbers.astype(name)
    for name in sorted(BEYOND_TORCH.values()):
        held[f"wide.{name}"] = np.abs(numbers).astype(getattr(ml_dtypes, name))
    held |= {
        "fortran": np.asfortranarray(numbers.astype("f4")),
        "fortran_big": np.asfortranarray(numbers.astype(">i4")),
        "cube": np.asfortranarray(draw.standard_normal((2, 3, 4))),
        "permuted": draw.standard_normal((2, 3, 4)).transpose(1, 2, 0),
        "sliced": numbers[::2, 1:4],
        "zero_d": np.array(2.5, "f4"),
        "empty": np.zeros((0, 3), "f4"),
        "scalar": np.float32(1.25),
        "scalar_int": np.int64(-3),
        "scalar_bool": np.bool_(True),
        "long": draw.integers(0, 256, 20_001, dtype="u1"),
        "ascii": np.arange(64, dtype="u1"),
        "nested": [{"inside": np.arange(6, dtype="i2").reshape(2, 3)}, (np.array([1, 2], "f8"),)],
        "words": np.array(["one", "two"]),
        "objects": np.array([None, "x"], dtype=object),
        "records": np.zeros(2, [("a", "f4"), ("b", "i4")]),
        "days": np.array(["2024-01-01"], dtype="M8[D]"),
    }
    held["again"] = held["little.f4"]
    for protocol in (2, 4, 5):
        save(f"arrays{protocol}.pth", held, pickle_protocol=protocol)
        expect(f"arrays{protocol}", flat(load(f"arrays{protocol}.pth")))
    save("arrays_legacy.pth", held, _use_new_zipfile_serialization=False)
    expect("arrays_legacy", flat(load("arrays_legacy.pth")))
    rewrite("arrays2.pth", "arrays_deflated.pth", lambda name, data: data, zipfile.ZIP_DEFLATED)
    expect("arrays_deflated", flat(load("arrays_deflated.pth")))
    # Arrays keep their own byte order, independent of the file.

    def swap(name, data):
        if name.endswith("/byteorder"):
            return b"big"
        return np.frombuffer(data, "u4").byteswap().tobytes() if "/data/" in name else data

    rewrite("arrays4.pth", "arrays_big_endian.pth", swap)
    expect("arrays_big_endian", flat(load("arrays_big_endian.pth")))
    save("arrays_wide.pth", {"kept": np.arange(3.0), "wide": np.zeros(2, "c16"), "number": np.complex128(1)})
    expect("arrays_wide@skip", {"kept": plain(load("arrays_wide.pth")["kept"])}, skip_unsupported=True)


def quantised():
    """A GPTQ model whose tensors are in a PyTorch file: decoded as if they were in a safetensors file."""
    case = sorted(path.name for path in (FIXTURES / "gptq").glob("*.expected.safetensors"))[0].removesuffix(".expected.safetensors")
    tensors = load_file(FIXTURES / "gptq" / f"{case}.safetensors")
    save("gptq.bin", tensors)
    (DIRECTORY / "gptq.case").write_text(case + "\n")


if __name__ == "__main__":
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    every_form()
    rewritten()
    checkpoints()
    scripts()
    arrays()
    quantised()
