"""Loads the directories that `amn forget` writes with the libraries they are for, on the CPU, and compares what the models say.

    python load_directories.py path/to/amn [target ...]

A tiny Llama (and a tiny gpt-oss) is made, quantised by amn, and loaded twice: by transformers or the target's own library from
what amn wrote, and plainly from what amn decodes that to. Both are asked the same question; the largest difference between their
answers is printed beside the largest answer. The cases of mlx-lm need that library besides those of the fixtures.
"""

import json
import logging
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
torch.set_grad_enabled(False)

QUESTION = torch.tensor([[1, 5, 9, 200, 31, 7, 77, 300]])


def llama(folder, dtype=torch.bfloat16):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        dtype=str(dtype).removeprefix("torch."),
    )
    LlamaForCausalLM(config).to(dtype).save_pretrained(folder)


def gpt_oss(folder):
    from transformers import GptOssConfig, GptOssForCausalLM

    torch.manual_seed(4)
    config = GptOssConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=64,
        layer_types=["full_attention", "full_attention"],
        dtype="bfloat16",
    )
    GptOssForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def plainly(folder, dtype):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)


def by_transformers(folder, dtype, config=None):
    from transformers import AutoModelForCausalLM

    more = {} if config is None else {"quantization_config": config}
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, device_map="cpu", **more)


def fp8(folder, dtype):
    from transformers import FineGrainedFP8Config

    return by_transformers(folder, dtype, FineGrainedFP8Config(dequantize=True))


def compressed_tensors(folder, dtype):
    """With activations as they are: quantising them while the model runs is no matter of its weights."""
    from transformers import CompressedTensorsConfig

    path = folder / "config.json"
    config = json.loads(path.read_text())
    for group in config["quantization_config"]["config_groups"].values():
        group["input_activations"] = None
    path.write_text(json.dumps(config))

    return by_transformers(folder, dtype, CompressedTensorsConfig(run_compressed=False))


def mxfp4(folder, dtype):
    from transformers import Mxfp4Config

    return by_transformers(folder, dtype, Mxfp4Config(dequantize=True))


def quanto(folder, dtype):
    """As quanto itself loads a model: by its map and the state_dict."""
    from optimum.quanto import requantize
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    requantize(model, load_file(folder / "model.safetensors"), json.loads((folder / "quanto_qmap.json").read_text()))
    return model


def awq(folder, dtype):
    """As AutoAWQ has it: its own linear layers in place of the model's."""
    from awq.modules.linear.gemm import WQLinear_GEMM
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    told = config.quantization_config
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    tensors = load_file(folder / "model.safetensors")
    for name in [name.removesuffix(".qweight") for name in tensors if name.endswith(".qweight")]:
        parent, _, last = name.rpartition(".")
        linear = model.get_submodule(name)
        made = WQLinear_GEMM(4, told["group_size"], linear.in_features, linear.out_features, False, "cpu")
        setattr(model.get_submodule(parent), last, made)
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected and not missing, (missing, unexpected)
    return model


def gptq(folder, dtype):
    """GPTQModel's layers, with what `dynamic` says of them, decode into a plain model."""
    from common import REF

    sys.path.insert(0, str(REF / "src/gptqmodel-7.7.0"))
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.quantization.config import QuantizeConfig
    from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    told = json.loads((folder / "config.json").read_text())["quantization_config"]
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    args = {key: told[key] for key in ("bits", "group_size", "sym", "desc_act")}
    quantize = QuantizeConfig(**args, dynamic=told.get("dynamic"))
    tensors = load_file(folder / "model.safetensors")
    plain = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if f"{module}.qweight" not in tensors:
            plain[name] = tensor
        if part != "qweight":
            continue
        of_module = {key: quantize.dynamic_get(module, key, args[key]) for key in args}
        linear = model.get_submodule(module)
        made = TorchLinear(
            **of_module, in_features=linear.in_features, out_features=linear.out_features, bias=False
        )
        for part in ("qweight", "qzeros", "scales", "g_idx"):
            setattr(made, part, tensors[f"{module}.{part}"])
        if told["checkpoint_format"] == "gptq":
            convert_gptq_v1_to_v2_format_module(made, of_module["bits"], torch.int32)
        made.eval()
        plain[f"{module}.weight"] = made.dequantize_weight().T.to(dtype)
    missing, unexpected = model.load_state_dict(plain, strict=False)
    assert not unexpected and not missing, (missing, unexpected)
    return model


def mlx(folder, dtype):
    """MLX has no loader for models here: its arrays are decoded by MLX, as the configuration says, into a plain model."""
    import mlx.core as mx
    import numpy
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    told = json.loads((folder / "config.json").read_text())["quantization"]
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    arrays = mx.load(str(folder / "model.safetensors"))
    tensors = {}
    for name, array in arrays.items():
        module = name.removesuffix(".weight")
        if name.endswith((".scales", ".biases")):
            continue
        if f"{module}.scales" in arrays:
            args = {key: value for key, value in told.get(module, told).items() if not isinstance(value, dict)}
            array = mx.dequantize(array, arrays[f"{module}.scales"], arrays.get(f"{module}.biases"), **args)
        tensors[name] = torch.from_numpy(numpy.array(array.astype(mx.float32)).copy()).to(dtype)
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected and not missing, (missing, unexpected)
    return model


