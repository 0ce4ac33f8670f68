"""Tiny LoRA adapters, and the GGUF files that `convert_lora_to_gguf.py` of llama.cpp (the tree at `$LLAMA`) writes for them.

Only the configuration of a base is needed, not its weights. Arguments name the cases to write; without any, all are.
"""

import json
import os
import shutil
import subprocess
import sys

import torch
from safetensors.torch import save_file

from common import FIXTURES, REF, seed

LLAMA = os.environ.get("LLAMA", str(REF / "llama"))
FOLDER = FIXTURES / "adapters"
HIDDEN, INNER, HEADS, KV_HEADS, LAYERS, TOKENS, RANK = 32, 48, 4, 2, 2, 40, 4
SIZES = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": 64,
    "vocab_size": TOKENS,
    "rms_norm_eps": 1e-6,
}
KV = HIDDEN // HEADS * KV_HEADS
ATTENTION = {"q_proj": (HIDDEN, HIDDEN), "k_proj": (KV, HIDDEN), "v_proj": (KV, HIDDEN), "o_proj": (HIDDEN, HIDDEN)}
FFN = {"gate_proj": (INNER, HIDDEN), "up_proj": (INNER, HIDDEN), "down_proj": (HIDDEN, INNER)}


def named(prefix, modules):
    return {f"{prefix}{name}": shape for name, shape in modules.items()}


def layers(of_layer, prefix="model.layers."):
    return {f"{prefix}{layer}.{name}": shape for layer in range(LAYERS) for name, shape in of_layer.items()}


def pairs(modules):
    """A pair for every module, by the shape of its weight."""
    tensors = {}
    for name, (rows, cols) in modules.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = torch.randn(RANK, cols) * 0.1
        tensors[f"base_model.model.{name}.lora_B.weight"] = torch.randn(rows, RANK) * 0.1
    return tensors


def llama():
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **SIZES}
    tensors = pairs(layers({**named("self_attn.", ATTENTION), **named("mlp.", FFN)}))
    return config, tensors, {}


def embedding():
    """The embedding, the head, and norms that replace those of the base."""
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **SIZES, "head_dim": 8}
    tensors = pairs({"lm_head": (TOKENS, HIDDEN)})
    tensors["base_model.model.model.embed_tokens.lora_embedding_A"] = torch.randn(RANK, TOKENS)
    tensors["base_model.model.model.embed_tokens.lora_embedding_B"] = torch.randn(HIDDEN, RANK)
    for layer in range(LAYERS):
        tensors[f"base_model.model.model.layers.{layer}.input_layernorm.weight"] = torch.randn(HIDDEN)
    tensors["base_model.model.model.norm.weight"] = torch.randn(HIDDEN)
    return config, tensors, {}


def mixtral():
    experts = {"num_local_experts": 3, "num_experts_per_tok": 2}
    config = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", **SIZES, **experts}
    shapes = {"w1": (INNER, HIDDEN), "w2": (HIDDEN, INNER), "w3": (INNER, HIDDEN)}
    of_layer = named("self_attn.", ATTENTION)
    for expert in range(3):
        of_layer |= named(f"block_sparse_moe.experts.{expert}.", shapes)
    return config, pairs(layers(of_layer)), {}


def gpt2():
    """Weights that are stored transposed."""
    sizes = {"n_embd": HIDDEN, "n_head": HEADS, "n_layer": LAYERS, "n_positions": 64, "vocab_size": TOKENS}
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", **sizes}
    modules = {"attn.c_attn": (HIDDEN, 3 * HIDDEN), "mlp.c_fc": (HIDDEN, 4 * HIDDEN), "mlp.c_proj": (4 * HIDDEN, HIDDEN)}
    return config, pairs(layers(modules, "transformer.h.")), {}


def activated():
    config, tensors, _ = llama()
    tensors = {name: tensor.half() for name, tensor in tensors.items() if ".layers.1." not in name}
    return config, tensors, {"alora_invocation_tokens": [5, 6, 7], "lora_alpha": 2.5}


CASES = {
    "llama": (llama, ["f32", "q8_0"]),
    "embedding": (embedding, ["f16"]),
    "mixtral": (mixtral, ["bf16"]),
    "gpt2": (gpt2, ["f32"]),
    "activated": (activated, ["f16"]),
}


def write(name):
    make, types = CASES[name]
    seed(f"adapters/{name}")
    config, tensors, members = make()
    directory = FOLDER / name
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "base").mkdir(parents=True)
    (directory / "adapter").mkdir()
    (directory / "base" / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    described = {"peft_type": "LORA", "base_model_name_or_path": f"example/{name}", "r": RANK, "lora_alpha": 8, **members}
    (directory / "adapter" / "adapter_config.json").write_text(json.dumps(described, indent=1) + "\n")
    (directory / "adapter" / "README.md").write_text(f"---\nbase_model: example/{name}-2B\nlicense: mit\n---\n")
    save_file({k: v.contiguous() for k, v in tensors.items()}, str(directory / "adapter" / "adapter_model.safetensors"))
    for kind in types:
        output = FOLDER / f"{name}.{kind}.expected.gguf"
        output.unlink(missing_ok=True)
        program = [sys.executable, f"{LLAMA}/convert_lora_to_gguf.py", str(directory / "adapter")]
        subprocess.run([*program, "--base", str(directory / "base"), "--outtype", kind, "--outfile", str(output)], check=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        write(name)
