"""Fixtures of libraries that do not run in the environment of setup.sh: selects cases from COLLECTED, a directory with
FAMILY/CASE.safetensors, CASE.config.json and CASE.expected.safetensors.

| family | made by |
|---|---|
| `exl2`, `exl3` | exllamav2 0.3.2 and exllamav3 1.6.5: quantised and reconstructed by their CUDA kernels on a GPU; for EXL3, `get_weight_tensor` |
| `eetq` | EETQ's own CPU functions, which quantise and interleave; the product of code and scale is torch's |
| `fouroversix` | fouroversix 1.0.5: quantised and decoded by its torch backend |

EXL defines half precision only: F32 is the exact widening of it, BF16 its rounding.
"""

import json
import os
from pathlib import Path

from common import write_case, write_tensors
from safetensors.torch import load_file

COLLECTED = Path(os.environ["COLLECTED"])
CASES = {
    "exl2": ["q_b2_g32", "q_b3_g32", "q_m865432_mixed", "q_m54_g32_qperm", "q_one_group"],
    "exl3": ["r_k1p5_mul1", "q_k2_mcg", "r_k3_3inst_su_sv", "r_k5_3inst_su_svh", "r_k8_mul1"],
    "eetq": ["int8_codes", "int8_qweight"],
    "fouroversix": ["nvfp4_mse", "nvfp4_static_4", "mxfp4_codes", "if4", "nvint4"],
}

for family, cases in CASES.items():
    for case in cases:
        stem = COLLECTED / family / case
        decoded = load_file(f"{stem}.expected.safetensors")
        suffix = ".f32" if any(name.endswith(".f32") for name in decoded) else ".f16"
        expected = {name.removesuffix(suffix): values for name, values in decoded.items() if name.endswith(suffix)}
        document = json.loads(Path(f"{stem}.config.json").read_text())
        write_case(family, case, load_file(f"{stem}.safetensors"), expected, document=document)

# The weights of EETQ's cases before they were quantised, each with its stored tensors.
for case in ("int8", "int8_qweight"):
    stored = load_file(COLLECTED / "eetq" / f"{case}.safetensors")
    for number, (name, source) in enumerate(load_file(COLLECTED / "eetq" / f"{case}.source.safetensors").items()):
        module = name.removesuffix(".weight")
        parts = {part: stored[f"{module}.{part}"] for part in ("weight", "qweight", "weight_scales") if f"{module}.{part}" in stored}
        # EETQ's own files have another name for the codes.
        tensors = {f"{module}.{part.replace('qweight', 'weight')}": tensor for part, tensor in parts.items()}
        tensors["source"] = source
        write_tensors("encode", f"eetq@{case}_{number}", tensors, {"format": "pt", "target": "eetq", "layer": name})
