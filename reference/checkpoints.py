"""Sharded checkpoint directories, written by the canonical libraries, and a check of their conversion by `amn remember`.

usage: checkpoints.py make DIR     writes DIR/{fp8,gptq,mixed} and DIR/expected-*.safetensors
       checkpoints.py check AMN DIR

Each directory is a small Llama that transformers can load once it is decoded. Scales live in other shards than their
weights. `check` converts every directory, loads the result with transformers, and compares every tensor bit for bit with
the values the libraries decode.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

HIDDEN = 128
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def tiny_llama():
    """A model with real names and random weights."""
    torch.manual_seed(7)
    config = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        vocab_size=64,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def is_linear(name):
    """Whether a weight is quantised: the projections of the layers are."""
    return name.endswith("_proj.weight")


def fp8(name, weight):
    """The weight in 128x128 blocks and its values, by transformers."""
    from types import SimpleNamespace

    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

    settings = SimpleNamespace(
        quantization_config=SimpleNamespace(weight_block_size=(128, 128), scale_fmt=None)
    )
    stored = Fp8Quantize(settings)._quantize_one(name, weight.float())
    codes, scales = stored[name], stored[f"{name}_scale_inv"]
    values = Fp8Dequantize(settings)._dequantize_one(codes, scales, torch.float32)
    return {name: codes, f"{name}_scale_inv": scales}, values


def gptq(name, weight):
    """The weight in 4 bits with groups of 32 and its values, by GPTQModel."""
    import gen_gptq

    settings = {"bits": 4, "group_size": 32, "sym": False}
    inputs = weight.shape[1]
    groups = torch.arange(inputs, dtype=torch.int32) // 32
    linear = torch.nn.Linear(inputs, weight.shape[0], bias=False)
    linear.weight.data = weight.float()
    scales, zeros = gen_gptq.find_parameters(weight.float(), 4, 32, False, groups)
    module = gen_gptq.TorchLinear(
        **settings, desc_act=False, in_features=inputs, out_features=weight.shape[0], bias=False
    )
    module.pack_original(linear, scales, zeros, groups)
    module.eval()
    values = gen_gptq.decode(module, 4, "v2")
    base = name.removesuffix(".weight")
    return {f"{base}.{part}": getattr(module, part) for part in gen_gptq.PARTS}, values


FP8_CONFIG = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
GPTQ_CONFIG = {
    "quant_method": "gptq",
    "bits": 4,
    "group_size": 32,
    "desc_act": False,
    "sym": False,
    "checkpoint_format": "gptq_v2",
}
# The storage of each projection of each layer.
KINDS = {
    "fp8": (FP8_CONFIG, lambda name: fp8),
    "gptq": (GPTQ_CONFIG, lambda name: gptq),
    "mixed": (GPTQ_CONFIG, lambda name: gptq if "layers.0" in name else fp8 if "mlp" in name else None),
}


def make(root):
    """Write all directories and the expected values."""
    torch.set_grad_enabled(False)
    for kind, (config, scheme_of) in KINDS.items():
        model = tiny_llama()
        directory = root / kind
        model.save_pretrained(directory)
        (directory / "model.safetensors").unlink()
        tensors, expected = {}, {}
        for name, weight in model.state_dict().items():
            scheme = scheme_of(name) if is_linear(name) else None
            if scheme is None:
                tensors[name] = expected[name] = weight
            else:
                stored, expected[name] = scheme(name, weight)
                tensors.update(stored)
        write_shards(directory, tensors)
        document = json.loads((directory / "config.json").read_text())
        document["quantization_config"] = config
        (directory / "config.json").write_text(json.dumps(document, indent=2) + "\n")
        (directory / "tokenizer_config.json").write_text("{}\n")
        save_file({k: v.contiguous() for k, v in expected.items()}, root / f"expected-{kind}.safetensors")
        print(f"{directory}: {len(tensors)} tensors")


def write_shards(directory, tensors):
    """Weights in the first two shards, everything that scales them in the third."""
    first, second, third = {}, {}, {}
    for name, tensor in tensors.items():
        is_companion = name.endswith(("_scale_inv", ".scales", ".qzeros", ".g_idx"))
        shard = third if is_companion else first if "layers.0" in name else second
        shard[name] = tensor.detach().contiguous().clone()
    weight_map, total = {}, 0
    for number, shard in enumerate((first, second, third), 1):
        file = f"model-{number:05}-of-00003.safetensors"
        save_file(shard, directory / file, metadata={"format": "pt"})
        for name, tensor in shard.items():
            weight_map[name] = file
            total += tensor.numel() * tensor.element_size()
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def check(amn, root):
    """Convert, load and compare every directory at every precision."""
    for kind in KINDS:
        expected = load_file(root / f"expected-{kind}.safetensors")
        for name, dtype in DTYPES.items():
            output = root / f"{kind}-{name}"
            shutil.rmtree(output, ignore_errors=True)
            command = [amn, "remember", root / kind, "--to", name, "-o", output, "--shard-size", "100000"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            stored = {}
            for file in sorted(output.glob("*.safetensors")):
                stored.update(load_file(file))
            assert stored.keys() == expected.keys(), stored.keys() ^ expected.keys()
            for tensor, want in expected.items():
                want = want.to(dtype) if want.dtype == torch.float32 else want
                assert stored[tensor].dtype == want.dtype, tensor
                assert torch.equal(stored[tensor], want), tensor
            model = AutoModelForCausalLM.from_pretrained(output, dtype=dtype)
            loaded = model.state_dict()
            assert all(torch.equal(loaded[k], v.to(dtype)) for k, v in stored.items())
            assert not getattr(model.config, "quantization_config", None)
            print(f"{output}: {len(stored)} tensors equal, loaded by transformers as {model.dtype}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["check"]:
        check(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(__doc__)
