"""Quantised checkpoints, and the Q4_K_M models that three programs in sequence produce from them.

A weight is quantised and decoded by the library of its scheme, the decoded checkpoint is converted by
`convert_hf_to_gguf.py` and that quantised by `build/bin/llama-quantize` of llama.cpp, whose tree is at `$LLAMA`.
`HIDDEN`, `INTERMEDIATE` and `LAYERS` make larger models than the committed ones.
"""

import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import gen_compressed_tensors
import gen_gptq
from common import FIXTURES, REF, seed
from gen_architectures import CONVERT, SPECIAL, configured

LLAMA = os.environ.get("LLAMA", str(REF / "llama"))
FOLDER = FIXTURES / "end_to_end"
HIDDEN = int(os.environ.get("HIDDEN", "256"))
INTERMEDIATE = int(os.environ.get("INTERMEDIATE", "32"))
LAYERS = int(os.environ.get("LAYERS", "1"))
GROUP = 32
SMALL = {
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "vocab_size": 32,
    "bos_token_id": 28,
    "eos_token_id": 29,
    "pad_token_id": 30,
}


def fp8(name, weight):
    """Eight-bit floats in blocks, by transformers."""
    from gen_fp8 import by_transformers, quantizer
    from transformers.integrations.finegrained_fp8 import Fp8Quantize

    stored = Fp8Quantize(quantizer((16, GROUP)))._quantize_one(name, weight.float())
    return stored, by_transformers(stored[name], stored[f"{name}_scale_inv"])


def awq(name, weight):
    """Four bits in groups, by AutoAWQ."""
    import gen_awq

    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False).half()
    finder = object.__new__(gen_awq.AwqQuantizer)
    finder.group_size, finder.w_bit, finder.zero_point = GROUP, 4, True
    linear.weight.data, scales, zeros = finder.pseudo_quantize_tensor(weight.half())
    made = gen_awq.WQLinear_GEMM.from_linear(linear, 4, GROUP, scales=scales.t().contiguous(), zeros=zeros.t().contiguous())
    base = name.removesuffix(".weight")
    parts = {f"{base}.{part}": getattr(made, part) for part in ("qweight", "qzeros", "scales")}
    return parts, gen_awq.decode(made.qweight, made.qzeros, made.scales, GROUP)


def gptq(name, weight):
    """Four bits in groups, by GPTQModel."""
    inputs = weight.shape[1]
    groups = torch.arange(inputs, dtype=torch.int32) // GROUP
    linear = torch.nn.Linear(inputs, weight.shape[0], bias=False)
    linear.weight.data = weight.float()
    scales, zeros = gen_gptq.find_parameters(weight.float(), 4, GROUP, True, groups)
    module = gen_gptq.empty_module(4, GROUP, True, False, inputs, weight.shape[0])
    module.pack_original(linear, scales, zeros, groups)
    module = gen_gptq.to_v1(module.eval(), 4, GROUP)
    base = name.removesuffix(".weight")
    return {f"{base}.{part}": getattr(module, part) for part in gen_gptq.PARTS}, gen_gptq.decode(module, 4, "v1")


def nf4(name, weight):
    """Four-bit BitsAndBytes with double quantisation."""
    import bitsandbytes

    linear = bitsandbytes.nn.Linear4bit(
        weight.shape[1], weight.shape[0], bias=False, compute_dtype=torch.bfloat16, compress_statistics=True, quant_type="nf4"
    )
    linear.weight = bitsandbytes.nn.Params4bit(
        weight.clone(), requires_grad=False, quant_type="nf4", compress_statistics=True, quant_storage=torch.uint8
    )
    linear = linear.to("cpu")
    if getattr(linear.weight, "quant_state", None) is None:
        linear.weight = linear.weight._quantize("cpu")
    wide = copy.deepcopy(linear.weight.quant_state)
    wide.dtype = torch.float32
    values = bitsandbytes.functional.dequantize_4bit(linear.weight.data, wide)
    base = name.removesuffix(".weight")
    return {f"{base}.{key}": value for key, value in linear.state_dict().items()}, values


def packed(name, weight):
    """Four bits in groups, by compressed-tensors."""
    layout, args = gen_compressed_tensors.PACK, W4A16
    parts = gen_compressed_tensors.compress(layout, args, weight)
    values, _ = gen_compressed_tensors.decompress(layout, args, parts)
    base = name.removesuffix(".weight")
    return {f"{base}.{part}": value for part, value in parts.items()}, values


