"""GPTQ checkpoints, packed and dequantised by GPTQModel."""

import copy
import os
import sys

import torch

from common import REF, seed, write_case

os.environ.setdefault("GPTQ_TORCH_TRITON_DEQUANT", "0")
sys.path.insert(0, str(REF / "src" / "gptqmodel-7.7.0"))

from gptqmodel.nn_modules.qlinear.torch import TorchLinear  # noqa: E402
from gptqmodel.quantization.config import FORMAT, QuantizeConfig  # noqa: E402
from gptqmodel.quantization.quantizer import Quantizer  # noqa: E402
from gptqmodel.utils.model import (  # noqa: E402
    convert_gptq_v1_to_v2_format_module,
    convert_gptq_v2_to_v1_format_module,
)

LAYER = "model.layers.0.self_attn.q_proj"
FORMATS = {"v1": "gptq", "v2": "gptq_v2", "planar": "gptq_p"}
PARTS = ("qweight", "qzeros", "scales", "g_idx")


def config(bits, group_size, sym, act_order, version):
    """The quantization_config that GPTQModel writes."""
    return {
        "quant_method": "gptq",
        "bits": bits,
        "group_size": group_size,
        "desc_act": act_order,
        "sym": sym,
        "checkpoint_format": FORMATS[version],
        "pack_dtype": "int32",
        "lm_head": False,
        "meta": {"quantizer": ["gptqmodel:7.7.0"]},
    }


def find_parameters(weight, bits, group_size, sym, groups):
    """Scales and zero points of each group, by GPTQModel's quantizer."""
    settings = QuantizeConfig(bits=bits, group_size=group_size, sym=sym, desc_act=False)
    scales = []
    zeros = []
    for group in range(int(groups.max()) + 1):
        finder = Quantizer(qcfg=settings)
        finder.configure(perchannel=True)
        finder.find_params(weight[:, groups == group], weight=True)
        scales.append(finder.scale.reshape(-1, 1))
        zeros.append(finder.zero.reshape(-1, 1))
    return torch.cat(scales, 1), torch.cat(zeros, 1)


def decode(module, bits, version):
    """F32 values [out, in] as GPTQModel gives them after loading the module from a file."""
    loaded = copy.deepcopy(module)
    if version == "v1":
        convert_gptq_v1_to_v2_format_module(loaded, bits, torch.int32)
    native = forget_zeros(copy.deepcopy(loaded)).dequantize_weight()
    loaded.scales = loaded.scales.float()
    values = forget_zeros(loaded).dequantize_weight()
    assert torch.equal(values.to(native.dtype), native)
    return values.T


def forget_zeros(module):
    """Drop the cached unpacked zero points of a module."""
    module._zeros_cache = None
    module._zeros_cache_state = None
    return module


def save(case, module, bits, group_size, sym, act_order, version, parts=PARTS):
    """Write the module and what it decodes to."""
    tensors = {f"{LAYER}.{part}": getattr(module, part) for part in parts}
    if module.bias is not None:
        tensors[f"{LAYER}.bias"] = module.bias
    write_case(
        "gptq",
        case,
        tensors,
        {f"{LAYER}.weight": decode(module, bits, version)},
        config(bits, group_size, sym, act_order, version),
    )


def empty_module(bits, group_size, sym, act_order, inputs, outputs, bias=False, **more):
    """An empty GPTQModel layer."""
    return TorchLinear(
        **more,
        bits=bits,
        group_size=group_size,
        sym=sym,
        desc_act=act_order,
        in_features=inputs,
        out_features=outputs,
        bias=bias,
    ).eval()


def to_v1(module, bits, group_size):
    """The module as a version 1 file holds it."""
    old = copy.deepcopy(module)
    convert_gptq_v2_to_v1_format_module(old, QuantizeConfig(bits=bits, group_size=group_size))
    return old


