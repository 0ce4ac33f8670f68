"""HQQ checkpoints: every packing, both axes, and the entries that its state_dict consists of.

The F32 values are what the library calculates where scales and zeros are widened first.
"""

import torch
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer

from common import seed, write_case

LAYER = "model.layers.0.self_attn.q_proj"
WEIGHT = f"{LAYER}.weight"


def config_of(bits, group, axis, flat=False):
    """The quantization_config: as transformers writes it, or the bare options."""
    if flat:
        return {"quant_method": "hqq", "nbits": bits, "group_size": group, "axis": axis}
    params = {"nbits": bits, "group_size": group, "axis": axis, "channel_wise": True}
    quant_config = {"weight_quant_params": params, "scale_quant_params": None}
    return {"quant_method": "hqq", "quant_config": quant_config, "skip_modules": ["lm_head"]}


def widened(meta):
    """The description of a weight with all its numbers in F32."""
    wide = {
        key: value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for key, value in meta.items()
    }
    return {**wide, "compute_dtype": torch.float32}


def case(name, bits, axis, group, shape, dtype=torch.float16, config="nested", **more):
    """Quantise a weight with the library and write what its state_dict holds."""
    seed(name)
    source = torch.randn(*shape) * 0.05
    source[0] = 0
    linear = torch.nn.Linear(shape[1], shape[0], bias=more.pop("bias", False))
    linear.weight.data = source
    quantize = BaseQuantizeConfig(nbits=bits, group_size=group, axis=axis, **more)
    made = HQQLinear(linear, quantize, compute_dtype=dtype, device="cpu", del_orig=False)
    tensors = {f"{LAYER}.{key}": value for key, value in made.state_dict().items()}
    tensors["lm_head.weight"] = (torch.randn(4, 8) * 0.05).to(torch.bfloat16)
    decoded = Quantizer.dequantize(made.W_q.data, widened(made.meta))
    stated = made.meta["group_size"]
    configs = {"nested": config_of(bits, stated, axis), "flat": config_of(bits, stated, axis, True)}
    configs["tagged"] = {
        "quant_method": "hqq",
        "quant_config": {"self_attn.q_proj": configs["nested"]["quant_config"]},
        "skip_modules": ["lm_head"],
    }
    write_case(
        "hqq",
        name,
        tensors,
        {WEIGHT: decoded},
        configs.get(config),
        {WEIGHT: made.dequantize()},
    )


def main():
    for bits in (8, 4, 3, 2, 1):
        for axis in (0, 1):
            case(f"int{bits}_axis{axis}", bits, axis, 16, (24, 32))
    case("int4_axis0_bf16", 4, 0, 8, (12, 40), torch.bfloat16)
    case("int4_axis1_f32", 4, 1, 8, (12, 40), torch.float32)
    # Groups larger than a row, across rows, or exactly a row.
    case("int3_axis1_over_rows", 3, 1, 24, (9, 16))
    case("int2_axis1_odd_rows", 2, 1, None, (8, 21))
    case("int1_axis1_odd_rows", 1, 1, None, (16, 15))
    case("int3_axis1_odd_rows", 3, 1, None, (13, 21))
    case("int3_axis0_odd_columns", 3, 0, None, (13, 21))
    case("int4_axis0_columns", 4, 0, None, (6, 10))
    case("int6_axis1", 6, 1, 16, (4, 32))
    case("int4_view_as_float", 4, 1, 16, (8, 32), torch.bfloat16, view_as_float=True)
    case("int3_view_as_float", 3, 0, 16, (8, 40), torch.float16, view_as_float=True)
    case("int4_bias", 4, 1, 16, (8, 32), torch.bfloat16, bias=True)
    case("int4_flat_configuration", 4, 1, 16, (8, 32), config="flat")
    case("int2_tagged_configuration", 2, 0, 16, (8, 32), config="tagged")


if __name__ == "__main__":
    main()
