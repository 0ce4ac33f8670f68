"""Tiny checkpoints, and the GGUF files that llama.cpp's converter writes for them with its options.

Each case is `options/NAME.json` with the checkpoint (a folder next to it, or one of `architectures/`), the options and the
type, and `options/NAME.expected.gguf`. Options that begin with `../` are paths from there. The oracle is `convert_hf_to_gguf.py` of llama.cpp, of the tree at `$LLAMA`; for
big-endian files with BF16 or blocks, whose bytes it does not swap, `gguf_convert_endian.py` after it. `mistral_*` need
mistral-common.

Arguments name the cases to write; without any, all are written.
"""

import base64
import json
import shutil
import subprocess
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer

from common import FIXTURES, seed
from gen_architectures import LLAMA, SMALL, vocabulary

FOLDER = FIXTURES / "options"
CONVERT = """
import argparse, builtins, sys
tree, source, output, outtype, swapped, *options = sys.argv[1:]
sys.path.insert(0, tree)
sys.path.insert(0, tree + "/gguf-py")
sys.argv = ["convert_hf_to_gguf.py", source, "--outfile", output, "--outtype", outtype, *options]
import convert_hf_to_gguf
from conversion.base import TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
convert_hf_to_gguf.main()
if swapped == "swapped":
    import gguf
    from gguf.scripts import gguf_convert_endian
    builtins.input = lambda prompt: "YES"
    gguf_convert_endian.convert_byteorder(gguf.GGUFReader(output, "r+"), argparse.Namespace(order="big", dry_run=False))
"""


def write(case, source, options, outtype="bf16", make=None, swapped=False):
    """Write the checkpoint, if it is a new one, and the output of the converter."""
    if len(sys.argv) > 1 and case not in sys.argv[1:]:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    directory = (FOLDER / source).resolve()
    if make is not None:
        made(source, make)
    output = FOLDER / f"{case}.expected.gguf"
    output.unlink(missing_ok=True)
    command = [sys.executable, "-c", CONVERT, LLAMA, str(directory), str(output), outtype, "swapped" if swapped else "-"]
    given = [str((FOLDER / option).resolve()) if option.startswith("../") else option for option in options]
    subprocess.run([*command, *(option for option in given if not swapped or option != "--bigendian")], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    document = {"source": source, "options": options, "type": outtype}
    (FOLDER / f"{case}.json").write_text(json.dumps(document) + "\n")
    print(f"options/{case}: {output.stat().st_size} bytes")


def made(source, make):
    """Write a directory."""
    directory = FOLDER / source
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    seed(source)
    make(directory)
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def saved(name, config, tokenizer_class="PreTrainedTokenizerFast", after=None):
    """A checkpoint of a class of transformers."""

    def make(directory):
        config_class = config.pop("class")
        made = getattr(transformers, config_class)(**config)
        made.architectures = [name]
        model = getattr(transformers, name)(made).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.3)
        model = model.to(torch.bfloat16)
        model.config.dtype = torch.bfloat16
        model.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        vocabulary(directory, tokenizer_class)
        if after is not None:
            after(directory)

    return make


