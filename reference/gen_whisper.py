"""Models of whisper.cpp (`ggml-*.bin`) with every block type.

Writes whisper/ among the fixtures. The layout is that of whisper.cpp's `models/convert-pt-to-ggml.py`
and `examples/quantize`; the blocks are those that ggml's own C code wrote into the fixtures of
gguf/, whose expected values hold here too.
"""

import struct

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader
from gguf.constants import GGML_QUANT_SIZES

from common import FIXTURES, SEED, write_tensors

F32, F16 = 0, 1
# The package still has the size from when the scale and the sum were F32.
GGML_QUANT_SIZES[GGMLQuantizationType.Q8_1] = (32, 36)
MEL_BANDS, FREQUENCIES = 4, 5
VOCABULARY, WIDTH, LAYERS = 9, 8, 1
TOKENS = [b"!", b" the", "ü".encode(), b"\xe2\x82", b"\x00", b"", b"\n"]


def front(file_type):
    """Hyperparameters, filters and vocabulary."""
    numbers = [VOCABULARY, 12, WIDTH, 2, LAYERS, 6, WIDTH, 2, LAYERS, MEL_BANDS, file_type]
    filters = np.random.default_rng(SEED).standard_normal((MEL_BANDS, FREQUENCIES)).astype("<f4")
    tokens = b"".join(struct.pack("<I", len(token)) + token for token in TOKENS)
    return (
        struct.pack("<I11i2i", 0x67676D6C, *numbers, MEL_BANDS, FREQUENCIES)
        + filters.tobytes()
        + struct.pack("<i", len(TOKENS))
        + tokens
    )


def tensor(name, kind, dims, data):
    """A tensor with its header; `dims` has the fastest-varying dimension first."""
    name = name.encode()
    head = struct.pack(f"<3i{len(dims)}i", len(dims), len(name), kind, *dims)
    return head + name + bytes(data)


def write(case, file_type, tensors):
    directory = FIXTURES / "whisper"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"ggml-{case}.bin").write_bytes(front(file_type) + b"".join(tensors))
    print(f"whisper/{case}: {len(tensors)} tensors")


def blocks():
    """The block tensors of gguf/, by the names of their files."""
    for path in sorted((FIXTURES / "gguf").glob("*.gguf")):
        # The package does not know Q2_0 yet.
        if path.stem in ("big_endian", "several_types", "q2_0"):
            continue
        for stored in GGUFReader(str(path)).tensors:
            if stored.n_elements > 1:
                dims = [int(size) for size in stored.shape]
                yield path.stem, stored.name, int(stored.tensor_type), dims, stored.data.tobytes()


def shapes():
    """The names and shapes of a model as OpenAI's checkpoints have them."""
    yield "encoder.positional_embedding", (12, WIDTH)
    yield "encoder.conv1.weight", (WIDTH, MEL_BANDS, 3)
    yield "encoder.conv1.bias", (WIDTH, 1)
    yield "encoder.conv2.weight", (WIDTH, WIDTH, 3)
    yield "encoder.conv2.bias", (WIDTH, 1)
    yield "decoder.positional_embedding", (6, WIDTH)
    yield "decoder.token_embedding.weight", (VOCABULARY, WIDTH)
    for norm in ("encoder.ln_post", "decoder.ln"):
        yield from ((f"{norm}.weight", (WIDTH,)), (f"{norm}.bias", (WIDTH,)))
    for half, attentions in (("encoder", ["attn"]), ("decoder", ["attn", "cross_attn"])):
        block = f"{half}.blocks.0"
        for norm in ["mlp_ln", *(f"{attention}_ln" for attention in attentions)]:
            yield from ((f"{block}.{norm}.weight", (WIDTH,)), (f"{block}.{norm}.bias", (WIDTH,)))
        for linear, outputs, inputs in (("mlp.0", 4 * WIDTH, WIDTH), ("mlp.2", WIDTH, 4 * WIDTH)):
            yield f"{block}.{linear}.weight", (outputs, inputs)
            yield f"{block}.{linear}.bias", (outputs,)
        for attention in attentions:
            for linear in ("query", "key", "value", "out"):
                yield f"{block}.{attention}.{linear}.weight", (WIDTH, WIDTH)
                if linear != "key":
                    yield f"{block}.{attention}.{linear}.bias", (WIDTH,)


def model():
    """A whole model: matrices in F16, the rest in F32, as the converter writes them."""
    rng = np.random.default_rng(SEED + 1)
    for name, shape in shapes():
        is_half = len(shape) > 1 and "positional" not in name and shape[-1] > 1
        yield name, rng.standard_normal(shape).astype("<f2" if is_half else "<f4")


def plain(name, array):
    return tensor(name, F16 if array.itemsize == 2 else F32, array.shape[::-1], array.tobytes())


arrays = dict(model())
write("tiny", 1, [plain(*item) for item in arrays.items()])
write_tensors("whisper", "ggml-tiny.expected", {k: torch.from_numpy(v) for k, v in arrays.items()})
quantised = [tensor(f"{case}/{name}", kind, dims, data) for case, name, kind, dims, data in blocks()]
write("blocks", 2 * 1000 + 14, quantised)
