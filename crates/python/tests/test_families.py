"""Every family is decoded to the bits of its library, whole and in slices."""

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open as other_open

import anamnesis
from anamnesis._dtypes import FLOATS

WIDTHS = {"f32": np.uint32, "bf16": np.uint16, "f16": np.uint16}


def bits(array: np.ndarray, target: str) -> np.ndarray:
    """Bits, with every NaN made the same: libraries differ in which one they give."""
    found = np.ascontiguousarray(array).view(WIDTHS[target]).copy()
    found[np.isnan(array.astype(np.float32))] = 0
    return found


def test_values_are_those_of_the_library(case, rng):
    name, path, expected, config = case
    wanted = anamnesis.load_file(expected, plain=True)
    compared = 0
    with anamnesis.open(path, config=config) as model:
        for key, value in wanted.items():
            tensor_name, _, target = key.rpartition(".")
            if target not in WIDTHS or tensor_name not in model:
                continue
            tensor = model[tensor_name]
            if not (tensor.is_quantized or tensor.dtype in FLOATS):
                assert np.array_equal(tensor.numpy(), value), f"{name} {tensor_name}"
                continue
            found = tensor.numpy(target)
            assert found.shape == value.shape
            unsigned = name.startswith("bnb/fp4")  # its library loses the sign of zero on some machines
            left, right = bits(found, target), bits(value, target)
            if unsigned:
                left, right = (np.where(found == 0, 0, left), np.where(value == 0, 0, right))
            assert np.array_equal(left, right), f"{name} {tensor_name} {target}"
            if tensor.ndim:
                rows = tensor.shape[0]
                start, stop = sorted(rng.integers(0, rows + 1, 2))
                step = int(rng.integers(1, 20))
                part = tensor.rows(slice(start, stop, step), target)
                assert np.array_equal(bits(part, target), bits(found[start:stop:step], target))
            compared += 1
    assert compared, f"nothing was compared for {name}"


@pytest.mark.parametrize("index", [0, -1, slice(None), slice(3, 30, 7), slice(None, None, -1), slice(30, 2, -20),
                                   (2, 3), (slice(1, 4), slice(0, 9, 2)), (..., 1), (slice(None), 5), slice(9, 3)])
def test_an_index_is_that_of_numpy(plain, index):
    with anamnesis.open(plain) as model:
        assert np.array_equal(model["matrix"][index], model["matrix"].numpy()[index])


@pytest.mark.parametrize("name", ["ids", "flags", "half", "scalar", "empty"])
def test_other_types_and_shapes_are_indexed_too(plain, name):
    with anamnesis.open(plain) as model, other_open(plain, "np") as other:
        whole = other.get_tensor(name)
        assert np.array_equal(model[name].numpy(), whole) and model[name].numpy().dtype == whole.dtype
        assert np.array_equal(model[name][...], whole)
        if whole.ndim:
            assert np.array_equal(model[name][1:3], whole[1:3])


def test_bf16_is_a_type_of_ml_dtypes(plain):
    with anamnesis.open(plain) as model:
        found = model["matrix"].numpy("bf16")
        assert found.dtype == ml_dtypes.bfloat16
        assert np.array_equal(found, model["matrix"].numpy().astype(ml_dtypes.bfloat16))


def test_without_ml_dtypes_bf16_is_its_bits(plain, monkeypatch):
    with anamnesis.open(plain) as model:
        wanted = model["matrix"].numpy("bf16")
        monkeypatch.setattr("anamnesis._dtypes._ml_dtypes", None)
        with pytest.warns(anamnesis.BitsWarning, match="uint16"):
            found = model["matrix"].numpy("bf16")
    assert found.dtype == np.uint16 and np.array_equal(found, wanted.view(np.uint16))
