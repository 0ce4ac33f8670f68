"""Two small models, and the statistics and differences that NumPy finds in them."""

import json

import torch

from common import FIXTURES, seed, write_tensors
from measure import difference, stats


def special(values):
    """NaN, infinities and zeros among other values."""
    values = values.clone()
    for place, value in [(3, "nan"), (4097, "inf"), (4098, "-inf"), (5000, "nan"), (9, "0"), (10, "-0.0")]:
        values.view(-1)[place] = float(value)
    return values


def models():
    """The tensors of both models."""
    seed("measure")
    normal = torch.randn(37, 331)
    tailed = torch.randn(9001) ** 5
    half = torch.randn(3, 5, 700)
    first = {
        "normal": normal,
        "tailed": tailed,
        "special": special(torch.randn(2, 4100)),
        "bf16": half.to(torch.bfloat16),
        "f16": half.to(torch.float16),
        "f64": torch.randn(4500, dtype=torch.float64) * 1e100,
        "near_one": 1 + torch.randn(5000) * 1e-6,
        "constant": torch.full((4097,), 0.1),
        "zeros": torch.zeros(17),
        "tiny": torch.tensor([1e-45, -1e-45, 1e-40, 0.0]),
        "huge": torch.tensor([3.4e38, -3.4e38, 1.0]),
        "all_nan": torch.full((5,), float("nan")),
        "all_infinite": torch.tensor([float("inf"), float("-inf")]),
        "empty": torch.zeros(0, 4),
        "scalar": torch.tensor(2.5),
    }
    rounded = {name: values.to(torch.bfloat16).float() for name, values in first.items()}
    second = rounded | {
        "bf16": first["bf16"].clone(),
        "f64": first["f64"] * (1 + torch.randn(4500, dtype=torch.float64) * 1e-12),
        "special": special(rounded["special"]).flip(0),
        "f16": first["f16"].to(torch.bfloat16),
        "scalar": torch.tensor(-2.5),
    }
    return first, second


def as_arrays(tensors):
    """F64 as it is, all other types as F32."""
    wide = torch.float64
    return {name: (x if x.dtype == wide else x.float()).numpy() for name, x in tensors.items()}


def exact(found):
    """Floats as text, because not every reader of JSON rounds them to the nearest."""
    if isinstance(found, dict):
        return {key: exact(value) for key, value in found.items()}
    return repr(found) if isinstance(found, float) else found


def main():
    first, second = models()
    write_tensors("measure", "first", first)
    write_tensors("measure", "second", second)
    floats, others = as_arrays(first), as_arrays(second)
    found = {
        "stats": {name: stats(values) for name, values in floats.items()},
        "diff": {name: difference(floats[name], others[name]) for name in floats},
    }
    path = FIXTURES / "measure" / "numpy.json"
    path.write_text(json.dumps(exact(found), indent=1, sort_keys=True) + "\n")


main()
