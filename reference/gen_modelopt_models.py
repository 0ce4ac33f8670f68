"""Whole models of two formats, one per layer, quantised and exported by ModelOpt: FP8 attention or state spaces, NVFP4
feed-forward layers, FP8 caches.

Quantised with `mtq.quantize` and written with `export_hf_checkpoint`, as the published models are. The oracle is
ModelOpt's own `dequantize` of the exported tensors.
"""

import json
import re
import tempfile
from copy import deepcopy
from pathlib import Path

import modelopt.torch.quantization as mtq
import torch
import transformers
from modelopt.torch.export import export_hf_checkpoint
from modelopt.torch.quantization.qtensor.fp8_tensor import FP8QTensor
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor
from safetensors.torch import load_file

from common import seed, write_case

FP8 = {"num_bits": (4, 3), "axis": None}
TINY = {"vocab_size": 64, "max_position_embeddings": 64, "hidden_size": 32}


def llama():
    """Attention in FP8, feed-forward layers in NVFP4, the first down_proj kept, a cache in FP8."""
    config = transformers.LlamaConfig(
        **TINY,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
    )
    return transformers.LlamaForCausalLM(config), ["*self_attn*"], "*layers.0.mlp.down_proj*"


def nemotron():
    """State spaces and attention in FP8, feed-forward layers in NVFP4, the first of them kept."""
    config = transformers.NemotronHConfig(
        **TINY,
        layers_block_type=["mamba", "mlp", "attention", "mlp"],
        intermediate_size=48,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        ssm_state_size=16,
        mamba_num_heads=4,
        mamba_head_dim=16,
        n_groups=2,
        conv_kernel=4,
    )
    eight_bit = ["*mixer.in_proj*", "*mixer.out_proj*", "*layers.2*"]
    return transformers.NemotronHForCausalLM(config), eight_bit, "*layers.1.*"


def quantise(model, eight_bit, kept):
    """Quantises a model to NVFP4, some modules to FP8, and keeps others."""
    config = deepcopy(mtq.NVFP4_DEFAULT_CFG)
    rules = config["quant_cfg"]
    for pattern in eight_bit:
        for kind in ("weight", "input"):
            rules.append({"quantizer_name": f"{pattern}{kind}_quantizer", "cfg": FP8})
    rules.extend(mtq.FP8_KV_CFG["quant_cfg"])
    rules.append({"quantizer_name": "*conv1d*", "enable": False})
    rules.append({"quantizer_name": kept, "enable": False})
    tokens = torch.randint(0, TINY["vocab_size"], (2, 16))
    return mtq.quantize(model, config, forward_loop=lambda model: model(tokens))


def decoded(tensors):
    """The weights of an exported model, by ModelOpt's `dequantize`."""
    weights = {}
    for name, codes in tensors.items():
        scale = tensors.get(f"{name}_scale")
        if scale is None:
            continue
        if codes.dtype == torch.float8_e4m3fn:
            made = FP8QTensor(codes.shape, torch.float32, codes)
            weights[name] = made.dequantize(dtype=torch.float32, scale=scale.float())
        else:
            shape = torch.Size((*codes.shape[:-1], codes.shape[-1] * 2))
            made = NVFP4QTensor(shape, torch.float32, codes)
            options = {"scale": scale, "double_scale": tensors[f"{name}_scale_2"], "block_sizes": {-1: 16}}
            weights[name] = made.dequantize(dtype=torch.float32, **options)
    return weights


def main():
    for case, build in (("model_llama_mixed", llama), ("model_nemotron_mixed", nemotron)):
        seed(case)
        model, eight_bit, kept = build()
        model.config.architectures = [type(model).__name__]
        model = quantise(model.to(torch.bfloat16).eval(), eight_bit, kept)
        with tempfile.TemporaryDirectory() as folder:
            export_hf_checkpoint(model, export_dir=folder)
            text = (Path(folder) / "config.json").read_text()
            # ModelOpt maps names of modules back through a tensor of this name, which newer versions of transformers
            # leave in place.
            document = json.loads(re.sub(r"\.\\u0000[a-z.]*pt_name_sentinel", "", text))
            tensors = load_file(Path(folder) / "model.safetensors")
        write_case("modelopt", case, tensors, decoded(tensors), document=document)


if __name__ == "__main__":
    main()
