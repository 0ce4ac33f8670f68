#!/usr/bin/env python3
"""Checks and measures the Python package: run it with a Python that has the wheel, numpy, ml_dtypes, safetensors and gguf.

    check_python.py corpus DIR     every case of a corpus of reference values, whole and in random slices, at f32, bf16 and f16
    check_python.py encodings      arrays quantised by every encoding against the files that `amn forget` writes
    check_python.py rates          speed beside safetensors, gguf and, where it is installed, bitsandbytes
    check_python.py memory         growth over 10,000 times open, decode, close; peak of a streamed conversion
    check_python.py threads        threads of Python decoding at once

A case of a corpus is `NAME.expected.safetensors` beside the file it was computed from, with the values of tensor `t` under
`t.f32`, `t.bf16` and `t.f16` (plain files have them under their own names). Values are compared by their bits, NaN as a class.
Exit code 0 means that nothing differs.
"""

import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import ml_dtypes
import numpy as np

import anamnesis

SOURCES = (".safetensors", ".gguf", ".pth", ".pt", ".npz")
#: Files that belong beside the weights, by their ending in a corpus.
SIDECARS = {
    ".config.json": "config.json",
    ".quantization_config.json": "quantization_config.json",
    ".index.json": "model.safetensors.index.json",
    ".sidecar.json": "model.safetensors.index.json.meta.json",
}
TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
END = ".expected.safetensors"


def bits(array: np.ndarray, signless: bool = False) -> np.ndarray:
    """The bits of an array; all NaNs are one, and with `signless` both zeros."""
    found = np.array(array, copy=True).reshape(-1)
    unsigned = found.view(f"u{found.itemsize}").copy()
    if found.dtype.kind in "fV" or found.dtype.name.startswith(("bfloat", "float8")):
        with np.errstate(invalid="ignore"):
            values = found.astype(np.float64)
        unsigned[np.isnan(values)] = 0xF1
        if signless:
            unsigned[values == 0] = 0
    return unsigned


