"""Helpers shared by the fixture generators: seeding, file layout and saving."""

import json
import logging
import os
import warnings
import zlib
from pathlib import Path

import torch
from safetensors.torch import save_file

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
torch.set_grad_enabled(False)

HERE = Path(__file__).resolve().parent
FIXTURES = Path(
    os.environ.get("FIXTURES", HERE.parent / "crates" / "anamnesis" / "tests" / "fixtures")
)
REF = Path(os.environ.get("REF", HERE / ".reference")).resolve()
SEED = int(os.environ.get("SEED", "0"))


def seed(case):
    """Seed torch for one case, so that adding a case leaves the others as they were."""
    torch.manual_seed(zlib.crc32(case.encode()) + SEED)


def roundings(values):
    """The F32 values and torch's own roundings of them."""
    values = values.detach().to(torch.float32).contiguous()
    return {
        "f32": values,
        "bf16": values.to(torch.bfloat16),
        "f16": values.to(torch.float16),
    }


def write_tensors(family, name, tensors, metadata=None):
    """Write one safetensors file into the directory of its family."""
    directory = FIXTURES / family
    directory.mkdir(parents=True, exist_ok=True)
    contiguous = {key: value.detach().contiguous().clone() for key, value in tensors.items()}
    path = directory / f"{name}.safetensors"
    save_file(contiguous, str(path), metadata=metadata)
    path.chmod(0o644)


def write_case(
    family, case, tensors, expected, config=None, native=None, document=None, metadata=None
):
    """Write CASE.safetensors, CASE.expected.safetensors and, if given, CASE.config.json.

    `config` is its `quantization_config`; `document` is the whole of it.

    `expected` maps a tensor's name to its F32 values as the library computes them.
    `native` maps a tensor's name to the library's own output in its own dtype.
    """
    write_tensors(family, case, tensors, {"format": "pt", **(metadata or {})})
    answers = {}
    for name, values in expected.items():
        for suffix, rounded in roundings(values).items():
            answers[f"{name}.{suffix}"] = rounded
    for name, values in (native or {}).items():
        answers[f"{name}.native"] = values
    write_tensors(family, f"{case}.expected", answers)
    if config is not None:
        document = {"quantization_config": config}
    if document is not None:
        path = FIXTURES / family / f"{case}.config.json"
        text = json.dumps(document, indent=1, default=str)
        path.write_text(text + "\n")
    shapes = ", ".join(f"{key.split('.')[-1]}{list(value.shape)}" for key, value in tensors.items())
    print(f"{family}/{case}: {shapes}")
