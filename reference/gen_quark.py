"""Checkpoints of Quark: quantised, exported and dequantised by it, on CPU."""

import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from common import REF, seed, write_case

sys.path.insert(0, str(REF / "quark"))

import quark.torch.kernel  # noqa: E402
from quark.torch import ModelQuantizer, export_safetensors  # noqa: E402
from quark.torch.quantization.config import config as quark_config  # noqa: E402
from quark.torch.utils.pack import create_pack_method  # noqa: E402

LAYER = "model.layers.0.mlp.down_proj"
ROUNDED = {"scale_type": "float", "round_method": "half_even", "is_dynamic": False}


def tiny():
    """A small model, of which one layer is kept."""
    shape = LlamaConfig(
        vocab_size=16,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(shape).to(torch.bfloat16)


def exported(spec):
    """Tensors and quantization_config as Quark writes them."""
    layer = quark_config.QLayerConfig(weight=spec)
    settings = quark_config.QConfig(global_quant_config=layer, exclude=["lm_head"])
    quantizer = ModelQuantizer(settings)
    model = quantizer.freeze(quantizer.quantize_model(tiny()))
    with tempfile.TemporaryDirectory() as directory:
        export_safetensors(model, directory)
        tensors = load_file(Path(directory) / "model.safetensors")
        config = json.loads((Path(directory) / "config.json").read_text())
    return tensors, config["quantization_config"]


def decode(tensors, told):
    """F32 values as Quark computes them from what it has stored."""
    codes = tensors[f"{LAYER}.weight"]
    scale = tensors[f"{LAYER}.weight_scale"]
    zeros = tensors.get(f"{LAYER}.weight_zero_point")
    packing = create_pack_method(told["qscheme"], told["dtype"], None)
    if told["dtype"] == "fp4":
        scale = 2 ** (scale.to(torch.int16) - 127).to(torch.float32)
    elif told["dtype"] in ("int4", "uint4"):
        zeros = packing.unpack(zeros, True, origin_packed_axis_size=scale.shape[-1])
        codes = packing.unpack(codes, True, origin_packed_axis_size=scale.shape[-1])
        scale = scale.t().contiguous()
    if told["dtype"] in ("fp4", "int8", "uint8"):
        codes = packing.unpack(codes, True)
    return quark.torch.kernel.dequantize(
        told["dtype"], codes, scale, zeros, told["ch_axis"], told["group_size"], told["qscheme"]
    )


def main():
    group = {**ROUNDED, "ch_axis": 1, "group_size": 16}
    row = {**ROUNDED, "ch_axis": 0}
    specs = {
        "mxfp4": quark_config.OCP_MXFP4Spec(ch_axis=-1, is_dynamic=False),
        "uint4_g16": quark_config.Uint4PerGroupSpec(symmetric=False, **group),
        "int4_g16": quark_config.Int4PerGroupSpec(symmetric=True, **group),
        "int8_rows": quark_config.Int8PerChannelSpec(symmetric=True, **row),
        "int8_rows_asym": quark_config.Int8PerChannelSpec(symmetric=False, **row),
        "int8_tensor": quark_config.Int8PerTensorSpec(
            observer_method="min_max", symmetric=True, **ROUNDED
        ),
        "fp8_tensor": quark_config.FP8E4M3PerTensorSpec(observer_method="min_max", is_dynamic=False),
        "fp8_rows": quark_config.FP8E4M3PerChannelSpec(ch_axis=0, is_dynamic=False),
    }
    for case, spec in specs.items():
        seed(f"quark/{case}")
        torch.set_grad_enabled(False)
        tensors, config = exported(spec.to_quantization_spec())
        told = config["global_quant_config"]["weight"]
        kept = {name: part for name, part in tensors.items() if name.startswith(LAYER)}
        expected = {f"{LAYER}.weight": decode(tensors, told).float()}
        write_case("quark", case, kept, expected, config)


if __name__ == "__main__":
    main()
