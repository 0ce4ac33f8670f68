"""torchao checkpoints: flattened tensor subclasses, with their descriptions in the metadata.

The expected values are the library's own, in the type that the description says.
"""

import torch
from torchao.prototype.mx_formats.mx_tensor import MXTensor
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
from torchao.quantization import (
    Float8Tensor,
    Int8Tensor,
    IntxUnpackedToInt8Tensor,
    MappingType,
    PerBlock,
    PerRow,
    PerTensor,
)

from common import seed, write_case

LAYER = "model.layers.0.mlp.down_proj"
WEIGHT = f"{LAYER}.weight"
FP4 = torch.float4_e2m1fn_x2


def source(*shape, dtype=torch.bfloat16):
    """A weight with a row of zeros and one of small values."""
    weight = torch.randn(*shape) * 0.05
    weight[..., 0, :] = 0
    weight[..., 1, :] *= 1e-3
    return weight.to(dtype)


def case(name, make):
    """Write one tensor, and a bias with one value per row."""
    seed(name)
    made = make()
    state = {WEIGHT: made, f"{LAYER}.bias": torch.randn(made.shape[:-1]).to(torch.bfloat16)}
    tensors, metadata = flatten_tensor_state_dict(state)
    decoded = made.dequantize()
    config = {"quant_method": "torchao", "quant_type": {"default": {"_type": name, "_data": {}}}}
    write_case("torchao", name, tensors, {WEIGHT: decoded.float()}, config, {WEIGHT: decoded}, metadata=metadata)


def float8():
    """Eight-bit floats with a scale per row, per tensor, or per block."""
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    for name, dtype in types.items():
        case(f"float8_row_{name}", lambda: Float8Tensor.from_hp(source(4, 40, dtype=dtype)))
    case(
        "float8_e5m2_tensor",
        lambda: Float8Tensor.from_hp(source(4, 40), torch.float8_e5m2, granularity=PerTensor()),
    )
    case(
        "float8_block",
        lambda: Float8Tensor.from_hp(source(4, 48), granularity=PerBlock([2, 16])),
    )
    case("float8_stack", lambda: Float8Tensor.from_hp(source(3, 4, 16), granularity=PerRow()))


def integers():
    """Integers of eight bits and less, each in a byte."""
    case("int8_row", lambda: Int8Tensor.from_hp(source(4, 40), PerRow()))
    case("int8_tensor_f32", lambda: Int8Tensor.from_hp(source(4, 40, dtype=torch.float32), PerTensor()))
    case("int8_row_f16", lambda: Int8Tensor.from_hp(source(5, 33, dtype=torch.float16), PerRow()))
    for bits in (1, 3, 4, 8):
        kind = getattr(torch, f"int{bits}")
        case(f"int{bits}_groups", lambda: IntxUnpackedToInt8Tensor.from_hp(source(4, 48), (1, 16), kind))
    case(
        "int4_groups_asymmetric",
        lambda: IntxUnpackedToInt8Tensor.from_hp(
            source(4, 48, dtype=torch.float16),
            (1, 16),
            torch.int4,
            mapping_type=MappingType.ASYMMETRIC,
        ),
    )


def microscaling():
    """Blocks under a power of two, and blocks under two scales."""
    for name, kind in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2), ("e2m1", FP4)):
        case(f"mx_{name}", lambda: MXTensor.to_mx(source(4, 64), kind, 32))
    case("mx_e2m1_f32", lambda: MXTensor.to_mx(source(4, 64, dtype=torch.float32), FP4, 32))
    case(
        "mx_e4m3_swizzled",
        lambda: MXTensor.to_mx(source(4, 160), torch.float8_e4m3fn, 32, is_swizzled_scales=True),
    )

    def nvfp4(*shape, whole=True, dtype=torch.bfloat16, **how):
        weight = source(*shape, dtype=dtype)
        scale = per_tensor_amax_to_scale(weight.abs().max()) if whole else None
        return NVFP4Tensor.to_nvfp4(weight, per_tensor_scale=scale, **how)

    case("nvfp4", lambda: nvfp4(4, 48))
    case("nvfp4_one_scale", lambda: nvfp4(4, 48, whole=False))
    case("nvfp4_f32", lambda: nvfp4(4, 48, dtype=torch.float32))
    case("nvfp4_swizzled", lambda: nvfp4(4, 80, is_swizzled_scales=True))
    # More than a tile of scales in both dimensions.
    case("nvfp4_swizzled_tiles", lambda: nvfp4(131, 80, is_swizzled_scales=True))


def main():
    float8()
    integers()
    microscaling()


if __name__ == "__main__":
    main()
