"""Whatever is handed in, the answer is an exception that names the thing: never an abort, never a stale buffer."""

import gc
import io
import json
import os
import pickle
import random
import struct
import sys
import threading
import zipfile

import numpy as np
import pytest

import anamnesis
from anamnesis import errors
from conftest import FIXTURES

#: Everything that a broken file may raise.
REFUSED = (errors.AnamnesisError,)


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


HOSTILE = {
    "empty": b"",
    "one byte": b"\0",
    "huge header": struct.pack("<Q", 2**63) + b"{}",
    "header past the end": struct.pack("<Q", 100) + b"{}",
    "no JSON": safetensors(b"{nothing"),
    "deep JSON": safetensors(b"[" * 100_000),
    "overlap": safetensors({"a": entry(), "b": entry()}, bytes(4)),
    "past the end": safetensors({"a": entry(offsets=(0, 400))}, bytes(4)),
    "backwards": safetensors({"a": entry(offsets=(4, 0))}, bytes(4)),
    "huge shape": safetensors({"a": entry(shape=(2**62, 2**62))}, bytes(4)),
    "negative": safetensors({"a": entry(shape=(-1,))}, bytes(4)),
    "unknown type": safetensors({"a": entry(dtype="F3")}, bytes(4)),
    "twice": safetensors(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "GGUF that ends": b"GGUF\x03\0\0\0",
    "GGUF of many": b"GGUF\x03\0\0\0" + struct.pack("<QQ", 2**60, 2**60),
    "GGUF of long text": b"GGUF\x03\0\0\0" + struct.pack("<QQQ", 0, 1, 2**60),
    "GGUF of version 9": b"GGUF\x09\0\0\0" + bytes(64),
    "half a ZIP": b"PK\x03\x04" + bytes(40),
    "NPY of objects": b"\x93NUMPY\x01\0" + struct.pack("<H", 54) + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
    "pickle": pickle.dumps(os.system),
    "HTML": b"<!DOCTYPE html><html></html>",
    "random": random.Random(5).randbytes(4096),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused(tmp_path, name):
    path = tmp_path / "x.bin"
    path.write_bytes(HOSTILE[name])
    for source in (HOSTILE[name], path, io.BytesIO(HOSTILE[name])):
        with pytest.raises(REFUSED):
            anamnesis.open(source).load()


def test_a_bomb_is_refused_by_its_limits(tmp_path):
    path = tmp_path / "bomb.npz"
    header = b"\x93NUMPY\x01\0" + struct.pack("<H", 118)
    header += b"{'descr': '|u1', 'fortran_order': False, 'shape': (33554432,) }".ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("a.npy", "w", force_zip64=True) as member:
            member.write(header)
            for _ in range(32):
                member.write(bytes(1 << 20))
    with pytest.raises(MemoryError):
        anamnesis.open(path, limits={"buffer": 1 << 20, "ratio": 10}).load()


FILES = sorted(path for ending in ("safetensors", "gguf") for path in FIXTURES.glob(f"*/*.{ending}") if path.stat().st_size < 40_000)


@pytest.mark.parametrize("seed", range(8))
def test_mutilated_files_raise_or_decode(seed):
    chance = random.Random(seed)
    for path in chance.sample(FILES, 12):
        data = bytearray(path.read_bytes())
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(min(len(data), 4000))] = chance.randrange(32)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        try:
            with anamnesis.open(bytes(data), limits={"memory": 1 << 28}) as model:
                for tensor in model.values():
                    tensor.numpy(threads=1)
                model.metadata, model.weights, model.problems
        except REFUSED:
            pass


def test_limits_hold_for_decoding_too(plain):
    with anamnesis.open(plain, limits={"buffer": 2000}) as model:
        assert model["half"].numpy().shape == (5, 3)
        with pytest.raises(errors.LimitError) as caught:
            model["matrix"].numpy()
        assert caught.value.limit == "max_single_alloc_bytes"
        assert model["matrix"][:2].shape == (2, 24)


class Raising(io.BytesIO):
    def __init__(self, data, error):
        super().__init__(data)
        self.error = None
        self.raises = error

    def read(self, count=-1):
        if self.error is not None:
            raise self.error
        return super().read(count)


def test_the_exception_of_a_file_object_is_the_cause(plain):
    file = Raising(plain.read_bytes(), RuntimeError)
    model = anamnesis.open(file)
    file.error = RuntimeError("gone")
    with pytest.raises(errors.IoError, match="gone") as caught:
        model["matrix"].numpy()
    assert caught.value.__cause__ is file.error
    file.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        model["matrix"].numpy()
    file.error = None
    assert model["matrix"].numpy().shape == (37, 24)
    file.close()
    with pytest.raises(OSError, match="closed file"):
        model["matrix"].numpy()


def test_a_file_object_is_read_by_many_threads(plain):
    model = anamnesis.open(io.BytesIO(plain.read_bytes()))
    wanted = model["matrix"].numpy()
    faults = []

    def work():
        for _ in range(50):
            if not np.array_equal(model["matrix"].numpy(), wanted) or model["half"].shape != (5, 3):
                faults.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not faults


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_a_fork_paths_work_and_file_objects_are_refused(plain):
    with anamnesis.open(plain) as by_path, plain.open("rb") as file, anamnesis.open(file) as by_file:
        wanted = by_path["matrix"].numpy()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                same = np.array_equal(by_path["matrix"].numpy(threads=2), wanted)
                try:
                    by_file["matrix"].numpy()
                except OSError as error:
                    code = 0 if same and "fork" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert np.array_equal(by_file["matrix"].numpy(), wanted)


def test_what_is_no_source_is_a_type_error():
    for source in (3, None, object(), ["a"], io.StringIO("text")):
        with pytest.raises((TypeError, errors.AnamnesisError)):
            anamnesis.open(source)
    with pytest.raises(TypeError):
        anamnesis.open("x", no_such_option=1)
    with pytest.raises(ValueError, match="arith"):
        anamnesis.open("x", arith="exact")
    with pytest.raises(ValueError, match="gptq_format"):
        anamnesis.open("x", gptq_format="v3")


def test_arrays_outlive_their_checkpoint(plain):
    with anamnesis.open(plain) as model:
        whole, rows, packed = model["matrix"].numpy(), model["matrix"][3:5], np.from_dlpack(model["matrix"])
        wanted = whole.copy()
    del model
    gc.collect()
    [np.empty(1000) for _ in range(100)]
    assert np.array_equal(whole, wanted) and np.array_equal(rows, wanted[3:5]) and np.array_equal(packed, wanted)
    whole[0, 0] = 7  # it is the caller's own
    assert packed[0, 0] == wanted[0, 0]


def test_a_file_that_shrinks_is_an_exception(tmp_path, rng):
    path = tmp_path / "x.safetensors"
    anamnesis.save_file({"a": rng.standard_normal((512, 1024)).astype(np.float32)}, path)
    with anamnesis.open(path) as model:
        os.truncate(path, 5000)
        with pytest.raises((OSError, ValueError)):
            model["a"].numpy("bf16")
        with pytest.raises((OSError, ValueError)):
            model["a"].numpy()


def test_capsules_that_nobody_takes_free_themselves(plain):
    with anamnesis.open(plain) as model:
        for _ in range(100):
            model["matrix"].__dlpack__()
            model["matrix"].__dlpack__(max_version=(1, 0))
        for wrong in ({"copy": False}, {"stream": 3}, {"dl_device": (2, 0)}):
            with pytest.raises(BufferError):
                model["matrix"].__dlpack__(**wrong)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the buffer protocol of Python classes")
def test_a_tensor_is_a_buffer(plain):
    with anamnesis.open(plain) as model:
        assert memoryview(model["matrix"]).shape == (37, 24)


def test_memory_does_not_grow(plain):
    """Ten thousand times is `reference/check_python.py`'s; this is enough to see a leak of a tensor."""
    resource = pytest.importorskip("resource")

    def use():
        with anamnesis.open(plain) as model:
            model["matrix"].numpy("f16"), model["matrix"][2:3], np.from_dlpack(model["half"]), model.load()
            try:
                model["other"]
            except KeyError:
                pass

    for _ in range(100):
        use()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(500):
        use()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
    assert grown < 3_000_000, grown
