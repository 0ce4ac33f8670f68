"""Repacks quantised models with amn, and compares the values that both libraries decode.

    python repacked.py path/to/amn

A tiny Llama is quantised by amn, repacked, and decoded by the library of either layout, each in its own arithmetic. Printed are how
many weights were repacked, how many differ, and by how much.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import load_directories as loaders

# From, to, more arguments.
CASES = [
    ("awq-4bit", "gptq-4bit-asym", []),
    ("awq-4bit", "gptq-4bit-v2-asym", []),
    ("awq-4bit", "w4a16-asym", []),
    ("gptq-4bit", "w4a16", []),
    ("gptq-4bit", "awq-4bit", []),
    ("w4a16", "gptq-4bit", []),
    # MLX rounds products and sums, GPTQ's library rounds once.
    ("gptq-4bit", "mlx-4bit", ["--same-codes"]),
]


def awq(folder, dtype):
    """AutoAWQ's layers decode into a plain model."""
    from awq.modules.linear.gemm import dequantize_gemm
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    del config.quantization_config
    plain = AutoModelForCausalLM.from_config(config, dtype=dtype)
    weights = {}
    for name, layer in loaders.awq(folder, dtype).named_modules():
        if type(layer).__name__ == "WQLinear_GEMM":
            decoded = dequantize_gemm(layer.qweight, layer.qzeros, layer.scales, 4, layer.group_size)
            weights[f"{name}.weight"] = decoded.T.contiguous()
    plain.load_state_dict(weights, strict=False)
    return plain


def decoded(folder, target):
    """The weights of all linear layers of the blocks, decoded by the library of the target."""
    families = {"awq": awq, "gptq": loaders.gptq, "mlx": loaders.mlx}
    load = families.get(target.split("-")[0], loaders.compressed_tensors)
    state = load(folder, torch.float16).state_dict()
    return {name: tensor for name, tensor in state.items() if name.endswith("proj.weight")}


def main():
    amn = sys.argv[1]
    root = Path(tempfile.mkdtemp())
    loaders.llama(root / "llama", torch.float16)
    for first, second, more in CASES:
        before, after = root / first, root / f"{first} {second}"
        if not before.exists():
            subprocess.run([amn, "forget", root / "llama", "--to", first, "-o", before, "-q"], check=True)
        line = [amn, "forget", before, "--to", second, *more, "-o", after, "--json"]
        told = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
        wanted, found = decoded(before, first), decoded(after, second)
        apart = [(wanted[name].float() - found[name].float()).abs().max().item() for name in wanted]
        differing = sum(distance > 0 for distance in apart)
        print(f"{first:10} {second:18} {told['repacked']:3} repacked, {differing} differ, by {max(apart):.1e}", flush=True)


if __name__ == "__main__":
    main()
