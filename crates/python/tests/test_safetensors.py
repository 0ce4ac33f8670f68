"""The functions of the safetensors package, over every format."""

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open as other_open
from safetensors.numpy import load_file as other_load

import anamnesis


def test_safe_open_is_that_of_safetensors(plain):
    with anamnesis.safe_open(plain, "np") as found, other_open(plain, "np") as wanted:
        assert sorted(found.keys()) == sorted(wanted.keys()) and found.metadata() == wanted.metadata()
        for name in wanted.keys():
            assert np.array_equal(found.get_tensor(name), wanted.get_tensor(name))
        slice_found, slice_wanted = found.get_slice("matrix"), wanted.get_slice("matrix")
        assert slice_found.get_shape() == slice_wanted.get_shape() and slice_found.get_dtype() == "F32"
        assert np.array_equal(slice_found[3:9, 2:4], slice_wanted[3:9, 2:4])


@pytest.mark.parametrize("ending", ["safetensors", "npz", "gguf"])
def test_what_is_saved_is_loaded(tmp_path, rng, ending):
    tensors = {
        "a": rng.standard_normal((8, 32)).astype(np.float32),
        "b": rng.standard_normal((3, 5)).astype(ml_dtypes.bfloat16),
        "turned": np.asfortranarray(rng.standard_normal((4, 6)).astype(np.float16)),
        "big": rng.standard_normal(7).astype(">f4"),
        "strided": rng.standard_normal((9, 9)).astype(np.float32)[::2, ::3],
    }
    for array in tensors.values():
        array.flags.writeable = False
    path = tmp_path / f"x.{ending}"
    anamnesis.save_file(tensors, path)
    found = anamnesis.load_file(path)
    assert found.keys() == tensors.keys()
    for name, array in tensors.items():
        assert np.array_equal(found[name], array), name


def test_safetensors_reads_what_is_saved(tmp_path, plain):
    tensors = other_load(plain)
    anamnesis.save_file(tensors, tmp_path / "x.safetensors", {"who": "me"})
    with other_open(tmp_path / "x.safetensors", "np") as wanted:
        assert wanted.metadata() == {"who": "me"}
    found = other_load(tmp_path / "x.safetensors")
    assert all(np.array_equal(found[name], tensors[name]) for name in tensors)


def test_what_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(TypeError, match="'x'"):
        anamnesis.save_file({"x": np.array(["text"])}, tmp_path / "x.safetensors")
    with pytest.raises(TypeError, match="'x'"):
        anamnesis.save_file({"x": np.array([object()])}, tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_torch_takes_tensors_without_numpy(plain):
    torch = pytest.importorskip("torch")
    with anamnesis.safe_open(plain, "pt", dtype=None) as model:
        assert torch.equal(model.get_tensor("matrix"), torch.from_numpy(other_load(plain)["matrix"]))
    with anamnesis.open(plain) as model:
        assert model["matrix"].torch("bf16").dtype == torch.bfloat16
        assert torch.equal(model["ids"].torch(), torch.from_numpy(other_load(plain)["ids"]))


def test_numpy_takes_a_capsule(plain):
    with anamnesis.open(plain) as model:
        assert np.array_equal(np.from_dlpack(model["matrix"]), model["matrix"].numpy())
        assert model["matrix"].__dlpack_device__() == (1, 0)
        model["matrix"].__dlpack__()  # nobody takes it: it frees itself
        with pytest.raises(BufferError):
            model["matrix"].__dlpack__(stream=3)
