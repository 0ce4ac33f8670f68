"""Fixtures of the library, which the canonical libraries wrote."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Iterator, Optional, Tuple

import numpy as np
import pytest

FIXTURES = pathlib.Path(os.environ.get("AMN_FIXTURES", pathlib.Path(__file__).parents[2] / "anamnesis/tests/fixtures"))

FAMILIES = (
    "fp8 codes gptq awq autoround marlin hqq bitnet torchao quanto mlx quark modelopt mxfp4 bnb compressed_tensors"
).split()


def cases() -> Iterator[Tuple[str, pathlib.Path, pathlib.Path, Optional[dict]]]:
    """Every case that has an expectation: its name, its file, what its library decodes, and its configuration."""
    for family in FAMILIES:
        for expected in sorted((FIXTURES / family).glob("*.expected.safetensors")):
            name = expected.name[: -len(".expected.safetensors")]
            config = FIXTURES / family / f"{name}.config.json"
            known = json.loads(config.read_text()) if config.exists() else None
            yield f"{family}/{name}", FIXTURES / family / f"{name}.safetensors", expected, known
    for expected in sorted((FIXTURES / "gguf").glob("*.expected.safetensors")):
        name = expected.name[: -len(".expected.safetensors")]
        yield f"gguf/{name}", FIXTURES / "gguf" / f"{name}.gguf", expected, None


CASES = list(cases())


@pytest.fixture(params=CASES, ids=[case[0] for case in CASES])
def case(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def plain(tmp_path: pathlib.Path, rng: np.random.Generator) -> pathlib.Path:
    """A plain safetensors file, written by its own library."""
    from safetensors.numpy import save_file

    path = tmp_path / "plain.safetensors"
    tensors = {
        "matrix": rng.standard_normal((37, 24)).astype(np.float32),
        "half": rng.standard_normal((5, 3)).astype(np.float16),
        "ids": rng.integers(-9, 9, (4, 2)),
        "flags": np.array([True, False, True]),
        "scalar": np.array(2.5, np.float32),
        "empty": np.empty((0, 3), np.float32),
    }
    save_file(tensors, path, {"who": "tests"})
    return path
