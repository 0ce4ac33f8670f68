"""AutoRound checkpoints in each of its packings, quantised, packed, described and dequantised by AutoRound."""

import copy
from types import SimpleNamespace
from unittest import mock

import torch
from auto_round.data_type.int import quant_tensor_asym, quant_tensor_sym
from auto_round.export.export_to_autoround.export import save_quantized_as_autoround
from auto_round.export.export_to_awq.export import pack_layer as pack_awq_layer
from auto_round.export.export_to_awq.utils import dequantize_gemm

from common import seed, write_case

BLOCK = "model.layers"
LAYERS = ("model.layers.0.q_proj", "model.layers.0.o_proj")
GROUP_SIZE = 16
SIZE = 32


class Model(torch.nn.Module):
    """Layers with the names of a real model, and a configuration to write into."""

    def __init__(self, names):
        super().__init__()
        self.config = SimpleNamespace()
        self.device = torch.device("cpu")
        layer = torch.nn.Module()
        for name in names:
            setattr(layer, name.rsplit(".", 1)[1], torch.nn.Linear(SIZE, SIZE, bias=False))
        self.model = torch.nn.Module()
        self.model.layers = torch.nn.ModuleList([layer])
        self.model.norm = torch.nn.LayerNorm(SIZE, bias=False)


def quantise(linear, bits, sym):
    """Give a layer the attributes that AutoRound's own quantiser leaves on it."""
    quantiser = quant_tensor_sym if sym else quant_tensor_asym
    weight, scale, zero = quantiser(linear.weight.data, bits=bits, group_size=GROUP_SIZE)
    linear.weight.data = weight.reshape(SIZE, SIZE)
    linear.scale = scale.reshape(SIZE, -1)
    linear.zp = zero.reshape(SIZE, -1) if isinstance(zero, torch.Tensor) else zero
    linear.bits, linear.group_size, linear.sym, linear.act_bits = bits, GROUP_SIZE, sym, 16


def decode(module):
    """F32 values [out, in] as AutoRound computes them."""
    if hasattr(module, "w_bit"):
        scales = module.scales.float()
        return dequantize_gemm(module.qweight, module.qzeros, scales, module.w_bit, module.group_size).T
    loaded = copy.deepcopy(module)
    loaded.scales = loaded.scales.float()
    with mock.patch("torch.matmul", wraps=torch.matmul) as product:
        loaded(torch.eye(SIZE))
    return product.call_args.args[1].T


def export(case, packing, widths, sym, is_old=False):
    """Quantise a layer for each width, export them in one packing, and write what they decode to."""
    seed(f"autoround/{case}")
    names = LAYERS[: len(widths)]
    model = Model(names)
    layer_config = {}
    for name, bits in zip(names, widths):
        linear = model.get_submodule(name)
        linear.weight.data = torch.randn(SIZE, SIZE) * 0.05 + (0 if sym else 0.04)
        quantise(linear, bits, sym)
        if "awq" in packing:
            # Like the export: layers that are already packed are only described.
            pack_awq_layer(name, model, packing)
        layer_config[name] = {"bits": bits, "group_size": GROUP_SIZE, "sym": sym, "in_blocks": True}
    settings = {
        "bits": widths[0],
        "group_size": GROUP_SIZE,
        "sym": sym,
        "data_type": "int",
        "to_quant_block_names": BLOCK,
        "regex_config": None,
        "autoround_version": "0.16.1",
    }
    save_quantized_as_autoround(
        None, model, layer_config=layer_config, backend=packing, serialization_dict=settings
    )
    config = model.config.quantization_config
    if is_old:
        config["quant_method"] = "intel/auto-round"
        config["backend"] = config.pop("packing_format")
    tensors = {"model.norm.weight": model.model.norm.weight.half()}
    expected = {}
    for name in names:
        module = model.get_submodule(name)
        parts = module.state_dict()
        tensors.update({f"{name}.{part}": parts[part] for part in parts})
        expected[f"{name}.weight"] = decode(module)
    write_case("autoround", case, tensors, expected, config)


def main():
    # Asymmetric weights: only the packing determines the zero-point format.
    for packing in ("auto_round", "auto_round:exllamav2", "auto_round:gptqmodel", "auto_round:auto_gptq"):
        for bits in (2, 3, 4, 8):
            case = f"{packing.replace('auto_round:', '')}_int{bits}_asym"
            export(case, packing, [bits], False)
    # Symmetric ones, whose packing AutoRound renames.
    for bits in (2, 3, 4, 8):
        export(f"auto_round_int{bits}_sym", "auto_round", [bits], True)
    export("exllamav2_int4_sym", "auto_round:exllamav2", [4], True)
    export("gptq_int4_asym", "auto_round:gptq", [4], False)
    export("auto_awq_int4_asym", "auto_round:auto_awq", [4], False)
    export("auto_awq_int4_sym", "auto_round:auto_awq", [4], True)
    # One layer with another width.
    export("mixed_int4_int8_asym", "auto_round", [4, 8], False)
    # Older versions use another key.
    export("old_exllamav2_int4_asym", "auto_round:exllamav2", [4], False, is_old=True)
    export("old_auto_gptq_int4_asym", "auto_round:auto_gptq", [4], False, is_old=True)


if __name__ == "__main__":
    main()
