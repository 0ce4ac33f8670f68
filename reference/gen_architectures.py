"""Tiny checkpoints of several architectures, and the GGUF files that the converter of llama.cpp writes for them.

The oracle is `convert_hf_to_gguf.py` of llama.cpp, whose tree is at `$LLAMA` (`$REF/llama` where nothing is said). A
vocabulary this small cannot have the hash by which the converter knows how text is cut, so that it is told.

Arguments name the cases to write; without any, all are written.
"""

import json
import os
import shutil
import subprocess
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from common import FIXTURES, REF, seed

LLAMA = os.environ.get("LLAMA", str(REF / "llama"))
FOLDER = FIXTURES / "architectures"
SPECIAL = ["<|bos|>", "<|endoftext|>", "<|pad|>", "<unk>"]
SMALL = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "vocab_size": 260,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": 258,
}
CONVERT = """
import sys
sys.path.insert(0, sys.argv[1])
sys.argv = ["convert_hf_to_gguf.py", sys.argv[2], "--outfile", sys.argv[3], "--outtype", sys.argv[4]]
import convert_hf_to_gguf
from conversion.base import TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
convert_hf_to_gguf.main()
"""


def vocabulary(directory, tokenizer_class, more=()):
    """Every byte is a token, and four or more are special."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={text: id for id, text in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in [*SPECIAL, *more]])
    tokenizer.save(str(directory / "tokenizer.json"))
    named = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[1], "pad_token": SPECIAL[2]}
    # Some classes would add tokens that are not named.
    named |= {"unk_token": SPECIAL[3], "mask_token": SPECIAL[3]}
    document = {"tokenizer_class": tokenizer_class, **named}
    (directory / "tokenizer_config.json").write_text(json.dumps(document, indent=1) + "\n")


def write(case, name, config, after=None, tokenizer_class="PreTrainedTokenizerFast", dtype=torch.bfloat16, outtype="bf16"):
    """Write the checkpoint and the output of the converter."""
    if len(sys.argv) > 1 and case not in sys.argv[1:]:
        return
    directory = FOLDER / case
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    seed(case)
    made = getattr(transformers, config.pop("class", name.replace("ForCausalLM", "Config")))(**config)
    made.architectures = [name]
    model = getattr(transformers, name)(made).eval()
    for parameter in model.parameters():
        parameter.copy_(torch.randn_like(parameter) * 0.3)
    model = model.to(dtype)
    model.config.dtype = dtype
    model.save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    vocabulary(directory, tokenizer_class)
    if after is not None:
        after(directory)
    for path in directory.iterdir():
        path.chmod(0o644)
    output = FOLDER / f"{case}.expected.gguf"
    output.unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-c", CONVERT, LLAMA, str(directory), str(output), outtype],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    bytes_written = output.stat().st_size + sum(path.stat().st_size for path in directory.iterdir())
    print(f"architectures/{case}: {bytes_written} bytes")


def configured(directory, **members):
    """Add members to the configuration of a checkpoint."""
    path = directory / "config.json"
    document = json.loads(path.read_text())
    document.update(members)
    path.write_text(json.dumps(document, indent=1) + "\n")


def as_fp8(directory):
    """Matrices of layers as eight-bit floats with a grid of scales."""
    path = directory / "model.safetensors"
    tensors = load_file(path)
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        weight = tensors[name].float()
        rows, cols = (size // 8 for size in weight.shape)
        blocks = weight.reshape(rows, 8, cols, 8)
        scales = blocks.abs().amax(dim=(1, 3)) / 448
        codes = blocks / scales[:, None, :, None]
        tensors[name] = codes.reshape(weight.shape).to(torch.float8_e4m3fn)
        tensors[f"{name}_scale_inv"] = scales
    save_file(tensors, path, metadata={"format": "pt"})
    quantisation = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [8, 8]}
    configured(directory, quantization_config=quantisation)


def as_nvfp4(directory):
    """Matrices of layers as random codes and scales, with global scales and, except for one, input scales."""
    path = directory / "model.safetensors"
    tensors = load_file(path)
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        rows, cols = tensors[name].shape
        base = name.removesuffix(".weight")
        tensors[name] = torch.randint(0, 256, (rows, cols // 2), dtype=torch.uint8)
        tensors[f"{base}.weight_scale"] = torch.randint(8, 120, (rows, cols // 16), dtype=torch.uint8).view(torch.float8_e4m3fn)
        tensors[f"{base}.weight_scale_2"] = torch.rand(()) * 0.01
        if "v_proj" not in name:
            tensors[f"{base}.input_scale"] = torch.rand(()) * 0.1
    save_file(tensors, path, metadata={"format": "pt"})
    quantisation = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]}
    configured(directory, quantization_config=quantisation)


def as_mxfp4(directory):
    """Experts as random codes and scales."""
    path = directory / "model.safetensors"
    tensors = load_file(path)
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, inputs, outputs = tensors.pop(name).shape
        shape = (experts, outputs, inputs // 32)
        tensors[f"{name}_blocks"] = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8)
        tensors[f"{name}_scales"] = torch.randint(120, 126, shape, dtype=torch.uint8)
    save_file(tensors, path, metadata={"format": "pt"})
    configured(directory, quantization_config={"quant_method": "mxfp4"})


def main():
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
    llama3 = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    write(
        "llama3",
        "LlamaForCausalLM",
        {**SMALL, "head_dim": 8, "tie_word_embeddings": True, "attention_bias": True, "rope_parameters": llama3},
    )
    write(
        "llama_q8_0",
        "LlamaForCausalLM",
        {**SMALL, "hidden_size": 32, "num_hidden_layers": 1, "tie_word_embeddings": True},
        dtype=torch.float16,
        outtype="q8_0",
    )
    write(
        "mixtral",
        "MixtralForCausalLM",
        {
            **SMALL,
            "num_hidden_layers": 1,
            "intermediate_size": 8,
            "num_local_experts": 11,
            "num_experts_per_tok": 2,
            "tie_word_embeddings": True,
        },
    )
    write("qwen2_yarn", "Qwen2ForCausalLM", {**SMALL, "rope_parameters": yarn})
    write(
        "qwen3_fp8",
        "Qwen3ForCausalLM",
        {**SMALL, "head_dim": 8, "tie_word_embeddings": True},
        after=as_fp8,
    )
    scaled = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 16}
    write("llama_nvfp4", "LlamaForCausalLM", {**SMALL, **scaled, "tie_word_embeddings": True}, after=as_nvfp4)
    write(
        "gemma3",
        "Gemma3ForCausalLM",
        {**SMALL, "class": "Gemma3TextConfig", "head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8},
    )
    longrope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0, 1.1],
        "long_factor": [1.5, 2.5],
        "original_max_position_embeddings": 64,
    }
    write(
        "phi3",
        "Phi3ForCausalLM",
        {**SMALL, "original_max_position_embeddings": 64, "rope_parameters": longrope, "sliding_window": 32},
        tokenizer_class="GPT2Tokenizer",
    )
    compressed = {
        **SMALL,
        "num_key_value_heads": 4,
        "moe_intermediate_size": 8,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "q_lora_rank": 8,
        "kv_lora_rank": 8,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 6,
        "v_head_dim": 4,
        "n_group": 2,
        "topk_group": 1,
    }
    scored = lambda directory: configured(directory, scoring_func="sigmoid")  # noqa: E731
    write("deepseek_v3", "DeepseekV3ForCausalLM", compressed, after=scored)
    experts = {**SMALL, "num_hidden_layers": 1, "head_dim": 8, "num_local_experts": 3, "num_experts_per_tok": 2}
    experts = {**experts, "rope_parameters": yarn}
    write("gpt_oss", "GptOssForCausalLM", experts)
    blocks = {**experts, "hidden_size": 32, "intermediate_size": 32}
    write("gpt_oss_mxfp4", "GptOssForCausalLM", blocks, after=as_mxfp4)
    write(
        "falcon_h1",
        "FalconH1ForCausalLM",
        {
            **SMALL,
            "num_hidden_layers": 1,
            "head_dim": 8,
            "mamba_d_ssm": 32,
            "mamba_n_heads": 4,
            "mamba_d_head": 8,
            "mamba_n_groups": 1,
            "mamba_d_state": 8,
            "mamba_d_conv": 4,
            "mamba_chunk_size": 16,
            "attention_in_multiplier": 0.9,
            "attention_out_multiplier": 0.8,
            "ssm_in_multiplier": 1.1,
            "ssm_out_multiplier": 0.7,
            "key_multiplier": 0.6,
            "mlp_multipliers": [0.9, 0.8],
            "ssm_multipliers": [0.9, 0.8, 0.7, 0.6, 0.5],
            "embedding_multiplier": 2.0,
            "lm_head_multiplier": 0.5,
        },
    )
    further()
    of_state_spaces()


def further():
    """One case for every other architecture, so that tests which walk the cases see all of them."""
    rotary = {"rope_type": "default", "rope_theta": 10000.0}
    scaled = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    }
    # Head size, RoPE base and context differ from those of Llama.
    write(
        "llama_rope",
        "LlamaForCausalLM",
        {**SMALL, "num_hidden_layers": 1, "head_dim": 24, "mlp_bias": True, "rope_parameters": scaled},
    )
    write("mistral", "MistralForCausalLM", {**SMALL, "head_dim": 8, "sliding_window": None})
    experts = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "decoder_sparse_step": 1}
    sparse = {**SMALL, **experts, "num_hidden_layers": 1}
    write("qwen2_moe", "Qwen2MoeForCausalLM", {**sparse, "shared_expert_intermediate_size": 12})
    write("qwen3_moe", "Qwen3MoeForCausalLM", {**sparse, "head_dim": 8, "tie_word_embeddings": True})
    routed = {"n_routed_experts": 3, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    scales = {"attention_multiplier": 0.5, "embedding_multiplier": 12.0, "residual_multiplier": 0.25, "logits_scaling": 8.0}
    biases = {"attention_bias": True, "mlp_bias": True}
    write("granite", "GraniteForCausalLM", {**SMALL, **scales, **biases, "tie_word_embeddings": True})
    write("olmo2", "Olmo2ForCausalLM", SMALL)
    write(
        "olmo3",
        "Olmo3ForCausalLM",
        {**SMALL, "sliding_window": 16, "rope_parameters": rotary},
    )
    write("starcoder2", "Starcoder2ForCausalLM", {**SMALL, "use_bias": True, "sliding_window": None})
    write("smollm3", "SmolLM3ForCausalLM", {**SMALL, "num_hidden_layers": 4, "use_sliding_window": False})
    write(
        "cohere2",
        "Cohere2ForCausalLM",
        {**SMALL, "num_hidden_layers": 4, "sliding_window": 16, "logit_scale": 0.25, "rope_parameters": rotary},
        after=lambda directory: configured(directory, rotary_pct=1.0),
    )
    write(
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        {
            **SMALL,
            **routed,
            "num_key_value_heads": 4,
            "first_k_dense_replace": 1,
            "q_lora_rank": 8,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 6,
            "v_head_dim": 4,
            "tie_word_embeddings": True,
        },
    )


def of_state_spaces():
    """State spaces in F32: several of their tensors change in shape alone."""
    f32 = {"dtype": torch.float32, "outtype": "f32"}
    sizes = {"hidden_size": 16, "intermediate_size": 32, "expand": 2, "conv_kernel": 4, "num_hidden_layers": 2}
    tokens = {key: SMALL[key] for key in ["bos_token_id", "eos_token_id", "pad_token_id"]}
    small = {**sizes, **tokens, "state_size": 8, "time_step_rank": 2, "vocab_size": 264, "use_conv_bias": True}
    write("mamba_f32", "MambaForCausalLM", small, **f32)
    write("falcon_mamba_f32", "FalconMambaForCausalLM", small, **f32)
    heads = {"num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 16, "vocab_size": 272}
    write("mamba2_f32", "Mamba2ForCausalLM", {**sizes, **tokens, **heads, "state_size": 8}, **f32)
    mixed = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 8}
    further = {"mamba_d_conv": 4, "mamba_chunk_size": 16, "mamba_rms_norm": True, "num_hidden_layers": 1, "head_dim": 8}
    write("falcon_h1_f32", "FalconH1ForCausalLM", {**SMALL, **mixed, **further}, **f32)


if __name__ == "__main__":
    main()
