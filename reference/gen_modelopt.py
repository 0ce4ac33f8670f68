"""ModelOpt checkpoints of four-bit floats: NVFP4 and MXFP4, single, stacked and mixed.

The oracle is ModelOpt's own `dequantize`. Its eight-bit floats are among the fixtures of fp8.
"""

import torch
from modelopt.torch.export.convert_hf_config import convert_hf_quant_config_format
from modelopt.torch.export.quant_utils import process_layer_quant_config, to_quantized_weight
from modelopt.torch.quantization.qtensor.fp8_tensor import FP8QTensor
from modelopt.torch.quantization.qtensor.mxfp4_tensor import MXFP4QTensor
from modelopt.torch.quantization.qtensor.mxfp8_tensor import MXFP8QTensor
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

from common import seed, write_case

E4M3 = torch.float8_e4m3fn
LAYER = "model.layers.0.self_attn.q_proj"
EXPERTS = "model.layers.0.mlp.experts"
PRODUCER = {"name": "modelopt", "version": "0.47.0"}


def config(quantization):
    """The quantization_config that ModelOpt puts into config.json."""
    quantization.setdefault("exclude_modules", ["lm_head"])
    return convert_hf_quant_config_format({"producer": PRODUCER, "quantization": quantization})


def algorithm(name, group):
    """The process_layer_quant_config of a model in one format."""
    layers = {f"{LAYER}.quantization": name, f"{LAYER}.awq_block_size": group}
    return {**process_layer_quant_config(layers), "exclude_modules": ["lm_head"]}


def random_weight(*shape):
    """A weight whose first row is zeros."""
    weight = torch.randn(*shape) * 0.05
    weight[..., 0, :] = 0
    return weight


def nvfp4(codes, scales, whole, group=16):
    """An NVFP4 weight dequantised by ModelOpt."""
    shape = torch.Size((*codes.shape[:-1], codes.shape[-1] * 2))
    if whole.dim():
        whole = whole.view(-1, 1, 1)
    options = {"scale": scales, "double_scale": whole, "block_sizes": {-1: group}}
    return NVFP4QTensor(shape, torch.float32, codes).dequantize(dtype=torch.float32, **options)


def quantised(*shape, group=16):
    """Codes, block scales and global scale computed by ModelOpt."""
    made, scales, whole = NVFP4QTensor.quantize(random_weight(*shape), group)
    return made._quantized_data, scales, whole


def single():
    """One weight, as quantised and with every code under every kind of scale."""
    for name, shape, told in (
        ("nvfp4", (5, 96), "nvfp4"),
        ("nvfp4_wide", (2, 272), "nvfp4"),
        ("w4a16_nvfp4", (3, 48), "w4a16_nvfp4"),
        ("w4a8_nvfp4_fp8", (3, 48), "w4a8_nvfp4_fp8"),
        ("nvfp4_awq_fused", (3, 48), "nvfp4_awq"),
        ("nvfp4_untold", (7, 16), None),
    ):
        seed(name)
        codes, scales, whole = quantised(*shape)
        tensors = {
            f"{LAYER}.weight": codes,
            f"{LAYER}.weight_scale": scales,
            f"{LAYER}.weight_scale_2": whole,
            f"{LAYER}.bias": torch.randn(shape[0]).to(torch.bfloat16),
            "lm_head.weight": torch.randn(4, 8).to(torch.bfloat16),
        }
        if name == "nvfp4":
            tensors[f"{LAYER}.input_scale"] = torch.tensor(0.0125)
        write_case(
            "modelopt",
            name,
            tensors,
            {f"{LAYER}.weight": nvfp4(codes, scales, whole)},
            config(algorithm(told, 16)) if told else None,
        )

    name = "nvfp4_codes"
    seed(name)
    codes = torch.arange(256, dtype=torch.uint8).repeat(3, 1)
    scales = torch.randint(0, 256, (3, 32), dtype=torch.uint8)
    scales[0] = torch.tensor([0x00, 0x01, 0x7E, 0x7F, 0x80, 0xFE, 0xFF, 0x38] * 4)
    scales = scales.view(E4M3)
    whole = torch.tensor(0.000371)
    write_case(
        "modelopt",
        name,
        {
            f"{LAYER}.weight": codes,
            f"{LAYER}.weight_scale": scales,
            f"{LAYER}.weight_scale_2": whole,
        },
        {f"{LAYER}.weight": nvfp4(codes, scales, whole)},
        config(algorithm("nvfp4", 16)),
    )

    # A product of scales that F32 has to round, an infinite and a subnormal one.
    for name, value in (("rounded", 1.1e-3), ("infinite", float("inf")), ("subnormal", 1e-42)):
        case = f"nvfp4_scale_{name}"
        seed(case)
        codes, scales, _ = quantised(3, 64)
        whole = torch.tensor([value])
        write_case(
            "modelopt",
            case,
            {
                f"{LAYER}.weight": codes,
                f"{LAYER}.weight_scale": scales,
                f"{LAYER}.weight_scale_2": whole,
            },
            {f"{LAYER}.weight": nvfp4(codes, scales, whole[0])},
            config(algorithm("nvfp4", 16)),
        )


