"""Arrays are quantised to the bytes that the command line writes, and decoded to the same numbers."""

import struct

import gguf
import ml_dtypes
import numpy as np
import pytest

import anamnesis
from anamnesis import errors

#: All but the one whose weights are stacks of experts by their names.
TARGETS = [
    target.name for target in anamnesis.formats().targets if "forget" in target.commands and target.name != "gpt-oss"
]
BLOCKS = [block.name for block in anamnesis.formats().block_types]
#: Block types that ggml itself has no quantisation for, or only one for activations.
NOT_ENCODED = {"Q8_1", "Q8_K"}


@pytest.fixture(scope="module")
def array() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((128, 256)).astype(np.float32)


@pytest.fixture(scope="module")
def importance() -> np.ndarray:
    return np.random.default_rng(4).random(256).astype(np.float32)


@pytest.fixture
def imatrix(tmp_path, importance):
    """The file that llama.cpp has for it, for the same weight."""
    name, path = b"layer.weight", tmp_path / "imatrix.dat"
    entry = struct.pack("<i", len(name)) + name + struct.pack("<ii", 1, importance.size) + importance.tobytes()
    path.write_bytes(struct.pack("<i", 1) + entry + struct.pack("<ii", 1, 0))
    return path


def forgotten(tmp_path, array, to, **options):
    """The parts that the command line writes, in a file."""
    anamnesis.save_file({"layer.weight": array}, tmp_path / "in.safetensors")
    written = anamnesis.forget(tmp_path / "in.safetensors", tmp_path / f"out.{ending(to)}", to=to, include="*", **options)
    with anamnesis.open(written.output, plain=ending(to) == "safetensors") as found:
        return {name.removeprefix("layer."): part.numpy() for name, part in found.stored.items()}


def ending(to):
    return next(target.extension for target in anamnesis.formats().targets if target.name == to)


def same(left, right):
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("to", TARGETS)
def test_bytes_are_those_of_the_command_line(tmp_path, array, importance, imatrix, to):
    is_gguf = ending(to) == "gguf"
    array = array[:8] if is_gguf else array  # The searches of small block types are slow.
    options = {"imatrix": imatrix, "keep_names": True} if is_gguf else {}
    wanted = forgotten(tmp_path, array, to, **options)
    found = anamnesis.quantize(array, to, importance if is_gguf else None, measure=True)
    assert found.parts.keys() == wanted.keys()
    assert all(same(found.parts[name], wanted[name]) for name in wanted)
    decoded = found.dequantize()
    assert decoded.shape == array.shape and decoded.dtype == np.float32
    scheme = found.scheme.format if is_gguf else found.config
    assert same(anamnesis.dequantize(found.parts, scheme), decoded)
    assert np.isclose(np.mean(np.abs(decoded - array)), found.lost.mean_absolute, rtol=1e-3)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block not in NOT_ENCODED])
def test_block_types_are_encoded_by_their_own_names(array, importance, block):
    found = anamnesis.quantize(array[:8], block, importance)
    assert found.scheme.format == block
    decoded = found.dequantize()
    try:
        wanted = gguf.quants.dequantize(found.data, gguf.GGMLQuantizationType[block])
    except (KeyError, NotImplementedError):
        return  # A type that the package does not have yet, or does not decode.
    assert np.array_equal(decoded, wanted)


@pytest.mark.parametrize("block", ["Q4_0", "Q8_0", "Q5_1", "TQ2_0"])
def test_blocks_are_those_of_gguf(array, block):
    wanted = gguf.quants.quantize(array, gguf.GGMLQuantizationType[block])
    assert same(anamnesis.quantize(array, block).data, wanted)
    assert np.array_equal(anamnesis.dequantize(wanted, block), gguf.quants.dequantize(wanted, gguf.GGMLQuantizationType[block]))


@pytest.mark.parametrize("change", ["fortran", "strided", "big", "frozen", "half", "brain", "double"])
def test_arrays_of_any_layout_are_taken(array, change):
    given = {
        "fortran": np.asfortranarray(array),
        "strided": np.repeat(np.repeat(array, 2, 0), 2, 1)[::2, ::2],
        "big": array.astype(">f4"),
        "frozen": array.copy(),
        "half": array.astype(np.float16),
        "brain": array.astype(ml_dtypes.bfloat16),
        "double": array.astype(np.float64),
    }[change]
    given.flags.writeable = False
    wanted = anamnesis.quantize(np.ascontiguousarray(given.astype(np.float32)), "q4_k")
    assert same(anamnesis.quantize(given, "q4_k").data, wanted.data)


def test_options_are_those_of_the_command_line(tmp_path, array):
    for to, options in [("bnb-nf4", {"double_quant": True, "block_size": 128}), ("gptq-4bit", {"group_size": 64})]:
        wanted = forgotten(tmp_path, array, to, force=True, **options)
        found = anamnesis.quantize(array, to, **options).parts
        assert found.keys() == wanted.keys() and all(same(found[name], wanted[name]) for name in wanted)


def test_what_cannot_be_quantised_is_refused(array):
    with pytest.raises(errors.UnknownNameError) as unknown:
        anamnesis.quantize(array, "q4_x")
    assert "bnb-nf4" in unknown.value.known
    with pytest.raises(errors.IndivisibleError) as indivisible:
        anamnesis.quantize(array[:, :100], "q4_k")
    assert (indivisible.value.group, indivisible.value.tensors) == (256, [("layer.weight", 100)])
    with pytest.raises(ValueError):
        anamnesis.quantize(np.float32(1.0), "q8_0")
    with pytest.raises(ValueError):
        anamnesis.quantize(np.empty((0, 256), np.float32), "q8_0")
    with pytest.raises(ValueError):
        anamnesis.quantize(array.astype(np.int32), "q8_0")
    with pytest.raises(TypeError):
        anamnesis.quantize(np.array(["a"]), "q8_0")
    with pytest.raises(ValueError, match="importance"):
        anamnesis.quantize(array, "iq2_xxs")
    with pytest.raises(ValueError):
        anamnesis.quantize(array, "q4_k", importance=[1.0])
    bad = array.copy()
    bad[3, 5] = np.nan
    with pytest.raises(errors.NotFiniteError) as caught:
        anamnesis.quantize(bad, "q4_k")
    assert (caught.value.index, np.isnan(caught.value.value)) == (3 * 256 + 5, True)
    assert np.isfinite(anamnesis.quantize(bad, "q4_k", allow_nonfinite=True).dequantize()).all()


def test_parts_that_are_no_weight_are_refused(array):
    parts = anamnesis.quantize(array, "gptq-4bit").parts
    with pytest.raises(ValueError):
        anamnesis.dequantize({name: part for name, part in parts.items() if name != "scales"})
    with pytest.raises(ValueError, match="not those of one weight"):
        anamnesis.dequantize({"weight": array, "bias": array[0]})
    with pytest.raises(ValueError, match="no block type"):
        anamnesis.dequantize(np.zeros((2, 34), np.uint8), "q9_9")
    with pytest.raises(ValueError, match="multiples of 34"):
        anamnesis.dequantize(np.zeros((2, 33), np.uint8), "q8_0")
    with pytest.raises(TypeError, match="uint8"):
        anamnesis.dequantize(np.zeros((2, 34), np.float32), "q8_0")
    with pytest.raises(TypeError, match="by their names"):
        anamnesis.dequantize(array)
    assert anamnesis.dequantize(np.zeros((0, 34), np.uint8), "q8_0").shape == (0, 32)