def staged(base: pathlib.Path, source: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The case as a model of its own."""
    is_sharded = base.with_name(base.name + ".index.json").exists()
    path = folder / f"model{'-00001-of-00001' if is_sharded else ''}{source.suffix}"
    shutil.copy(source, path)
    for ending, name in SIDECARS.items():
        beside = base.with_name(base.name + ending)
        if beside.exists():
            shutil.copy(beside, folder / name)
    return path


class Refused(Exception):
    """A checkpoint that is refused by name."""


def compared(case: str, path: pathlib.Path, wanted: dict, rng: np.random.Generator) -> "tuple[int, list[str]]":
    """How many tensors were compared, and what differs."""
    faults, count = [], 0
    suffixed = case.split("/")[0] not in ("pth", "npz")
    only_half = suffixed and all(name.endswith(".f16") for name in wanted)
    with anamnesis.open(path, skip_unsupported=not suffixed) as model:
        if model.problems:
            raise Refused(model.problems[0])
        for key, value in wanted.items():
            name, _, target = key.rpartition(".") if suffixed else (key, "", None)
            if suffixed and target not in TYPES or case.startswith("gguf/bf16_") and target != "bf16":
                continue
            # A library that defines F16 only: the others are that value, widened or rounded once.
            targets = {"f16": value, "f32": value.astype(np.float32)} if only_half else {target: value}
            if only_half:
                targets["bf16"] = targets["f32"].astype(ml_dtypes.bfloat16)
            for dtype, expected in targets.items():
                if name not in model:
                    faults.append(f"{name} is missing")
                    continue
                found = model[name].numpy(dtype)
                count += 1
                signless = case.startswith("bnb4/fp4")
                if found.shape != expected.shape or not np.array_equal(bits(found, signless), bits(expected, signless)):
                    faults.append(f"{name} at {dtype}: {found.dtype}{found.shape}, wanted {expected.dtype}{expected.shape}")
                    continue
                if found.ndim:
                    start, stop = sorted(int(place) for place in rng.integers(0, found.shape[0] + 1, 2))
                    step = int(rng.integers(1, 24)) * int(rng.choice([1, -1]))
                    index = slice(start, stop, step) if step > 0 else slice(stop, start, step)
                    index = (index, *(slice(int(rng.integers(0, length + 1)), None) for length in found.shape[1:]))
                    part = model[name].rows(index, dtype)
                    if not np.array_equal(bits(part), bits(found[index])):
                        faults.append(f"{name} at {dtype}: {index} differs from the whole")
    return count, faults


def corpus(folder: str) -> bool:
    rng, cases, tensors, bad, refused = np.random.default_rng(1), 0, 0, 0, {}
    for expected in sorted(pathlib.Path(folder).glob(f"*/*{END}")):
        base = expected.with_name(expected.name.removesuffix(END))
        sources = (base.with_name(base.name + ending) for ending in SOURCES)
        source = next((path for path in sources if path.exists()), None)
        if source is None:
            continue
        case = f"{expected.parent.name}/{base.name}"
        with tempfile.TemporaryDirectory() as work:
            try:
                wanted = anamnesis.load_file(expected, plain=True)
                count, faults = compared(case, staged(base, source, pathlib.Path(work)), wanted, rng)
            except (Refused, anamnesis.errors.UnsupportedError):
                refused[expected.parent.name] = refused.get(expected.parent.name, 0) + 1
                continue
            except (anamnesis.AnamnesisError, ValueError, OSError) as error:
                count, faults = 0, [f"{type(error).__name__}: {error}"]
        cases, tensors, bad = cases + 1, tensors + count, bad + bool(faults)
        for fault in faults[:2]:
            print(f"FAIL {case}: {fault[:200]}")
    print(f"{cases - bad} of {cases} cases agree, {tensors} arrays and a slice of each")
    for family, count in refused.items():
        print(f"refused by name: {count} of {family}")
    return bad == 0


def encodings() -> bool:
    rng, bad, done = np.random.default_rng(2), 0, 0
    array, importance = rng.standard_normal((256, 512)).astype(np.float32), rng.random(512).astype(np.float32)
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        name = b"layer.weight"
        entry = np.int32(len(name)).tobytes() + name + np.array([1, 512], np.int32).tobytes() + importance.tobytes()
        (folder / "imatrix.dat").write_bytes(np.int32(1).tobytes() + entry + np.array([1, 0], np.int32).tobytes())
        anamnesis.save_file({"layer.weight": array}, folder / "in.safetensors")
        amn = [sys.executable, "-m", "anamnesis", "forget", str(folder / "in.safetensors"), "--include", "*", "--force"]
        for target in anamnesis.formats().targets:
            if "forget" not in target.commands or target.name == "gpt-oss":
                continue
            is_gguf = target.extension == "gguf"
            out = folder / f"out.{target.extension}"
            extra = ["--imatrix", str(folder / "imatrix.dat"), "--keep-names"] if is_gguf else []
            subprocess.run([*amn, "--to", target.name, "-o", str(out), *extra], check=True, stdout=subprocess.DEVNULL)
            with anamnesis.open(out, plain=not is_gguf) as written:
                wanted = {part.removeprefix("layer."): stored.numpy() for part, stored in written.stored.items()}
            found = anamnesis.quantize(array, target.name, importance if is_gguf else None).parts
            same = found.keys() == wanted.keys() and all(found[part].tobytes() == wanted[part].tobytes() for part in wanted)
            done, bad = done + 1, bad + (not same)
            if not same:
                print(f"FAIL {target.name}: {sorted(found)} {sorted(wanted)}")
    print(f"{done - bad} of {done} encodings write the bytes of amn forget")
    return bad == 0


def best(work, times: int = 5) -> float:
    """The shortest of several runs, in seconds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def line(what: str, seconds: float, nbytes: int, other: "float | None" = None) -> None:
    beside = "" if other is None else f"  {other / seconds:6.2f} times as fast"
    print(f"{what:<58}{seconds * 1e3:9.2f} ms {nbytes / seconds / 1e9:7.2f} GB/s{beside}")


def rates() -> bool:
    import gguf
    from safetensors.numpy import load_file as other_load
    from safetensors.numpy import save_file as other_save

    rng = np.random.default_rng(3)
    array = rng.standard_normal((4096, 4096)).astype(np.float32)
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        plain = {f"layers.{i}.weight": array + i for i in range(8)}
        other_save(plain, folder / "plain.safetensors")
        total = sum(one.nbytes for one in plain.values())
        theirs = best(lambda: other_load(folder / "plain.safetensors"))
        line("safetensors.numpy.load_file", theirs, total)
        line("anamnesis.load_file", best(lambda: anamnesis.load_file(folder / "plain.safetensors")), total, theirs)
        line("anamnesis.load_file, one thread", best(lambda: anamnesis.load_file(folder / "plain.safetensors", threads=1)), total, theirs)
        del plain
        kinds = gguf.GGMLQuantizationType
        for kind in ("Q4_K", "Q6_K", "IQ4_XS"):
            blocks = anamnesis.quantize(array, kind).data
            theirs = best(lambda: gguf.quants.dequantize(blocks, kinds[kind]), 2)
            line(f"gguf.quants.dequantize {kind}", theirs, array.nbytes)
            line(f"anamnesis.dequantize {kind}", best(lambda: anamnesis.dequantize(blocks, kind)), array.nbytes, theirs)
            anamnesis.save_file({"w": array}, folder / "in.safetensors")
            anamnesis.forget(folder / "in.safetensors", folder / "q.gguf", to="q8_0", pure=True, include="*", keep_names=True, tensor_type=f".*={kind}", force=True)
            with anamnesis.open(folder / "q.gguf") as model:
                line(f"tensor.numpy() {kind}", best(lambda: model["w"].numpy()), array.nbytes, theirs)
                line(f"tensor.numpy(threads=1) {kind}", best(lambda: model["w"].numpy(threads=1)), array.nbytes, theirs)
        for kind in ("Q4_0", "Q8_0"):
            theirs = best(lambda: gguf.quants.quantize(array, kinds[kind]), 2)
            line(f"gguf.quants.quantize {kind}", theirs, array.nbytes)
            line(f"anamnesis.quantize {kind}", best(lambda: anamnesis.quantize(array, kind)), array.nbytes, theirs)
        packed = anamnesis.quantize(array, "bnb-nf4")
        line("anamnesis NF4", best(packed.dequantize), array.nbytes)
        line("anamnesis NF4, one thread", best(lambda: packed._tensor.numpy(threads=1)), array.nbytes)
        with contextlib.suppress(ImportError):
            import torch
            from bitsandbytes import functional

            torch.set_num_threads(os.cpu_count() or 1)
            codes, state = functional.quantize_4bit(torch.from_numpy(array), quant_type="nf4")
            theirs = best(lambda: functional.dequantize_4bit(codes, state), 3)
            line("bitsandbytes NF4 (CPU)", theirs, array.nbytes)
            line("anamnesis NF4 beside it", best(packed.dequantize), array.nbytes, theirs)
        many = {f"layers.{i}.weight": np.zeros(1, np.float32) for i in range(100_000)}
        other_save(many, folder / "many.safetensors")
        print(f"open of 100,000 tensors: {best(lambda: anamnesis.open(folder / 'many.safetensors').close()) * 1e3:.1f} ms")
    return True


def resident() -> int:
    """Bytes of memory that this process has now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def memory() -> bool:
    rng = np.random.default_rng(4)
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "x.safetensors"
        anamnesis.save_file({f"l.{i}.up_proj.weight": rng.standard_normal((64, 256)).astype(np.float32) for i in range(4)}, path)
        quantised = pathlib.Path(work) / "q.safetensors"
        anamnesis.forget(path, quantised, to="bnb-nf4")

        def use() -> None:
            with anamnesis.open(quantised) as model:
                model["l.0.up_proj.weight"].numpy(), model["l.1.up_proj.weight"][3:9]
                np.from_dlpack(model["l.2.up_proj.weight"])

        for _ in range(500):
            use()
        before = resident()
        for _ in range(10_000):
            use()
        grown = resident() - before
        print(f"10,000 times open, decode, close: memory has grown by {grown / 1e6:.2f} MB")
        big = {f"l.{i}.up_proj.weight": rng.standard_normal((4096, 4096)).astype(np.float32) for i in range(8)}
        anamnesis.save_file(big, path)
        size = path.stat().st_size
        del big
        code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        convert = "import anamnesis, sys; anamnesis.forget(sys.argv[1], sys.argv[2], to='bnb-nf4', force=True)"
        idle = [sys.executable, "-c", "import anamnesis"]
        library = [sys.executable, "-c", convert, str(path), str(quantised)]
        program = [sys.executable, "-m", "anamnesis", "forget", str(path), "-o", str(quantised), "--to", "bnb-nf4", "--force", "-q"]
        peaks = []
        for command in (idle, library, program):
            done = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True)
            peaks.append(int(done.stdout.split()[-1]) / 1024)
        print(f"peak of quantising {size / 2**20:.0f} MiB: {peaks[1]:.0f} MiB as a function, {peaks[2]:.0f} as the program, "
              f"{peaks[0]:.0f} with nothing done")
    return grown < 2_000_000 and peaks[1] < peaks[2] + 32


def threads() -> bool:
    rng = np.random.default_rng(5)
    weights = {f"l.{i}.up_proj.weight": rng.standard_normal((2048, 2048)).astype(np.float32) for i in range(16)}
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "x.safetensors"
        anamnesis.save_file(weights, path)
        anamnesis.forget(path, pathlib.Path(work) / "q.gguf", to="q6_k", keep_names=True)
        with anamnesis.open(pathlib.Path(work) / "q.gguf") as model:
            names, wanted = list(model), model.load(threads=1)

            def decode(share: "list[str]", found: "dict[str, np.ndarray]") -> None:
                for name in share * 4:
                    found[name] = model[name].numpy(threads=1)

            def run(count: int) -> float:
                found: "dict[str, np.ndarray]" = {}
                work = [threading.Thread(target=decode, args=(names[i::count], found)) for i in range(count)]
                start = time.perf_counter()
                [thread.start() for thread in work]
                [thread.join() for thread in work]
                seconds = time.perf_counter() - start
                if any(not np.array_equal(found[name], wanted[name]) for name in names):
                    raise SystemExit("threads do not agree")
                return seconds

            one, eight = min(run(1) for _ in range(3)), min(run(8) for _ in range(3))
            loads = [best(lambda: model.load(threads=count)) for count in (1, 2)]
    print(f"8 threads agree; one thread {one * 1e3:.0f} ms, eight {eight * 1e3:.0f} ms: {one / eight:.2f} times on {os.cpu_count()} cores")
    print(f"load: one thread {loads[0] * 1e3:.0f} ms, two {loads[1] * 1e3:.0f} ms: {loads[0] / loads[1]:.2f} times")
    return True


TASKS = {"corpus": corpus, "encodings": encodings, "rates": rates, "memory": memory, "threads": threads}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TASKS:
        sys.exit(__doc__)
    sys.exit(0 if TASKS[sys.argv[1]](*sys.argv[2:]) else 1)
