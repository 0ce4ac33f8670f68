"""Compares `amn stats` and `amn diff` with NumPy on every fixture that has expected values.

usage: check_measure.py AMN [CORPUS]

A case is NAME.safetensors, .gguf, .npz, .pth or .pt with NAME.expected.safetensors, as the generators write them. Every
expected F32 tensor has the statistics that NumPy finds in it, and differs from its BF16 form as NumPy says. Cases that
`amn` refuses are counted.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from common import FIXTURES
from measure import difference, stats

ENDINGS = [".safetensors", ".gguf", ".npz", ".pth", ".pt"]
SIDECARS = {
    ".config.json": "config.json",
    ".quantization_config.json": "quantization_config.json",
    ".index.json": "model.safetensors.index.json",
    ".sidecar.json": "model.safetensors.index.json.meta.json",
}


def run(amn, *arguments):
    """The document of a command; None if it is refused."""
    found = subprocess.run([amn, *map(str, arguments), "--json"], capture_output=True, text=True)
    return json.loads(found.stdout) if found.stdout else None


def as_array(tensor):
    """F64 as it is, all other floats as F32."""
    return (tensor if tensor.dtype == torch.float64 else tensor.float()).numpy()


def expected_values(path):
    """The F32 values of every tensor, or tensors without a suffix as they are."""
    tensors = load_file(path)
    floats = {name[:-4]: values for name, values in tensors.items() if name.endswith(".f32")}
    if not floats and not any(name.endswith((".f16", ".bf16", ".native")) for name in tensors):
        floats = {name: values for name, values in tensors.items() if values.is_floating_point() and values.element_size() > 1}
    return floats


def stage(base, folder):
    """The case as a model directory has it."""
    source = next((base + ending for ending in ENDINGS if Path(base + ending).exists()), None)
    if source is None:
        return None
    name = "model-00001-of-00001" if Path(base + ".index.json").exists() else "model"
    staged = folder / (name + Path(source).suffix)
    shutil.copy(source, staged)
    for ending, name in SIDECARS.items():
        if Path(base + ending).exists():
            shutil.copy(base + ending, folder / name)
    return staged


def same_stats(found, wanted):
    """Whether all figures are equal, bit for bit."""
    figures = {key: value for key, value in found.items() if key not in ("name", "shape") and value is not None}
    if not figures["histogram"]["counts"]:
        figures["histogram"] = {"counts": []}
    return figures == wanted


def same_difference(found, wanted):
    """Whether all figures are equal; logarithms may differ in the last bit."""
    sqnr, noise = found["sqnr_db"], wanted.pop("sqnr")
    near = (sqnr is None and noise == float("inf")) or (sqnr is not None and abs(sqnr - noise) <= 1e-12 * abs(noise))
    return near and all(found[key] == value for key, value in wanted.items())


def check(amn, base, counts):
    """Compares one case; the names of tensors that differ."""
    floats = expected_values(base + ".expected.safetensors")
    wrong = []
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        staged = stage(base, folder)
        if staged is None or not floats:
            counts["without F32 values"] += 1
            return wrong
        found = run(amn, "stats", staged)
        if found is None:
            counts["refused"] += 1
            return wrong
        measured = {tensor["name"]: tensor for tensor in found["tensors"]}
        counts["other names"] += not floats.keys() & measured.keys()
        for name in floats.keys() & measured.keys():
            counts["stats"] += 1
            if not same_stats(measured[name], stats(as_array(floats[name]))):
                wrong.append(f"stats of {name}")
        rounded = {name: values if values.dtype == torch.float64 else values.bfloat16() for name, values in floats.items()}
        save_file({name: values.contiguous().clone() for name, values in rounded.items()}, str(folder / "rounded.safetensors"))
        found = run(amn, "diff", staged, folder / "rounded.safetensors", "--keep-names")
        for tensor in found["tensors"]:
            name = tensor["name"]
            if name not in floats or tensor["compared"] != "values":
                continue
            counts["diff"] += 1
            wanted = difference(as_array(floats[name]), as_array(rounded[name]))
            # The library's CPU code gives +0 for FP4 code 8, its CUDA code and amn -0.
            if "fp4_" in Path(base).name:
                wanted["different"] = tensor["different"]
            if not same_difference(tensor, wanted):
                wrong.append(f"diff of {name}")
    return wrong


def main():
    amn = str(Path(sys.argv[1]).resolve())
    corpus = Path(sys.argv[2]) if len(sys.argv) > 2 else FIXTURES
    counts, wrong = Counter(), []
    for path in sorted(corpus.rglob("*.expected.safetensors")):
        base = str(path).removesuffix(".expected.safetensors")
        counts["cases"] += 1
        wrong += [f"{Path(base).relative_to(corpus)}: {text}" for text in check(amn, base, counts)]
    print(dict(counts), len(wrong), "wrong")
    for text in wrong[:50]:
        print(" ", text)
    sys.exit(bool(wrong))


main()