def with_prediction(directory):
    """A layer for multi-token prediction: the tensors of the last layer, and four of its own; and the tokens of GLM."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    named = ["[gMASK]", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|eom|>"]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in named])
    tokenizer.save(str(directory / "tokenizer.json"))
    path = directory / "model.safetensors"
    tensors = load_file(path)
    config = json.loads((directory / "config.json").read_text())
    last, hidden = config["num_hidden_layers"], config["hidden_size"]
    own = {name: tensor for name, tensor in tensors.items() if name.startswith(f"model.layers.{last - 1}.")}
    for name, tensor in own.items():
        tensors[name.replace(f"layers.{last - 1}.", f"layers.{last}.")] = tensor.flip(0).contiguous()
    draw = lambda *shape: (torch.randn(shape) * 0.3).to(torch.bfloat16)  # noqa: E731
    tensors[f"model.layers.{last}.eh_proj.weight"] = draw(hidden, 2 * hidden)
    for norm in ["enorm", "hnorm", "shared_head.norm"]:
        tensors[f"model.layers.{last}.{norm}.weight"] = draw(hidden)
    save_file(tensors, path, metadata={"format": "pt"})
    config["num_nextn_predict_layers"] = 1
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def with_dense_modules(directory):
    """The modules of sentence-transformers: pooling and two dense layers."""
    modules = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Dense", "Dense"), ("3", "3_Dense", "Dense")]
    listed = [{"idx": int(n), "name": n, "path": path, "type": f"sentence_transformers.models.{kind}"} for n, path, kind in modules]
    (directory / "modules.json").write_text(json.dumps(listed, indent=1) + "\n")
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}) + "\n")
    for folder, inputs, outputs in [("2_Dense", 16, 24), ("3_Dense", 24, 16)]:
        (directory / folder).mkdir()
        features = {"in_features": inputs, "out_features": outputs, "bias": False}
        (directory / folder / "config.json").write_text(json.dumps(features) + "\n")
        save_file({"linear.weight": torch.randn(outputs, inputs)}, directory / folder / "model.safetensors")


def mistral(params, experts=0, fp8=False):
    """A model in Mistral's own format."""

    def make(directory):
        base = {"dim": 32, "n_layers": 2, "head_dim": 8, "hidden_dim": 32, "n_heads": 4, "n_kv_heads": 2}
        base |= {"norm_eps": 1e-5, "max_position_embeddings": 1024, "vocab_size": 288, "rope_theta": 1000000.0, **params}
        (directory / "params.json").write_text(json.dumps(base, indent=1) + "\n")
        dim, ffn, heads, keys = base["dim"], base["hidden_dim"], 32, 16
        shapes = {"tok_embeddings.weight": (288, dim), "norm.weight": (dim,), "output.weight": (288, dim)}
        for layer in range(2):
            front = f"layers.{layer}."
            shapes |= {f"{front}attention_norm.weight": (dim,), f"{front}ffn_norm.weight": (dim,)}
            shapes |= {f"{front}attention.{n}.weight": (keys if n in ("wk", "wv") else heads, dim) for n in ("wq", "wk", "wv", "wo")}
            shapes |= {f"{front}feed_forward.{n}.weight": (dim, ffn) if n == "w2" else (ffn, dim) for n in ("w1", "w2", "w3")}
        tensors = {name: (torch.randn(shape) * 0.3).to(torch.bfloat16) for name, shape in shapes.items()}
        if fp8:
            for name in [name for name in tensors if ".w" in name]:
                scale = tensors[name].float().abs().max() / 448
                tensors[name] = (tensors[name].float() / scale).to(torch.float8_e4m3fn)
                tensors[name.replace(".weight", ".qscale_weight")] = scale.reshape(1)
                tensors[name.replace(".weight", ".qscale_act")] = torch.rand(1)
        save_file(tensors, directory / "consolidated.safetensors")
        words = [bytes([byte]) for byte in range(256)] + [b"th", b"the", b" a", b"in", b"ing", b"er", b" the", b"on"]
        vocab = [{"rank": rank, "token_bytes": base64.b64encode(word).decode(), "token_str": None} for rank, word in enumerate(words)]
        config = {"pattern": r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+", "num_vocab_tokens": len(vocab), "default_vocab_size": 24 + len(vocab)}
        config |= {"default_num_special_tokens": 24, "version": "v3"}
        (directory / "tekken.json").write_text(json.dumps({"config": config, "vocab": vocab, "version": 1, "type": "Tekken"}) + "\n")

    return make


def eagle(directory):
    """A draft model of one layer for the Llama of another case."""
    config = {**SMALL, "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1, "head_dim": 8}
    config |= {"draft_vocab_size": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "norm_before_fc": True, "hidden_act": "silu"}
    config |= {"eagle_aux_hidden_state_layer_ids": [0, 1], "tie_word_embeddings": False}
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    hidden, ffn, heads, keys = 16, 24, 32, 16
    shapes = {"fc.weight": (hidden, 2 * hidden), "input_norm.weight": (2 * hidden,), "norm.weight": (hidden,), "lm_head.weight": (64, hidden)}
    layer = {"hidden_norm": (hidden,), "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,)}
    layer |= {"self_attn.q_proj": (heads, 2 * hidden), "self_attn.k_proj": (keys, 2 * hidden), "self_attn.v_proj": (keys, 2 * hidden)}
    layer |= {"self_attn.o_proj": (hidden, heads), "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden), "mlp.down_proj": (hidden, ffn)}
    shapes |= {f"midlayer.{name}.weight": shape for name, shape in layer.items()}
    tensors = {name: (torch.randn(shape) * 0.3).to(torch.bfloat16) for name, shape in shapes.items()}
    tokens = torch.randperm(260)[:64].sort().values
    tensors["d2t"] = tokens - torch.arange(64)
    tensors["t2d"] = torch.zeros(260, dtype=torch.bool).scatter(0, tokens, torch.ones(64, dtype=torch.bool))
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def draft(name, members, more, front="", fused=("fc", "hidden_norm")):
    """A draft of blocks for the Llama of another case."""

    def make(directory):
        config = {**SMALL, "architectures": [name], "model_type": "qwen3", "head_dim": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000.0}
        config |= {"tie_word_embeddings": False, "hidden_act": "silu", "attention_bias": False, **members}
        (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        shapes = {f"{fused[0]}.weight": (16, 32), f"{fused[1]}.weight": (16,), f"{front}norm.weight": (16,), **more}
        for number in range(2):
            layer = {"input_layernorm": (16,), "post_attention_layernorm": (16,), "self_attn.q_norm": (8,), "self_attn.k_norm": (8,)}
            layer |= {"self_attn.q_proj": (32, 16), "self_attn.k_proj": (16, 16), "self_attn.v_proj": (16, 16), "self_attn.o_proj": (16, 32)}
            layer |= {"mlp.gate_proj": (24, 16), "mlp.up_proj": (24, 16), "mlp.down_proj": (16, 24)}
            shapes |= {f"{front}layers.{number}.{name}.weight": shape for name, shape in layer.items()}
        tensors = {name: shape if isinstance(shape, torch.Tensor) else (torch.randn(shape) * 0.3).to(torch.bfloat16) for name, shape in shapes.items()}
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})

    return make


def drafts():
    """DFlash, DSpark and the assistant of Muse Glimmer."""
    target = ["--target-model-dir", "../architectures/llama3"]
    flash = {"mask_token_id": 200, "target_layer_ids": [0, 1], "attention_value_scale": 0.5, "output_multiplier": 2.0}
    members = {"block_size": 8, "dflash_config": flash, "layer_types": ["sliding_attention", "full_attention"]}
    members |= {"use_sliding_window": True, "sliding_window": 32, "is_causal": False, "rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
    write("dflash", "dflash_draft", target, make=draft("DFlashDraftModel", members, {}))
    # The second version: convolutions, and a choice of candidates.
    flash = {"mask_token_id": 200, "target_layer_ids": [0, 1], "conv_kernel_size": 3, "conv_group_size": 4, "selector_rank": 5, "selector_top_k": 6}
    more = {f"candidate_selector.{name}_codebook": (260, 5) for name in ("predecessor", "successor")}
    more |= {"candidate_selector.hidden_projection.weight": (5, 16), "embed_tokens.weight": (260, 16)}
    for number in range(2):
        for module in ("attention_conv", "mlp_conv"):
            more |= {f"layers.{number}.{module}.base_kernel": (2, 3, 16), f"layers.{number}.{module}.kernel_projection.weight": (24, 16)}
    write("dflash2", "dflash2_draft", target, make=draft("DFlash2DraftModel", {"dflash_config": flash}, more))
    heads = {"markov_head.markov_w1.weight": (260, 4), "markov_head.markov_w2.weight": (260, 4), "confidence_head.proj.weight": (1, 20)}
    members = {"block_size": 7, "target_layer_ids": [0, 1], "mask_token_id": 200, "rope_is_neox_style": False}
    write("dspark", "dspark_draft", target, make=draft("DSparkDraftModel", members, heads | {"lm_head.weight": (260, 16)}))
    tokens = torch.arange(64) * 3
    heads = {"markov_head.markov_w1.weight": (260, 4), "markov_head.markov_w2.weight": (64, 4), "lm_head.weight": (64, 16)}
    heads |= {"d2t": tokens - torch.arange(64), "t2d": torch.zeros(260, dtype=torch.bool)}
    members = {"aux_hidden_state_layer_ids": [1, 2], "mask_token_id": 200, "draft_vocab_size": 64, "block_size": 7}
    write("dspark_vocabulary", "dspark_speculator", target, make=draft("DSparkSpeculator", members, heads))
    members = {"block_size": 8, "target_layer_ids": [0, 1], "mask_token_id": 200, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 32}
    members |= {"vocab_size": 300, "model_type": "muse_glimmer_assistant"}
    encoder = ("encoder.fc", "encoder.output_norm_enc")
    target = ["--target-model-dir", "../one_way/muse_glimmer"]
    write("muse_assistant", "muse_draft", target, make=draft("MuseGlimmerAssistantModel", members, {}, "model.", encoder))
    made("deepseek4_target", deepseek_target)
    write("deepseek4_dspark", "deepseek4_draft", ["--target-model-dir", "../options/deepseek4_target"], make=deepseek_draft)
    write("gemma4_dspark", "gemma4_draft", ["--target-model-dir", "../one_way/gemma4"], make=gemma4_draft)


def gemma4_draft(directory):
    """DSpark for Gemma 4: full attention whose keys are the values, four norms, proportional positions."""
    config = {**SMALL, "architectures": ["Gemma4DSparkModel"], "model_type": "gemma4_dspark", "vocab_size": 320, "head_dim": 8, "global_head_dim": 16}
    config |= {"num_global_key_value_heads": 1, "attention_k_eq_v": True, "layer_types": ["full_attention"] * 2, "rms_norm_eps": 1e-6}
    config |= {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": False, "mask_token_id": 4, "target_layer_ids": [0, 2], "block_size": 7}
    rope = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}
    config |= {"rope_parameters": {"full_attention": rope}, "sliding_window": 32}
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    shapes = {"fc.weight": (16, 32), "hidden_norm.weight": (16,), "norm.weight": (16,), "lm_head.weight": (320, 16), "embed_tokens.weight": (320, 16)}
    shapes |= {f"markov_head.markov_w{number}.weight": (320, 4) for number in (1, 2)}
    shapes |= {"confidence_proj.weight": (1, 20), "confidence_proj.bias": (1,)}
    for number in range(2):
        layer = {f"{name}_layernorm.weight": (16,) for name in ("input", "post_attention", "pre_feedforward", "post_feedforward")}
        layer |= {"self_attn.q_proj.weight": (64, 16), "self_attn.k_proj.weight": (16, 16), "self_attn.o_proj.weight": (16, 64)}
        layer |= {"self_attn.q_norm.weight": (16,), "self_attn.k_norm.weight": (16,), "layer_scalar": (1,)}
        layer |= {"mlp.gate_proj.weight": (24, 16), "mlp.up_proj.weight": (24, 16), "mlp.down_proj.weight": (16, 24)}
        shapes |= {f"layers.{number}.{name}": shape for name, shape in layer.items()}
    tensors = {name: (torch.randn(shape) * 0.3).to(torch.bfloat16) for name, shape in shapes.items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def deepseek_target(directory):
    """The configuration and the vocabulary of a target, which has a template: the converter has one for models without."""
    config = {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "vocab_size": 260}
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    vocabulary(directory, "PreTrainedTokenizerFast")
    (directory / "chat_template.jinja").write_text("{% for m in messages %}{{ m['content'] }}{% endfor %}")


def deepseek_draft(directory):
    """DSpark for DeepSeek V4: two stages, and some tensors of the target, which are left out."""
    h, heads, head, rank, groups, low, experts, ffn, streams, markov = 32, 2, 32, 16, 2, 8, 3, 32, 2, 6
    config = {"architectures": ["DeepseekV4DSparkModel"], "model_type": "deepseek_v4", "hidden_size": h, "head_dim": head}
    config |= {"num_attention_heads": heads, "num_key_value_heads": 1, "num_hidden_layers": 5, "q_lora_rank": rank, "o_groups": groups}
    config |= {"o_lora_rank": low, "qk_rope_head_dim": 8, "n_routed_experts": experts, "n_shared_experts": 1, "num_experts_per_tok": 2}
    config |= {"moe_intermediate_size": ffn, "scoring_func": "sqrtsoftplus", "norm_topk_prob": True, "routed_scaling_factor": 1.5}
    config |= {"max_position_embeddings": 128, "rope_theta": 10000.0, "compress_ratios": [0, 4, 4, 128, 4], "compress_rope_theta": 160000.0}
    config |= {"hc_mult": streams, "hc_sinkhorn_iters": 4, "hc_eps": 1e-6, "swiglu_limit": 10.0, "sliding_window": 16, "vocab_size": 260}
    config |= {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 8, "num_hash_layers": 3, "rms_norm_eps": 1e-6, "num_nextn_predict_layers": 1}
    config |= {"dspark_block_size": 5, "dspark_noise_token_id": 200, "dspark_target_layer_ids": [1, 3, 4], "dspark_markov_rank": markov}
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    mixed = (2 + streams) * streams
    tensors, shapes = {}, {"embed.weight": (260, h), "norm.weight": (h,), "head.weight": (260, h), "hc_head_base": (streams,), "layers.0.attn_norm.weight": (h,)}
    for stage in range(2):
        own = {"attn_norm.weight": (h,), "ffn_norm.weight": (h,), "attn.attn_sink": (heads,), "attn.q_norm.weight": (rank,)}
        own |= {"attn.wq_a.weight": (rank, h), "attn.wkv.weight": (head, h), "attn.kv_norm.weight": (head,)}
        own |= {"attn.wo_a.weight": (groups * low, heads * head // groups), "attn.wo_b.weight": (h, groups * low)}
        for block in ["attn", "ffn"]:
            own |= {f"hc_{block}_fn": (mixed, streams * h), f"hc_{block}_base": (mixed,), f"hc_{block}_scale": (3,)}
        own |= {"ffn.gate.weight": (experts, h), "ffn.gate.bias": (experts,), "ffn.gate.bias_vl": (experts,)}
        own |= {f"ffn.shared_experts.{n}.weight": (ffn, h) for n in ["w1", "w2", "w3"]}
        front = f"mtp.{stage}."
        scaled = {"attn.wq_b": (heads * head, rank)}
        if stage == 0:
            own["main_norm.weight"] = (h,)
            scaled["main_proj"] = (h, 3 * h)
        else:
            own |= {"norm.weight": (h,), "hc_head_fn": (streams, streams * h), "hc_head_base": (streams,), "hc_head_scale": (1,)}
            own |= {f"markov_head.markov_w{number}.weight": (260, markov) for number in (1, 2)}
            own["confidence_head.proj.weight"] = (1, h + markov)
        shapes |= {f"{front}{name}": shape for name, shape in own.items()}
        for name, shape in scaled.items():
            tensors[f"{front}{name}.weight"] = torch.randn(shape).to(torch.float8_e4m3fn)
            tensors[f"{front}{name}.scale"] = torch.full((1, 1), 124, dtype=torch.uint8).view(torch.float8_e8m0fnu)
        for expert in range(experts):
            for name in ["w1", "w2", "w3"]:
                tensors[f"{front}ffn.experts.{expert}.{name}.weight"] = torch.randint(-128, 128, (32, 16), dtype=torch.int8)
                tensors[f"{front}ffn.experts.{expert}.{name}.scale"] = torch.randint(118, 128, (32, 1), dtype=torch.uint8).view(torch.float8_e8m0fnu)
    tensors |= {name: (torch.randn(shape) * 0.3).to(torch.bfloat16) for name, shape in shapes.items()}
    for name in ["hc_attn_fn", "ffn.gate.bias", "attn.attn_sink"]:
        tensors[f"mtp.0.{name}"] = tensors[f"mtp.0.{name}"].float()
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def deepseek(directory):
    """DeepSeek V4: one layer that is routed by token, one with compressed attention and an indexer."""
    h, heads, head, rank, groups, low, experts, ffn, streams = 32, 2, 32, 16, 2, 8, 3, 32, 2
    config = {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "hidden_size": h, "head_dim": head}
    config |= {"num_attention_heads": heads, "num_key_value_heads": 1, "num_hidden_layers": 2, "q_lora_rank": rank, "o_groups": groups}
    config |= {"o_lora_rank": low, "qk_rope_head_dim": 8, "n_routed_experts": experts, "n_shared_experts": 1, "num_experts_per_tok": 2}
    config |= {"moe_intermediate_size": ffn, "scoring_func": "sqrtsoftplus", "norm_topk_prob": True, "routed_scaling_factor": 1.5}
    config |= {"max_position_embeddings": 128, "rope_theta": 10000.0, "compress_ratios": [0, 4], "compress_rope_theta": 160000.0}
    config |= {"hc_mult": streams, "hc_sinkhorn_iters": 4, "hc_eps": 1e-6, "swiglu_limit": 10.0, "sliding_window": 16, "vocab_size": 260}
    config |= {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 8, "num_hash_layers": 1, "rms_norm_eps": 1e-6}
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    vocabulary(directory, "PreTrainedTokenizerFast")
    mixed = (2 + streams) * streams
    shapes = {"embed.weight": (260, h), "norm.weight": (h,), "head.weight": (260, h)}
    shapes |= {"hc_head_fn": (streams, streams * h), "hc_head_base": (streams,), "hc_head_scale": (1,)}
    tensors = {}
    for layer in range(2):
        own = {"attn_norm.weight": (h,), "ffn_norm.weight": (h,), "attn.attn_sink": (heads,), "attn.q_norm.weight": (rank,)}
        own |= {"attn.wq_a.weight": (rank, h), "attn.wkv.weight": (head, h), "attn.kv_norm.weight": (head,)}
        own |= {"attn.wo_a.weight": (groups * low, heads * head // groups), "attn.wo_b.weight": (h, groups * low)}
        for block in ["attn", "ffn"]:
            own |= {f"hc_{block}_fn": (mixed, streams * h), f"hc_{block}_base": (mixed,), f"hc_{block}_scale": (3,)}
        own |= {"ffn.gate.weight": (experts, h), **{f"ffn.shared_experts.{n}.weight": (ffn, h) for n in ["w1", "w2", "w3"]}}
        if layer == 1:
            own |= {"ffn.gate.bias": (experts,), "attn.indexer.wq_b.weight": (32, rank), "attn.indexer.weights_proj.weight": (2, h)}
            for front, size in [("attn.compressor", head), ("attn.indexer.compressor", 16)]:
                own |= {f"{front}.ape": (4, 2 * size), f"{front}.norm.weight": (size,)}
                own |= {f"{front}.wkv.weight": (2 * size, h), f"{front}.wgate.weight": (2 * size, h)}
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in own.items()}
        front = f"layers.{layer}."
        tensors[f"{front}attn.wq_b.weight"] = torch.randn(heads * head, rank).to(torch.float8_e4m3fn)
        tensors[f"{front}attn.wq_b.scale"] = torch.full((1, 1), 124, dtype=torch.uint8).view(torch.float8_e8m0fnu)
        for expert in range(experts):
            for name in ["w1", "w2", "w3"]:
                packed = torch.randint(-128, 128, (32, 16), dtype=torch.int8)
                tensors[f"{front}ffn.experts.{expert}.{name}.weight"] = packed
                scale = torch.randint(118, 128, (32, 1), dtype=torch.uint8)
                tensors[f"{front}ffn.experts.{expert}.{name}.scale"] = scale if layer else scale.view(torch.float8_e8m0fnu)
    tensors["layers.0.ffn.gate.tid2eid"] = torch.randint(0, experts, (260, 2))
    tensors |= {name: (torch.randn(shape) * 0.3).to(torch.bfloat16) for name, shape in shapes.items()}
    tensors["layers.0.hc_attn_fn"] = tensors["layers.0.hc_attn_fn"].float()
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def main():
    write("deepseek4", "deepseek_v4", [], make=deepseek)
    write("eagle3", "eagle", ["--target-model-dir", "../architectures/llama3"], make=eagle)
    drafts()
    big = ["--bigendian"]
    write("big_f32", "../architectures/mamba_f32", big, "f32")
    write("big_f16", "../architectures/llama3", big, "f16")
    write("big_bf16", "../architectures/llama3", big, swapped=True)
    write("big_q8_0", "../architectures/llama_q8_0", big, "q8_0", swapped=True)
    write("vocab_only", "../architectures/phi3", ["--vocab-only"])
    write("fp8_as_q8", "../architectures/qwen3_fp8", ["--fp8-as-q8"])
    experts = {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    glm = {**SMALL, **experts, "vocab_size": 266, "class": "Glm4MoeConfig", "first_k_dense_replace": 1, "head_dim": 8}
    write("mtp", "glm4_moe", ["--mtp"], make=saved("Glm4MoeForCausalLM", glm, after=with_prediction))
    write("no_mtp", "glm4_moe", ["--no-mtp"])
    gemma = {**SMALL, "class": "Gemma3TextConfig", "head_dim": 8, "sliding_window": 16}
    dense = saved("Gemma3TextModel", gemma, after=with_dense_modules)
    write("dense_modules", "embedding_gemma", ["--sentence-transformers-dense-modules"], make=dense)
    write("without_dense_modules", "embedding_gemma", [])
    native = ["--mistral-format"]
    write("mistral", "mistral_native", native, make=mistral({}))
    yarn = {"factor": 16, "original_max_position_embeddings": 16384, "beta": 32, "alpha": 1, "apply_scale": False}
    scaling = {"llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 16384}, "max_position_embeddings": 262144}
    quantized = {"quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}}
    write("mistral_yarn", "mistral_scaled", native, make=mistral({"yarn": yarn, **scaling, **quantized}, fp8=True))


if __name__ == "__main__":
    main()
