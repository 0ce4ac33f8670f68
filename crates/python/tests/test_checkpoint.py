"""A checkpoint is a mapping, opened from anything, and fails with exceptions that name the thing."""

import io
import threading

import numpy as np
import pytest
from safetensors.numpy import load_file as other_load

import anamnesis
from anamnesis import errors


def test_a_checkpoint_is_a_mapping(plain):
    with anamnesis.open(plain) as model:
        assert len(model) == 6 and list(model) == sorted(model) and "matrix" in model and "other" not in model
        assert model.metadata == {"who": "tests"} and model.format == "safetensors" and model.scheme is None
        assert model["matrix"].shape == (37, 24) and model["matrix"].dtype == "F32" and len(model["matrix"]) == 37
        assert {name: tensor.shape for name, tensor in model.items()}["half"] == (5, 3)


def test_paths_bytes_and_files_are_the_same(plain):
    wanted = other_load(plain)
    for source in (plain, str(plain), plain.read_bytes(), io.BytesIO(plain.read_bytes()), plain.open("rb")):
        with anamnesis.open(source) as model:
            found = model.load(threads=2)
        assert found.keys() == wanted.keys()
        assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_an_unknown_name_is_answered_with_the_nearest(plain):
    with anamnesis.open(plain) as model, pytest.raises(KeyError) as caught:
        model["matrx"]
    assert isinstance(caught.value, errors.UnknownTensorError)
    assert caught.value.near[0] == "matrix" and "did you mean 'matrix'" in str(caught.value)


def test_a_closed_checkpoint_says_so(plain):
    model = anamnesis.open(plain)
    tensor = model["matrix"]
    model.close()
    model.close()
    for use in (lambda: model["matrix"], lambda: len(model), lambda: tensor.numpy(), lambda: tensor[1:2]):
        with pytest.raises(ValueError, match="closed"):
            use()


@pytest.mark.parametrize("dtype", ["f64x", "int8", "", object(), 3])
def test_a_type_that_does_not_exist_is_refused(plain, dtype):
    with anamnesis.open(plain) as model, pytest.raises(ValueError):
        model["matrix"].numpy(dtype)


def test_bad_indices_are_those_of_numpy(plain):
    with anamnesis.open(plain) as model:
        tensor = model["matrix"]
        with pytest.raises(IndexError):
            tensor[37]
        with pytest.raises(IndexError):
            tensor[0, 0, 0]
        with pytest.raises(ValueError):
            tensor[::0]
        with pytest.raises(TypeError):
            tensor["a"]


def test_files_that_are_missing_or_broken_raise(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        anamnesis.open(tmp_path / "none.safetensors")
    assert isinstance(missing.value, errors.AnamnesisError)
    for content in (b"", b"\x00" * 7, b"\xff" * 64, b"GGUF\x03\x00\x00\x00" + b"\xff" * 16, b"PK\x03\x04" + b"\0" * 40):
        with pytest.raises((errors.AnamnesisError, ValueError, MemoryError)):
            anamnesis.open(content).load()


class Lying(io.BytesIO):
    """A file object that is shorter than it says, or fails midway."""

    def __init__(self, data, mode):
        super().__init__(data)
        self.mode = mode

    def seek(self, offset, whence=0):
        place = super().seek(offset, whence)
        return place + 100 if self.mode == "longer" and whence == 2 else place

    def read(self, count=-1):
        if self.mode == "raises" and self.tell() > 200:
            raise RuntimeError("gone")
        if self.mode == "text":
            return "text"
        return super().read(count)


@pytest.mark.parametrize("mode", ["longer", "raises", "text"])
def test_file_objects_that_lie_or_fail_raise(plain, mode):
    with pytest.raises((OSError, ValueError)):
        anamnesis.open(Lying(plain.read_bytes(), mode)).load()


def test_threads_decode_at_once_and_agree(plain):
    wanted = other_load(plain)
    faults = []

    def work():
        try:
            with anamnesis.open(plain) as model:
                for _ in range(50):
                    for name in wanted:
                        if not np.array_equal(model[name].numpy(), wanted[name]):
                            faults.append(name)
        except Exception as error:  # noqa: BLE001
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not faults


def test_closing_in_another_thread_is_an_exception_at_most(plain):
    for _ in range(20):
        model = anamnesis.open(plain)
        tensor = model["matrix"]
        closer = threading.Thread(target=model.close)
        closer.start()
        try:
            while True:
                tensor.numpy()
        except ValueError:
            pass
        closer.join()


def test_limits_are_kept(plain):
    with pytest.raises(MemoryError):
        anamnesis.open(plain, limits={"max_item_count": 2})
    with pytest.raises(ValueError, match="no limit"):
        anamnesis.open(plain, limits={"nothing": 2})
