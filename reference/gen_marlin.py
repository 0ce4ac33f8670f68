"""Marlin checkpoints, packed by AutoGPTQ and AutoAWQ; both dequantise the same codes in their other layouts."""

import importlib.util
from types import SimpleNamespace

import torch
from awq.modules.linear.gemm import WQLinear_GEMM
from awq.modules.linear.marlin import WQLinear_Marlin
from awq.utils.packing_utils import dequantize_gemm

from common import REF, seed, write_case

LAYER = "model.layers.0.mlp.gate_proj"
AUTO_GPTQ = REF / "auto_gptq" / "auto_gptq" / "nn_modules" / "qlinear"
# Zero points of 7, which is 8 in the first GPTQ format.
SEVEN_EVERYWHERE = 0x77777777


def auto_gptq_marlin():
    """The module of AutoGPTQ that packs, without the rest of the package."""
    spec = importlib.util.spec_from_file_location("qlinear_marlin", AUTO_GPTQ / "qlinear_marlin.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MARLIN = auto_gptq_marlin()


def gptq_config(group_size, **more):
    """The quantization_config that AutoGPTQ writes."""
    return {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": group_size,
        "damp_percent": 0.01,
        "desc_act": False,
        "static_groups": False,
        "sym": True,
        "true_sequential": True,
        **more,
    }


def random_words(*shape):
    """Any 32-bit words."""
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int64).to(torch.int32)


def random_scales(groups, outputs):
    """Scales of different sizes."""
    return (torch.rand(groups, outputs) * 0.02 + 1e-4).half()


def gptq_layer(inputs, outputs, group_size, scales):
    """A GPTQ layer of random codes, and its values with F32 and with F16 scales."""
    qweight = random_words(inputs // 8, outputs)
    groups = inputs // group_size
    qzeros = torch.full((groups, outputs // 8), SEVEN_EVERYWHERE, dtype=torch.int32)
    layers = [
        SimpleNamespace(qweight=qweight, qzeros=qzeros, scales=kind, group_size=group_size)
        for kind in (scales.float(), scales)
    ]
    return [MARLIN.dequantize_weight(layer)[0] for layer in layers]


def packed(inputs, outputs, group_size, weight, scales, bias):
    """AutoGPTQ's Marlin layer. Its constructor wants a GPU, its packer does not."""
    layer = MARLIN.QuantLinear.__new__(MARLIN.QuantLinear)
    torch.nn.Module.__init__(layer)
    layer.infeatures = inputs
    layer.outfeatures = outputs
    layer.group_size = group_size
    layer.B = torch.empty((inputs // 16, outputs * 16 // 8), dtype=torch.int)
    layer.s = torch.empty((inputs // group_size, outputs), dtype=torch.half)
    layer.bias = None if bias is None else torch.zeros(outputs, dtype=torch.half)
    linear = torch.nn.Linear(inputs, outputs, bias=bias is not None).half()
    linear.weight.data = weight.contiguous()
    if bias is not None:
        linear.bias.data = bias
    layer.pack(linear, scales.t())
    return layer


def gptq_case(case, inputs, outputs, group_size, config, with_bias=False):
    """One layer as AutoGPTQ stores it."""
    seed(f"marlin/{case}")
    width = inputs if group_size == -1 else group_size
    scales = random_scales(inputs // width, outputs)
    values, halves = gptq_layer(inputs, outputs, width, scales)
    bias = torch.randn(outputs).half() if with_bias else None
    layer = packed(inputs, outputs, width, halves, scales, bias)
    tensors = {f"{LAYER}.B": layer.B, f"{LAYER}.s": layer.s}
    if bias is not None:
        tensors[f"{LAYER}.bias"] = layer.bias
    native = {f"{LAYER}.weight": halves}
    write_case("marlin", case, tensors, {f"{LAYER}.weight": values}, config, native)


def awq_case(case, inputs, outputs, group_size):
    """One layer as AutoAWQ stores it."""
    seed(f"marlin/{case}")
    width = inputs if group_size == -1 else group_size
    groups = inputs // width
    scales = random_scales(groups, outputs)
    codes = torch.randint(0, 16, (outputs, inputs))
    linear = torch.nn.Linear(inputs, outputs, bias=False).half()
    wide = scales.t().repeat_interleave(width, dim=1)
    linear.weight.data = ((codes - 8) * wide).half()
    zeros = torch.full((groups, outputs), 8.0).half()
    gemm = WQLinear_GEMM.from_linear(linear, 4, width, scales=scales, zeros=zeros)
    values = dequantize_gemm(gemm.qweight, gemm.qzeros, gemm.scales.float(), 4, width).T
    native = dequantize_gemm(gemm.qweight, gemm.qzeros, gemm.scales, 4, width).T
    made = WQLinear_Marlin.from_linear(linear, 4, width, scales=scales.t())
    config = {
        "quant_method": "awq",
        "bits": 4,
        "group_size": group_size,
        "version": "marlin",
        "zero_point": False,
        "modules_to_not_convert": None,
    }
    tensors = {f"{LAYER}.qweight": made.qweight, f"{LAYER}.scales": made.scales}
    name = f"{LAYER}.weight"
    write_case("marlin", case, tensors, {name: values}, config, {name: native})


def main():
    told = {"checkpoint_format": "marlin"}
    gptq_case("gptq_g16", 48, 64, 16, gptq_config(16, **told))
    gptq_case("gptq_one_group", 32, 128, -1, gptq_config(-1, **told), with_bias=True)
    gptq_case("gptq_flag", 32, 64, 16, gptq_config(16, is_marlin_format=True))
    gptq_case("gptq_method", 16, 64, -1, {**gptq_config(-1), "quant_method": "marlin"})
    gptq_case("gptq_many_tiles", 144, 64, 48, gptq_config(48, **told))
    gptq_case("gptq_no_config", 32, 64, 16, None)
    awq_case("awq_g16", 32, 128, 16)
    awq_case("awq_one_group", 32, 64, -1)


if __name__ == "__main__":
    main()