W4A16 = gen_compressed_tensors.integers(4, "group", group_size=GROUP)


def settings(scheme):
    """The quantization_config."""
    from gen_awq import config as awq_config
    from gen_bnb import four_bit_config
    from gen_fp8 import fine_grained_config

    return {
        "fp8": lambda: fine_grained_config([16, GROUP]),
        "awq": lambda: awq_config(GROUP),
        "gptq": lambda: gen_gptq.config(4, GROUP, True, False, "v1"),
        "nf4": lambda: four_bit_config("nf4", True, "bfloat16"),
        "packed": lambda: gen_compressed_tensors.described(
            {"group_0": gen_compressed_tensors.scheme(W4A16)}, gen_compressed_tensors.PACK
        ),
    }[scheme]()


def vocabulary(directory):
    """Letters are tokens, and four are special."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[:28]
    merges = [(alphabet[0], alphabet[1])]
    tokens = [*alphabet[:27], "".join(merges[0])]
    tokenizer = Tokenizer(models.BPE(vocab={text: id for id, text in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.save(str(directory / "tokenizer.json"))
    named = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[1], "pad_token": SPECIAL[2], "unk_token": SPECIAL[3]}
    document = {"tokenizer_class": "PreTrainedTokenizerFast", **named, "mask_token": SPECIAL[3]}
    (directory / "tokenizer_config.json").write_text(json.dumps(document, indent=1) + "\n")


def case(architecture, scheme, quantise):
    """One checkpoint and the resulting model."""
    name = f"{architecture.lower()}_{scheme}"
    seed(f"end_to_end/{name}")
    # The widest codes tie the head to the embedding, so that fixtures stay small.
    sizes = {**SMALL, "tie_word_embeddings": scheme == "fp8"}
    if scheme == "nf4":
        # On CPU, bitsandbytes 0.50.2 decodes rows that are shorter than a block under scales that it did not quantise them by.
        sizes["intermediate_size"] = max(INTERMEDIATE, 64)
    config = getattr(transformers, f"{architecture}Config")(**sizes)
    config.architectures = [f"{architecture}ForCausalLM"]
    model = getattr(transformers, config.architectures[0])(config).eval()
    for parameter in model.parameters():
        parameter.copy_(torch.randn_like(parameter) * 0.05)
    model = model.to(torch.bfloat16)
    model.config.dtype = torch.bfloat16
    directory = FOLDER / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        # The converter writes the name of the directory into the file.
        plain = Path(temporary) / name
        model.save_pretrained(plain)
        (plain / "generation_config.json").unlink(missing_ok=True)
        vocabulary(plain)
        stored, decoded = {}, {}
        for key, weight in load_file(plain / "model.safetensors").items():
            if not key.endswith("_proj.weight"):
                stored[key] = decoded[key] = weight
                continue
            parts, values = quantise(key, weight)
            stored.update(parts)
            decoded[key] = values.to(torch.bfloat16)
        whole = {key: value.detach().contiguous().clone() for key, value in decoded.items()}
        save_file(whole, plain / "model.safetensors", metadata={"format": "pt"})
        for path in plain.iterdir():
            if path.name != "model.safetensors":
                shutil.copyfile(path, directory / path.name)
        whole = {key: value.detach().contiguous().clone() for key, value in stored.items()}
        save_file(whole, directory / "model.safetensors", metadata={"format": "pt"})
        configured(directory, quantization_config=json.loads(json.dumps(settings(scheme), default=str)))
        for path in directory.iterdir():
            path.chmod(0o644)
        between, output = Path(temporary) / "between.gguf", FOLDER / f"{name}.expected.gguf"
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([sys.executable, "-c", CONVERT, LLAMA, str(plain), str(between), "bf16"], **quiet)
        subprocess.run([f"{LLAMA}/build/bin/llama-quantize", str(between), str(output), "q4_k_m"], **quiet)
    bytes_written = output.stat().st_size + sum(path.stat().st_size for path in directory.iterdir())
    print(f"end_to_end/{name}: {bytes_written} bytes")


def main():
    for architecture in ("Llama", "Qwen3"):
        for scheme, quantise in {"fp8": fp8, "awq": awq, "gptq": gptq, "nf4": nf4, "packed": packed}.items():
            case(architecture, scheme, quantise)


if __name__ == "__main__":
    main()