def stacks():
    """Experts in one parameter, in either direction, with one global scale or one per expert."""
    for name, is_turned, is_single in (
        ("experts", False, False),
        ("experts_one_scale", False, True),
        ("experts_turned", True, False),
        ("experts_turned_one_scale", True, True),
    ):
        seed(name)
        tensors, expected = {}, {}
        for parameter, shape in (("gate_up_proj", (3, 6, 32)), ("down_proj", (3, 5, 48))):
            weight = random_weight(*shape)
            whole = weight.abs().amax((1, 2)) / (6 * 448)
            if is_single:
                whole = whole.amax()
            spread = whole if is_single else whole.view(-1, 1, 1)
            made, scales, _ = NVFP4QTensor.quantize(weight, 16, weights_scaling_factor_2=spread)
            codes = made._quantized_data
            decoded = nvfp4(codes, scales, whole)
            if is_turned:
                turned = (part.transpose(-2, -1) for part in (codes, scales.view(torch.uint8), decoded))
                codes, scales, decoded = (part.contiguous() for part in turned)
                scales = scales.view(E4M3)
            prefix = f"{EXPERTS}.{parameter}"
            tensors[prefix] = codes
            tensors[f"{prefix}_weight_scale"] = scales
            tensors[f"{prefix}_weight_scale_2"] = whole
            tensors[f"{prefix}_input_scale"] = torch.tensor(0.25)
            expected[prefix] = decoded
        write_case("modelopt", name, tensors, expected, config(algorithm("nvfp4", 16)))


def other_formats():
    """MXFP4 and MXFP8."""
    case = "mxfp4"
    seed(case)
    made, scales = MXFP4QTensor.quantize(random_weight(5, 96) + 1e-9, 32)
    codes = made._quantized_data
    scales = scales.reshape(5, 3)
    scales[1] = torch.tensor([0, 255, 254])
    scales[2] = torch.tensor([1, 127, 200])
    decoded = made.dequantize(dtype=torch.float32, scale=scales, block_sizes={-1: 32})
    write_case(
        "modelopt",
        case,
        {f"{LAYER}.weight": codes, f"{LAYER}.weight_scale": scales},
        {f"{LAYER}.weight": decoded},
        config(algorithm("w4a8_mxfp4_fp8", 32)),
    )

    case = "mxfp8"
    seed(case)
    made, scales = MXFP8QTensor.quantize(random_weight(5, 96))
    decoded = made.dequantize(dtype=torch.float32, scale=scales)
    write_case(
        "modelopt",
        case,
        {f"{LAYER}.weight": made._quantized_data, f"{LAYER}.weight_scale": scales},
        {f"{LAYER}.weight": decoded},
        config(algorithm("mxfp8", 32)),
    )


def mixed():
    """A model of several formats, configured per layer."""
    case = "mixed_precision"
    seed(case)
    up, gate, down = (f"model.layers.0.mlp.{name}" for name in ("up_proj", "gate_proj", "down_proj"))
    codes, scales, whole = quantised(4, 32)
    eight, one = FP8QTensor.quantize(random_weight(4, 32))
    micro, exponents = MXFP8QTensor.quantize(random_weight(4, 64))
    tensors = {
        f"{up}.weight": codes,
        f"{up}.weight_scale": scales,
        f"{up}.weight_scale_2": whole,
        f"{up}.input_scale": torch.tensor(0.5),
        f"{gate}.weight": eight._quantized_data,
        f"{gate}.weight_scale": one.float(),
        f"{gate}.input_scale": torch.tensor(0.5),
        f"{down}.weight": micro._quantized_data,
        f"{down}.weight_scale": exponents,
        "lm_head.weight": torch.randn(4, 8).to(torch.bfloat16),
    }
    expected = {
        f"{up}.weight": nvfp4(codes, scales, whole),
        f"{gate}.weight": eight.dequantize(dtype=torch.float32, scale=one.float()),
        f"{down}.weight": micro.dequantize(dtype=torch.float32, scale=exponents),
    }
    layers = {}
    for module, name, group in ((up, "nvfp4", 16), (gate, "fp8", 0), (down, "mxfp8", 32)):
        layers[f"{module}.quantization"] = name
        layers[f"{module}.awq_block_size"] = group
    write_case("modelopt", case, tensors, expected, config(process_layer_quant_config(layers)))


def int4():
    """Integers of W4A16_AWQ. The packed values are exactly representable by codes and scales."""
    for case, shape, group in (("w4a16_awq", (6, 96), 32), ("w4a16_awq_g128", (4, 256), 128)):
        seed(case)
        scales = torch.rand(shape[0], shape[1] // group) * 0.01 + 1e-4
        codes = torch.randint(-8, 8, shape)
        weight = codes.float() * scales.repeat_interleave(group, dim=1)
        packed = to_quantized_weight(weight, scales, "int4_awq", block_size=group)
        tensors = {f"{LAYER}.weight": packed, f"{LAYER}.weight_scale": scales}
        told = algorithm("int4_awq", group)
        write_case("modelopt", case, tensors, {f"{LAYER}.weight": weight}, config(told))


def main():
    single()
    stacks()
    other_formats()
    mixed()
    int4()


if __name__ == "__main__":
    main()