def quantised(bits, group_size, sym, act_order=False, inputs=32, outputs=32, bias=False):
    """A layer with a random weight, packed by GPTQModel, and the name of its case."""
    name = f"int{bits}_g{group_size if group_size > 0 else 'all'}_{'sym' if sym else 'asym'}"
    if act_order:
        name += "_actorder"
    seed(f"gptq/{name}/{inputs}")
    linear = torch.nn.Linear(inputs, outputs, bias=bias)
    linear.weight.data = torch.randn(outputs, inputs) * 0.05 + (0 if sym else 0.02)
    width = group_size if group_size > 0 else inputs
    groups = torch.arange(inputs, dtype=torch.int32) // width
    if act_order:
        groups = groups[torch.randperm(inputs)].contiguous()
    scales, zeros = find_parameters(linear.weight.data, bits, group_size, sym, groups)
    module = empty_module(bits, group_size, sym, act_order, inputs, outputs, bias)
    module.pack_original(linear, scales, zeros, groups)
    return name, module


def random_words(*shape):
    """Any 32-bit words."""
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int64).to(torch.int32)


def packed_cases():
    """Every bit width, with symmetric and asymmetric zero points, in order and by activation."""
    for bits in (2, 3, 4, 8):
        for sym in (True, False):
            for act_order in (False, True):
                name, module = quantised(bits, 16, sym, act_order)
                save(f"{name}_v2", module, bits, 16, sym, act_order, "v2")
                save(f"{name}_v1", to_v1(module, bits, 16), bits, 16, sym, act_order, "v1")
        name, module = quantised(bits, -1, True)
        save(f"{name}_v1", to_v1(module, bits, -1), bits, -1, True, False, "v1")
        name, module = quantised(bits, -1, False)
        save(f"{name}_v2", module, bits, -1, False, False, "v2")

    name, module = quantised(4, 32, True, True, inputs=64, outputs=40, bias=True)
    save(f"{name}_bias_v1", to_v1(module, 4, 32), 4, 32, True, True, "v1")

    name, module = quantised(4, 64, True, inputs=96)
    save(f"{name}_short_last_group_v1", to_v1(module, 4, 64), 4, 64, True, False, "v1")

    # Files of older tools have no g_idx.
    name, module = quantised(4, 16, False)
    old = to_v1(module, 4, 16)
    save(f"{name}_no_g_idx_v1", old, 4, 16, False, False, "v1", PARTS[:3])
    old.scales = old.scales.to(torch.bfloat16)
    save(f"{name}_bf16_scales_v1", old, 4, 16, False, False, "v1")


def random_cases():
    """Random words, so that every code and zero point occurs, all ones too."""
    for bits in (2, 3, 4, 8):
        for version in ("v1", "v2"):
            case = f"int{bits}_random_{version}"
            seed(f"gptq/{case}")
            module = empty_module(bits, 16, False, False, 32, 32)
            module.qweight = random_words(*module.qweight.shape)
            module.qzeros = random_words(*module.qzeros.shape)
            module.qzeros[0, 0] = -1
            module.qzeros[1] = -1
            module.scales = (torch.rand(module.scales.shape) * 0.01).half()
            save(case, module, bits, 16, False, False, version)


def planar_cases():
    """Codes in planes of bits: random words, in order and by activation."""
    for bits in (2, 3, 4, 5, 6, 7, 8):
        for act_order in (False, True) if bits in (3, 7) else (False,):
            case = f"int{bits}_random{'_actorder' if act_order else ''}_planar"
            seed(f"gptq/{case}")
            module = empty_module(bits, 16, False, act_order, 64, 32, format=FORMAT.GPTQ_P)
            module.qweight = random_words(*module.qweight.shape)
            module.qzeros = random_words(*module.qzeros.shape)
            module.scales = (torch.rand(module.scales.shape) * 0.01).half()
            if act_order:
                module.g_idx = module.g_idx[torch.randperm(64)].contiguous()
            save(case, module, bits, 16, False, act_order, "planar")


def main():
    packed_cases()
    random_cases()
    planar_cases()


if __name__ == "__main__":
    main()
