"""MLX checkpoints: the affine mode with every number of bits, and the modes of floats.

The oracle is MLX on CPU: what `mx.dequantize` gives with scales and biases widened to F32, and what
it gives by itself.
"""

import mlx.core as mx
import numpy as np
import torch
from transformers.integrations.metal_quantization import (
    _affine_dequantize_tensor,
    _affine_quantize_tensor,
)
from transformers.utils.quantization_config import MetalConfig

from common import seed, write_case

LAYER = "model.layers.0.mlp.up_proj"
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
DEFAULTS = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}


def to_mlx(tensor):
    """A torch tensor as an array of MLX, BF16 by way of F32, which holds it exactly."""
    if tensor.dtype == torch.bfloat16:
        return mx.array(tensor.float().numpy()).astype(mx.bfloat16)
    return mx.array(tensor.numpy())


def to_torch(array):
    """An array of MLX as a torch tensor."""
    if array.dtype == mx.bfloat16:
        return torch.from_numpy(np.array(array.astype(mx.float32))).to(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def decoded(parts, **mode):
    """A weight dequantised by MLX: with F32 scales, and natively."""
    words, *companions = [to_mlx(part) for part in parts]
    native = mx.dequantize(words, *companions, **mode)
    if mode.get("mode", "affine") == "affine":
        wide = mx.dequantize(words, *[part.astype(mx.float32) for part in companions], **mode)
    else:
        wide = mx.dequantize(words, *companions, dtype=mx.float32, **mode)
    return to_torch(wide), to_torch(native)


def named(module, parts):
    """The parts of a weight under their names."""
    return {f"{module}.{end}": part for end, part in zip(("weight", "scales", "biases"), parts)}


def quantised(shape, dtype, **mode):
    """A weight that MLX quantises, its first row zeros."""
    source = torch.randn(*shape) * 0.05
    source[..., 0, :] = 0
    return [to_torch(part) for part in mx.quantize(to_mlx(source.to(dtype)), **mode)]


def document(quantization):
    """A config.json as mlx-lm writes it, with the description twice."""
    return {"quantization": quantization, "quantization_config": quantization}


def write(case, modules, quantization, plain=None):
    """Write a case of several modules, each its parts and its mode."""
    tensors, expected, native = dict(plain or {}), {}, {}
    for module, (parts, mode) in modules.items():
        tensors.update(named(module, parts))
        name = f"{module}.weight"
        expected[name], native[name] = decoded(parts, **mode)
    told = document(quantization) if quantization else None
    write_case(
        "mlx", case, tensors, expected, native=native, document=told, metadata={"format": "mlx"}
    )


def affine():
    """Every number of bits, in every group size and with scales of every type."""
    for bits in (1, 2, 3, 4, 5, 6, 8):
        for group, name in ((32, "bf16"), (64, "f16"), (128, "f32")):
            case = f"affine{bits}_g{group}_{name}"
            seed(case)
            mode = {"bits": bits, "group_size": group}
            parts = quantised((3, 2 * group), TYPES[name], **mode)
            write(case, {LAYER: (parts, mode)}, mode)


def random_codes():
    """Codes and scales of any value: NaN, infinite, negative, zero and subnormal ones among them."""
    special = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, -0.5, 1e-39, 3e38, 6e-8]
    for bits in (2, 3, 4, 5, 6, 8):
        for name in ("bf16", "f32", "f16"):
            if (name == "f16") != (bits == 6):
                continue
            case = f"special{bits}_{name}"
            seed(case)
            groups = len(special)
            words = torch.randint(0, 2**32, (2, groups * bits), dtype=torch.int64).to(torch.uint32)
            scales = torch.tensor([special, torch.randn(groups).tolist()]).to(TYPES[name])
            biases = torch.tensor([torch.randn(groups).tolist(), special]).to(TYPES[name])
            mode = {"bits": bits, "group_size": 32, "mode": "affine"}
            write(case, {LAYER: ([words, scales, biases], mode)}, mode)