def hqq(folder, dtype):
    """As HQQ has it: its own linear layers in place of the model's, from their entries."""
    from hqq.core.quantize import HQQLinear
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    tensors = load_file(folder / "model.safetensors")
    plain = dict(tensors)
    for name in [name.removesuffix(".W_q") for name in tensors if name.endswith(".W_q")]:
        parent, _, last = name.rpartition(".")
        made = HQQLinear(None, None, compute_dtype=dtype, device="cpu", initialize=False)
        made.load_state_dict({key.removeprefix(f"{name}."): plain.pop(key) for key in tensors if key.startswith(f"{name}.")})
        setattr(model.get_submodule(parent), last, made)
    missing, unexpected = model.load_state_dict(plain, strict=False)
    assert not unexpected, unexpected
    return model


class Answers:
    """Logits as transformers gives them."""

    def __init__(self, logits):
        self.logits = logits


def mlx_lm(folder, dtype):
    """The whole model by mlx-lm, which multiplies codes without decoding them."""
    import mlx.core as mx
    import numpy
    from mlx_lm.utils import load_model

    model, _ = load_model(folder)

    class Asked:
        def eval(self):
            pass

        def __call__(self, question):
            logits = model(mx.array(question.numpy()))
            return Answers(torch.from_numpy(numpy.array(logits.astype(mx.float32)).copy()))

    return Asked()


# Arguments of amn, and who loads it. Weights are the same to the bit in all of them. What some answer is not: quanto's INT8 scales sums
# of codes, in F32; bitsandbytes multiplies by kernels of its own, and its INT8 quantises the inputs of a layer too; mlx-lm adds
# up in the type of its scales, which is F32 here.
CASES = {
    "fp8": (["--to", "fp8"], fp8),
    "fp8-channel": (["--to", "fp8-channel"], compressed_tensors),
    "fp8-tensor": (["--to", "fp8-tensor"], compressed_tensors),
    "fp8-block": (["--to", "fp8-block"], compressed_tensors),
    "w8a8": (["--to", "w8a8"], compressed_tensors),
    "w8a16": (["--to", "w8a16"], compressed_tensors),
    "w4a16": (["--to", "w4a16"], compressed_tensors),
    "w4a16-asym": (["--to", "w4a16-asym"], compressed_tensors),
    "mxfp4": (["--to", "mxfp4"], compressed_tensors),
    "mxfp8": (["--to", "mxfp8"], compressed_tensors),
    "nvfp4": (["--to", "nvfp4"], compressed_tensors),
    "mix w4a16+w8a16": (["--to", "w4a16", "--rule", "*.down_proj.weight=w8a16"], compressed_tensors),
    "mix w4a16+fp8": (["--to", "w4a16", "--rule", "*.self_attn.*=fp8-channel"], compressed_tensors),
    "mix keep": (["--to", "w4a16", "--rule", "*.layers.0.*=keep"], compressed_tensors),
    "bnb-nf4": (["--to", "bnb-nf4"], by_transformers),
    "bnb-int8": (["--to", "bnb-int8"], by_transformers),
    "quanto-int8": (["--to", "quanto-int8"], quanto),
    "quanto-float8": (["--to", "quanto-float8"], quanto),
    "hqq-4bit": (["--to", "hqq-4bit"], hqq),
    "hqq-2bit": (["--to", "hqq-2bit"], hqq),
    "awq-4bit": (["--to", "awq-4bit"], awq),
    "gptq-4bit": (["--to", "gptq-4bit"], gptq),
    "gptq-3bit-v2": (["--to", "gptq-3bit-v2-asym"], gptq),
    "mix gptq": (["--to", "gptq-4bit", "--rule", "*.down_proj.weight=gptq-8bit"], gptq),
    "mlx-4bit": (["--to", "mlx-4bit"], mlx),
    "mlx-mxfp4": (["--to", "mlx-mxfp4"], mlx),
    "mix mlx": (["--to", "mlx-4bit", "--rule", "*.down_proj.weight=mlx-8bit"], mlx),
    "mlx-lm 4bit": (["--to", "mlx-4bit"], mlx_lm),
    "mlx-lm 8bit": (["--to", "mlx-8bit"], mlx_lm),
    "mlx-lm mxfp4": (["--to", "mlx-mxfp4"], mlx_lm),
    "mlx-lm mix": (["--to", "mlx-4bit", "--rule", "*.down_proj.weight=mlx-8bit"], mlx_lm),
    "gpt-oss": (["--to", "gpt-oss"], mxfp4),
}


def check(amn, case, root):
    arguments, load = CASES[case]
    folder = Path(tempfile.mkdtemp(dir=root))
    source = root / ("gpt-oss" if case == "gpt-oss" else "llama-f32" if load is mlx_lm else "llama")
    dtype = {awq: torch.float16, gptq: torch.float16, mlx_lm: torch.float32}.get(load, torch.bfloat16)
    name = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}[dtype]
    run = lambda *line: subprocess.run([amn, *map(str, line), "-q"], check=True)
    run("forget", source, *arguments, "-o", folder / "quantised")
    # They calculate in the type of their scales.
    arithmetic = ["--arith", "reference"] if load in (mlx, hqq) else []
    run("remember", folder / "quantised", "--to", name, *arithmetic, "-o", folder / "plain")
    want = plainly(folder / "plain", dtype)(QUESTION).logits.float()
    model = load(folder / "quantised", dtype)
    model.eval()
    found = model(QUESTION).logits.float()
    shutil.rmtree(folder)
    return (found - want).abs().max().item(), want.abs().max().item()


def main():
    amn, *asked = sys.argv[1:]
    root = Path(tempfile.mkdtemp())
    llama(root / "llama")
    llama(root / "llama-f32", torch.float32)
    gpt_oss(root / "gpt-oss")
    for case in asked or CASES:
        try:
            difference, largest = check(amn, case, root)
            print(f"{case:16} {difference:.3e} of {largest:.3e}", flush=True)
        except Exception as error:
            print(f"{case:16} not loaded: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
