"""Compares `amn inspect` with transformers: parameters, and bytes of the cache after a forward pass.

    python check_inspect.py AMN [DIRECTORY ...]      compares the checkpoints in these directories (at any depth)
    python check_inspect.py AMN --tiny FOLDER        makes a tiny model of every attention kind first
    python check_inspect.py AMN --fixtures FILE ...  also writes configurations, shapes and expectations as JSON

Parameters are those of `num_parameters()` of the loaded model, the cache is the bytes of the tensors that the cache of a
forward pass over TOKENS tokens holds: keys, values and states. Bookkeeping numbers of cache layers are left out.
A checkpoint that lacks tensors of its class is skipped, since transformers makes them up; so is one that has no class. The parameters of a quantised
checkpoint are those of its class: transformers counts packed weights as they are stored.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")

import torch
import transformers
from safetensors import safe_open

TOKENS = 40

# Tiny models: class, configuration class, members beyond the common ones.
COMMON = dict(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
)
MLA = dict(num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8)
TINY = {
    "full": ("Llama", dict(num_key_value_heads=4)),
    "grouped": ("Llama", dict()),
    "tied": ("Llama", dict(tie_word_embeddings=True)),
    "sliding_all": ("Mistral", dict(sliding_window=16)),
    "sliding_none": ("Qwen2", dict(use_sliding_window=False, sliding_window=16)),
    "sliding_from": ("Qwen2", dict(use_sliding_window=True, sliding_window=16, max_window_layers=2)),
    "sliding_half": ("Gemma2", dict(sliding_window=16, head_dim=8)),
    "sliding_pattern": ("Cohere2", dict(sliding_window=16)),
    "sliding_exact": ("Mistral", dict(sliding_window=TOKENS)),
    "sliding_longer": ("Mistral", dict(sliding_window=TOKENS + 1)),
    "experts": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    "encoder": ("ModernBert", dict(pad_token_id=0, global_attn_every_n_layers=2)),
    "latent": ("DeepseekV3", dict(**MLA, n_routed_experts=4, n_group=1, topk_group=1, num_experts_per_tok=2,
                                  moe_intermediate_size=16, first_k_dense_replace=1)),
    "latent_v2": ("DeepseekV2", dict(**MLA, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
                                     moe_intermediate_size=16, first_k_dense_replace=1)),
    "mamba": ("Mamba", dict(state_size=8)),
    "mamba2": ("Mamba2", dict(state_size=8, num_heads=8, head_dim=8, n_groups=2)),
    "hybrid": ("FalconH1", dict(mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=8)),
    "delta": ("Qwen3Next", dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
                                linear_value_head_dim=4, num_experts=4, num_experts_per_tok=2, head_dim=8,
                                moe_intermediate_size=16, shared_expert_intermediate_size=16)),
    "convolution": ("Lfm2", dict(full_attn_idxs=[2], conv_L_cache=3, block_multiple_of=8)),
    "fused": ("Phi3", dict(pad_token_id=0)),
    "expanded": ("Falcon", dict(new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=48)),
    "multi_query": ("Falcon", dict(multi_query=True, new_decoder_architecture=False, num_key_value_heads=1)),
    "one_dimensional": ("GPT2", dict(n_embd=32, n_head=4, n_layer=2, n_positions=128)),
}


def make(folder):
    """Saves a tiny model of every kind."""
    for name, (prefix, members) in TINY.items():
        torch.manual_seed(28)
        config = getattr(transformers, f"{prefix}Config")(**{**COMMON, **members})
        classes = [f"{prefix}ForCausalLM", f"{prefix}ForMaskedLM", f"{prefix}LMHeadModel"]
        model = next(getattr(transformers, name) for name in classes if hasattr(transformers, name))(config)
        model.to(torch.bfloat16).save_pretrained(Path(folder) / name)


def held(value, seen):
    """Bytes of the tensors that a cache holds, without its counters."""
    if isinstance(value, torch.Tensor):
        new = value.dim() > 0 and value.numel() and value.data_ptr() not in seen
        seen.add(value.data_ptr())
        return value.numel() * value.element_size() if new else 0
    if isinstance(value, (list, tuple)):
        return sum(held(item, seen) for item in value)
    if isinstance(value, dict):
        return sum(held(item, seen) for item in value.values())
    if type(value).__module__.startswith("transformers") and not type(value).__name__.endswith("Config"):
        return held(vars(value), seen)
    return 0


def unquantised(name, config):
    """Parameters of a model before it was quantised."""
    config = {key: value for key, value in config.items() if key != "quantization_config"}
    made = getattr(transformers, name).config_class.from_dict(config)
    with torch.device("meta"):
        return getattr(transformers, name)(made).num_parameters()


def expected(directory):
    """What transformers says of a checkpoint: parameters and bytes of the cache, or why it says nothing."""
    config = json.loads((directory / "config.json").read_text())
    name = (config.get("architectures") or [""])[0]
    if not hasattr(transformers, name):
        return None, f"no class {name!r}"
    try:
        model, info = getattr(transformers, name).from_pretrained(directory, output_loading_info=True, dtype="auto")
    except Exception as error:
        if "quantization_config" in config:
            return {"parameters": unquantised(name, config), "tokens": TOKENS, "cache": None}, None
        return None, f"does not load: {str(error)[:80]}"
    if info["missing_keys"] or info["mismatched_keys"]:
        return None, f"lacks {len(info['missing_keys'])} tensors of its class"
    # Packed weights of a quantised model would be counted as they are stored.
    parameters = unquantised(name, config) if "quantization_config" in config else model.num_parameters()
    result = {"parameters": parameters, "tokens": TOKENS, "cache": None}
    try:
        with torch.no_grad():
            output = model(input_ids=torch.arange(TOKENS)[None] % 20 + 1, use_cache=True)
        cache = getattr(output, "past_key_values", None) or getattr(output, "cache_params", None)
        result["cache"] = held(cache, set()) if cache is not None else None
    except Exception as error:
        print(f"no forward pass of {directory}: {str(error)[:80]}")
    return result, None


def described(directory):
    """The configuration and the shapes of a checkpoint."""
    tensors = {}
    for file in sorted(directory.glob("*.safetensors")):
        with safe_open(file, "pt") as stored:
            for name in stored.keys():
                part = stored.get_slice(name)
                tensors[name] = [part.get_dtype(), *part.get_shape()]
    return {"config": json.loads((directory / "config.json").read_text()), "tensors": tensors}


def inspected(amn, directory):
    run = subprocess.run([amn, "inspect", str(directory), "--context", str(TOKENS), "--json"], capture_output=True)
    if run.returncode:
        return {"parameters": None, "cache": None, "why": run.stderr.decode()[:100]}
    document = json.loads(run.stdout)
    cache = document["memory"]["cache"]
    return {
        "parameters": document["parameters"]["total"],
        "cache": cache and cache["bytes"],
        "why": document["memory"]["unknown"],
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("amn")
    parser.add_argument("--tiny")
    parser.add_argument("--fixtures")
    parser.add_argument("directories", nargs="*")
    args = parser.parse_args()
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    if args.tiny:
        make(args.tiny)
        args.directories.append(args.tiny)
    directories = sorted({path.parent for root in args.directories for path in Path(root).rglob("config.json")})
    faults, compared, caches, skipped, unknown, fixtures = [], 0, 0, 0, 0, {}
    for directory in directories:
        if not any(directory.glob("*.safetensors")):
            continue
        wanted, why = expected(directory)
        gc.collect()
        if why:
            skipped += 1
            print(f"skipped {directory}: {why}")
            continue
        fixtures[directory.name] = {**wanted, **described(directory)}
        found = inspected(args.amn, directory)
        compared += 1
        if found["parameters"] != wanted["parameters"]:
            faults.append(f"{directory}: {found['parameters']} parameters, transformers has {wanted['parameters']}")
        if wanted["cache"] is not None:
            caches += 1
            if found["cache"] is None:
                unknown += 1
                print(f"unknown {directory}: {found['why']}; transformers has {wanted['cache']} bytes")
            elif found["cache"] != wanted["cache"]:
                faults.append(f"{directory}: a cache of {found['cache']} bytes, transformers has {wanted['cache']}")
        elif found["cache"]:
            print(f"no cache to compare {directory} with: {found['cache']} bytes")
    if args.fixtures:
        lines = [f"{json.dumps(name)}: {json.dumps(case)}" for name, case in sorted(fixtures.items())]
        Path(args.fixtures).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print("\n".join(faults))
    print(f"{compared} compared, {caches} with a cache ({unknown} unknown to amn), {skipped} skipped, {len(faults)} differ")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
