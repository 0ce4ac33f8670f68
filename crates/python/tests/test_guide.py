"""Every block of the guide does what it shows."""

import doctest
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import anamnesis

ROOT = pathlib.Path(__file__).parents[3]
GUIDE = ROOT / "docs/from-python.md"
README = ROOT / "crates/python/README.md"


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


@pytest.fixture
def samples(tmp_path, rng, monkeypatch):
    """The models that the guide speaks of."""
    monkeypatch.chdir(tmp_path)
    weights = {f"model.layers.{i}.mlp.up_proj.weight": rng.standard_normal((64, 256)).astype(np.float32) for i in (0, 1)}
    plain = pathlib.Path("plain")
    plain.mkdir()
    anamnesis.save_file({**weights, "model.norm.weight": np.ones(256, np.float32)}, plain / "model.safetensors")
    (plain / "config.json").write_text(json.dumps({"model_type": "llama", "torch_dtype": "float32"}))
    anamnesis.forget(plain, "Llama-GPTQ", to="gptq-4bit")
    anamnesis.save_file({"blk.0.attn_q.weight": weights["model.layers.0.mlp.up_proj.weight"]}, "plain.gguf")
    anamnesis.forget("plain.gguf", "model.gguf", to="q4_k_m")
    return tmp_path


def test_every_block_of_the_guide_is_run(samples):
    first, *others = blocks(GUIDE, "python")
    assert not others
    done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["blk.0.attn_q.weight (64, 256) Q4_K", "(64, 256) float32"]
    sessions = "\n".join(blocks(GUIDE, "pycon"))
    test = doctest.DocTestParser().get_doctest(sessions, {"anamnesis": anamnesis}, "from-python.md", str(GUIDE), 0)
    assert len(test.examples) > 20
    flags = doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    report = []
    found = doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    assert found.failed == 0, "".join(report)


def test_the_readme_is_run_too(samples):
    for block in blocks(README, "python"):
        done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_first_example_has_types(samples):
    mypy = pytest.importorskip("mypy.api")
    (samples / "example.py").write_text(blocks(GUIDE, "python")[0])
    report, errors, status = mypy.run(["--strict", "example.py"])
    assert status == 0, report + errors


def test_the_notebook_is_executed(samples, capsys):
    cells = json.loads((ROOT / "examples/python/checkpoints.ipynb").read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    printed = capsys.readouterr().out
    assert printed.count(" dB") == 16 and names["anamnesis"] is anamnesis
