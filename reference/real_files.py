"""Converts published model files with amn, and compares every tensor with the values that torch or NumPy reads.

usage: real_files.py --amn PATH FILE...

The files are loaded by their own libraries, which runs whatever code is in them: use files you trust. Tensors are compared
bit for bit, by the names that torch's nesting gives them. Exit 0 where every file matches or is refused with a reason.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file


def flat(value, path=""):
    """The tensors inside a value by the paths to them."""
    if isinstance(value, torch.Tensor):
        return {path or "tensor": value.detach().resolve_conj().resolve_neg().contiguous()}
    if isinstance(value, torch.nn.Module) or isinstance(value, torch.jit.ScriptModule):
        return flat(dict(value.state_dict()), path)
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


def load(path):
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: torch.from_numpy(np.array(archive[name], order="C")) for name in archive.files}
    try:
        return flat(torch.jit.load(path, map_location="cpu"))
    except RuntimeError:
        return flat(torch.load(path, map_location="cpu", weights_only=False))


def same(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.contiguous().reshape(-1).view(torch.uint8).equal(b.contiguous().reshape(-1).view(torch.uint8))


def check(amn, path):
    with tempfile.TemporaryDirectory() as directory:
        out = f"{directory}/out.safetensors"
        run = subprocess.run([amn, "remember", path, "--all", "-o", out], capture_output=True, text=True)
        if run.returncode:
            return True, f"refused: {run.stderr.strip()[:150]}"
        found = load_file(out)
        wanted = load(path)
        missing = [name for name in wanted if name not in found]
        wrong = [name for name in wanted if name in found and not same(wanted[name], found[name])]
        more = [name for name in found if name not in wanted]
        if missing or wrong:
            return False, f"{len(missing)} missing, {len(wrong)} wrong: {(missing + wrong)[:3]}"
        beyond = f", {len(more)} more ({more[0]})" if more else ""
        return True, f"{len(wanted)} tensors, all equal{beyond}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--amn", required=True)
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    good = True
    for path in options.files:
        try:
            match, text = check(options.amn, path)
        except Exception as error:  # the library could not load it
            match, text = False, f"not loaded: {type(error).__name__}: {str(error)[:120]}"
        good &= match
        print(f"{'ok  ' if match else 'FAIL'} {path.stat().st_size:>11} {path}: {text}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
