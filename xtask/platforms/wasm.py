"""Decodes the fixtures in WebAssembly and compares the bits: wasm.py MODULE FIXTURES.

Needs wasmtime. Every fixture with expected values is given to the module as files in memory, under the name that the
library looks for, and decoded to every type for which there are values.
"""

import collections
import json
import pathlib
import struct
import sys

import wasmtime

TYPES = ("F32", "BF16", "F16")
ENDINGS = tuple("." + dtype.lower() for dtype in TYPES)
# Families of plain tensors, whose names may end like a type.
PLAIN = ("pth",)
# Tensors whose type the file does not record, so that they are left out.
UNRECORDED = {("npz/ml_dtypes", "e4m3")}
# The sign of zero is lost by this library on some machines.
UNSIGNED_ZEROS = ("bnb/fp4",)


class Module:
    """An instance of the module."""

    def __init__(self, path):
        engine = wasmtime.Engine()
        self.store = wasmtime.Store(engine)
        module = wasmtime.Module.from_file(engine, str(path))
        if module.imports:
            raise SystemExit(f"the module needs imports: {[f'{i.module}.{i.name}' for i in module.imports]}")
        self.exports = wasmtime.Instance(self.store, module, []).exports(self.store)

    def call(self, name, *arguments):
        return self.exports[name](self.store, *arguments)

    def send(self, data):
        start = self.call("reserve", len(data))
        self.exports["memory"].write(self.store, data, start)

    def add_file(self, name, data):
        name = name.encode()
        self.send(name + data)
        self.call("add_file", len(name))

    def run(self, **request):
        """The result of a request, or its error as text."""
        self.send(json.dumps(request).encode())
        is_ok = self.call("run")
        start = self.call("result")
        data = bytes(self.exports["memory"].read(self.store, start, start + self.call("result_bytes")))
        return data if is_ok else data.decode()


def tensors(data):
    """The tensors of a safetensors file: type, shape, bytes."""
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)
    cut = lambda entry: data[end + entry["data_offsets"][0] : end + entry["data_offsets"][1]]
    return {name: (entry["dtype"], entry["shape"], cut(entry)) for name, entry in header.items()}


def comparable(tensor, unsigned):
    """The tensor with one NaN, and with one zero if its sign is unknown."""
    dtype, shape, data = tensor
    if dtype not in TYPES:
        return tensor
    letter, infinity, sign = {"F32": ("I", 0x7F800000, 1 << 31), "BF16": ("H", 0x7F80, 1 << 15), "F16": ("H", 0x7C00, 1 << 15)}[dtype]
    values = list(struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data))
    for index, bits in enumerate(values):
        if bits & (sign - 1) > infinity:
            values[index] = -1
        elif unsigned and bits == sign:
            values[index] = 0
    return dtype, shape, values


def inputs(expected, case):
    """The files of a case by their names for the library, and the one to open."""
    folder = expected.parent
    stem = case.split("@")[0]
    if (folder / stem).is_dir():
        paths = [path for path in (folder / stem).rglob("*") if path.is_file()]
        files = {path.relative_to(folder / stem).as_posix(): path for path in paths}
        only = [name for name in files if name.endswith(".onnx")]
        return files, only[0] if only else ""
    found = [p for p in folder.glob(f"{stem}.*") if p.is_file() and ".expected." not in p.name and not p.name.endswith(".json")]
    # A name may contain dots, so that another case starts with it.
    model = min(found, key=lambda path: len(path.name))
    name = "model.safetensors" if model.suffix == ".safetensors" else model.name
    files = {name: model}
    for ending, sidecar in ((".config.json", "config.json"), (".sidecar.json", "model.safetensors.index.json.meta.json")):
        if (folder / f"{case}{ending}").exists():
            files[sidecar] = folder / f"{case}{ending}"
    return files, name


def main():
    module, fixtures = Module(sys.argv[1]), pathlib.Path(sys.argv[2])
    compared, faults = collections.Counter(), []
    for expected in sorted(fixtures.glob("*/*.expected.safetensors")):
        family, case = expected.parent.name, expected.name.removesuffix(".expected.safetensors")
        place = f"{family}/{case}"
        wanted = tensors(expected.read_bytes())
        files, opened = inputs(expected, case)
        module.call("clear")
        for name, path in files.items():
            module.add_file(name, path.read_bytes())
        options = expected.parent / f"{case}.options.json"
        options = json.loads(options.read_text()) if options.exists() else {}
        options.setdefault("skip_unsupported", True)
        by_type = family not in PLAIN and any(name.endswith(ENDINGS) for name in wanted)
        for dtype, ending in zip(TYPES, ENDINGS):
            here = {name.removesuffix(ending): tensor for name, tensor in wanted.items() if name.endswith(ending)}
            if not by_type:
                # Plain tensors keep their type.
                here = wanted if dtype == "BF16" else {}
            if not here:
                continue
            answer = module.run(open=opened, dtype=dtype, **options)
            if isinstance(answer, str):
                faults.append(f"{place} {dtype}: {answer}")
                continue
            found = tensors(answer)
            unsigned = place.startswith(UNSIGNED_ZEROS)
            for name, tensor in here.items():
                if (place, name) in UNRECORDED:
                    continue
                other = found.get(name)
                # A plain tensor of a GGUF file keeps its type whatever is asked for.
                if by_type and other and other[0] != tensor[0] and family == "gguf":
                    continue
                if other is None or comparable(other, unsigned) != comparable(tensor, unsigned):
                    faults.append(f"{place} {dtype} {name}: {'missing' if other is None else 'other bits'}")
                compared[family] += 1
    for family, count in sorted(compared.items()):
        print(f"{family}: {count} tensors")
    print(f"wasm32: {sum(compared.values())} tensors of {len(compared)} families, {len(faults)} faults")
    print("\n".join(faults[:50]))
    return 1 if faults or len(compared) < 35 else 0


if __name__ == "__main__":
    sys.exit(main())
