"""Commands do what ``amn`` does, return its documents, and stop when asked to."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import anamnesis
from anamnesis import errors


def amn(*arguments) -> dict:
    """The document of the command line, as a program of its own."""
    command = [sys.executable, "-m", "anamnesis", "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout or done.stderr)


@pytest.fixture
def model(tmp_path: pathlib.Path, rng) -> pathlib.Path:
    path = tmp_path / "model.safetensors"
    names = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in range(2)]
    anamnesis.save_file({name: rng.standard_normal((64, 256)).astype(np.float32) for name in names}, path)
    return path


def test_results_are_the_documents_of_the_command_line(model, tmp_path):
    assert anamnesis.inspect(model) == amn("inspect", model)
    assert anamnesis.inspect(model, to="f32", include=["*.0.*"]) == amn("inspect", model, "--to", "f32", "--include", "*.0.*")
    assert anamnesis.verify(model) == amn("verify", model)
    assert anamnesis.scan(model) == amn("scan", model)
    assert anamnesis.formats() == amn("formats")
    found = anamnesis.compare(model, ["q8_0", "bnb-nf4"])
    assert found == amn("forget", model, "--compare", "q8_0,bnb-nf4") and found.targets[0].quantized == 2
    out = tmp_path / "a.gguf"
    mine = anamnesis.forget(model, out, to="q8_0", keep_names=True)
    written = out.read_bytes()
    theirs = amn("forget", model, "--to", "q8_0", "-o", out, "--keep-names", "--force")
    assert mine == theirs and written == out.read_bytes() and mine.output == str(out)


def test_the_verbs_chain(model, tmp_path):
    quantised = anamnesis.forget(model, tmp_path / "q.safetensors", to="bnb-nf4")
    assert anamnesis.inspect(quantised.output).quantized == 2
    decoded = anamnesis.remember(quantised.output, tmp_path / "d.safetensors", to="f32")
    converted = anamnesis.convert(decoded.output, tmp_path / "d.npz")
    with anamnesis.open(converted.output) as found, anamnesis.open(quantised.output) as wanted:
        for name in wanted:
            assert np.array_equal(found[name].numpy(), wanted[name].numpy())
    fitted = anamnesis.fit(model, "60 KB", tmp_path / "f.gguf", to="q4_0,q8_0", keep_names=True)
    assert os.path.getsize(fitted.output) <= 60 * 1024


def test_every_flag_is_a_keyword_and_nothing_else_is(model):
    import typing

    from anamnesis import _options
    from anamnesis._anamnesis import flags

    for command, options, others in [
        ("inspect", _options.InspectOptions, set()),
        ("remember", _options.RememberOptions, {"output"}),
        ("convert", _options.ConvertOptions, {"output", "to"}),
        ("forget", _options.ForgetOptions, {"output", "to", "compare", "fit"}),
        ("verify", _options.VerifyOptions, set()),
        ("scan", _options.LimitOptions, {"format"}),
    ]:
        keywords = set(typing.get_type_hints(options)) | others
        assert keywords == {name.replace("-", "_") for name, *_ in flags(command)}, command
    with pytest.raises(TypeError, match="'no_such'"):
        anamnesis.inspect(model, no_such=True)
    with pytest.raises(TypeError, match="all is True or False"):
        anamnesis.inspect(model, all="yes")
    with pytest.raises(TypeError, match="no command"):
        anamnesis.run("nothing")


def test_failures_are_exceptions_of_their_kind(model, tmp_path):
    with pytest.raises(errors.UsageError, match="f12"):
        anamnesis.inspect(model, to="f12")
    with pytest.raises(errors.MissingFileError, match="did you mean"):
        anamnesis.inspect(str(model).replace("model.s", "modle.s"))
    with pytest.raises(errors.UnusedPatternError) as unused:
        anamnesis.remember(model, tmp_path / "x.safetensors", include="nothing*")
    assert unused.value.pattern == "nothing*"
    out = tmp_path / "x.safetensors"
    out.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        anamnesis.convert(model, out)
    assert out.read_bytes() == b"mine"
    with pytest.raises(errors.LimitError):
        anamnesis.inspect(model, limit={"items": 1})
    with pytest.raises(ValueError, match="name files"):
        anamnesis.inspect("-")


def test_verdicts_are_results(tmp_path, model):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(model.read_bytes()[:-100])
    report = anamnesis.verify(path)
    assert not report.sound and report.problems
    import pickle

    evil = tmp_path / "evil.pkl"
    evil.write_bytes(pickle.dumps(os.system))
    assert not anamnesis.scan(evil).safe


def test_progress_is_called_and_may_stop(model, tmp_path):
    seen = []
    anamnesis.remember(model, tmp_path / "x.safetensors", to="bf16", cast="all", progress=lambda *at: seen.append(at))
    assert seen[-1][0] == seen[-1][1] > 0

    def stop(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        anamnesis.remember(model, tmp_path / "y.safetensors", cast="all", progress=stop)
    pytest.importorskip("tqdm")
    anamnesis.remember(model, tmp_path / "z.safetensors", cast="all", progress=True)


def test_ctrl_c_stops_and_leaves_nothing(tmp_path, rng):
    source = tmp_path / "in"
    source.mkdir()
    weights = {f"l.{i}.up_proj.weight": rng.standard_normal((512, 1024)).astype(np.float32) for i in range(8)}
    anamnesis.save_file(weights, source / "model.safetensors")
    before = set(tmp_path.rglob("*"))

    def interrupt(done, total):
        if not interrupted:
            interrupted.append(done)
            os.kill(os.getpid(), signal.SIGINT)

    interrupted = []
    with pytest.raises(KeyboardInterrupt):
        # The slowest encoder there is, so that there is time.
        anamnesis.forget(source / "model.safetensors", tmp_path / "o.gguf", to="iq3_s", keep_names=True, progress=interrupt)
    assert set(tmp_path.rglob("*")) == before


def test_commands_run_in_other_threads(model, tmp_path):
    found = []
    work = lambda number: found.append(anamnesis.forget(model, tmp_path / f"{number}.gguf", to="q4_k_m", keep_names=True))
    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 4 and len({pathlib.Path(one.output).read_bytes() for one in found}) == 1


def test_the_program_is_in_the_package(model):
    done = subprocess.run([sys.executable, "-m", "anamnesis", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("anamnesis ")
    done = subprocess.run([sys.executable, "-m", "anamnesis", "inspect", "nothing"], capture_output=True, text=True)
    assert done.returncode == 1 and "error:" in done.stderr