def float_modes():
    """The modes of floats: quantised weights, and every code with characteristic scales."""
    for mode, (group, bits) in DEFAULTS.items():
        told = {"group_size": group, "bits": bits, "mode": mode}
        case = f"{mode}_quantised"
        seed(case)
        write(case, {LAYER: (quantised((5, 96), torch.bfloat16, **told), told)}, told)
        case = f"{mode}_codes"
        seed(case)
        scales = [0, 1, 2, 7, 8, 126, 127, 128, 129, 200, 252, 253, 254, 255]
        scales = torch.tensor(scales, dtype=torch.uint8).reshape(-1, 1)
        words = torch.randint(0, 2**32, (len(scales), group * bits // 32), dtype=torch.int64)
        write(case, {LAYER: ([words.to(torch.uint32), scales], told)}, told)
        case = f"{mode}_untold"
        seed(case)
        write(case, {LAYER: (quantised((3, 64), torch.float16, **told), told)}, None)
    case = "affine5_untold"
    seed(case)
    mode = {"bits": 5, "group_size": 64}
    write(case, {LAYER: (quantised((3, 192), torch.bfloat16, **mode), mode)}, None)


def mixed():
    """Models with an embedding, experts in a stack, a bias, and rules for single modules."""
    case = "mixed_affine"
    seed(case)
    general = {"group_size": 64, "bits": 4}
    gate, down = {"group_size": 32, "bits": 8}, {"group_size": 64, "bits": 6}
    modules = {
        "model.embed_tokens": (quantised((7, 64), torch.bfloat16, **general), general),
        "model.layers.0.mlp.gate": (quantised((3, 64), torch.bfloat16, **gate), gate),
        "model.layers.0.mlp.switch_mlp.down_proj": (
            quantised((3, 2, 64), torch.bfloat16, **down),
            down,
        ),
        "model.layers.0.self_attn.q_proj": (quantised((2, 128), torch.bfloat16, **general), general),
    }
    plain = {
        "lm_head.weight": torch.randn(7, 8).to(torch.bfloat16),
        "model.layers.0.self_attn.q_proj.bias": torch.randn(2).to(torch.bfloat16),
    }
    quantization = {
        **general,
        "mode": "affine",
        "model.layers.0.mlp.gate": gate,
        "model.layers.0.mlp.switch_mlp.down_proj": {"bits": 6},
        "lm_head": False,
    }
    write(case, modules, quantization, plain)

    # A rule without a mode is affine, regardless of the others.
    case = "mixed_modes"
    seed(case)
    general = {"group_size": 32, "bits": 4, "mode": "mxfp4"}
    router, eight = {"group_size": 64, "bits": 8}, {"group_size": 32, "bits": 8, "mode": "mxfp8"}
    four = {"group_size": 16, "bits": 4, "mode": "nvfp4"}
    modules = {
        "model.layers.0.mlp.experts.gate_proj": (
            quantised((2, 3, 64), torch.bfloat16, **general),
            general,
        ),
        "model.layers.0.mlp.router": (quantised((2, 64), torch.bfloat16, **router), router),
        "model.layers.0.self_attn.k_proj": (quantised((3, 64), torch.bfloat16, **eight), eight),
        "model.layers.0.self_attn.v_proj": (quantised((3, 64), torch.bfloat16, **four), four),
    }
    quantization = {
        **general,
        "model.layers.0.mlp.router": router,
        "model.layers.0.self_attn.k_proj": {"mode": "mxfp8"},
        "model.layers.0.self_attn.v_proj": four,
    }
    write(case, modules, quantization)


def metal():
    """The `metal` method of transformers, stored and dequantised by it."""
    for case, shape, bits, group, dtype in (
        ("metal_4", (5, 128), 4, 64, torch.bfloat16),
        ("metal_2", (3, 96), 2, 48, torch.float16),
        ("metal_8", (2, 40), 8, 20, torch.float32),
    ):
        seed(f"mlx/{case}")
        source = torch.randn(*shape) * 0.05
        source[0] = 0
        words, *companions = _affine_quantize_tensor(source, group, bits)
        scales, biases = (part.to(dtype) for part in companions)
        values = _affine_dequantize_tensor(words, scales, biases, group, bits)
        tensors = {f"{LAYER}.weight": words, f"{LAYER}.scales": scales, f"{LAYER}.qbiases": biases}
        config = MetalConfig(bits=bits, group_size=group).to_dict()
        name = f"{LAYER}.weight"
        config["quant_method"] = config["quant_method"].value
        write_case("mlx", case, tensors, {name: values}, config, {name: values.to(dtype)})


def main():
    affine()
    random_codes()
    float_modes()
    mixed()
    metal()


if __name__ == "__main__":
    main()
