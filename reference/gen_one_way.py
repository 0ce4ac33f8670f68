"""Tiny checkpoints of classes that transformers does not have, and the GGUF files that llama.cpp's converter writes for them.

The tensors have the names and shapes of the files on the hub. The oracle is `convert_hf_to_gguf.py` of llama.cpp, of the
tree at `$LLAMA`.

Arguments name the cases to write; without any, all cases below are. `again` converts the sources of all other cases of the
folder once more, which were made by classes of transformers, with the pre-tokenizer that their file names.
"""

import base64
import json
import shutil
import subprocess
import sys

import torch
import transformers
from gguf import GGUFReader
from safetensors.torch import save_file

from common import FIXTURES, seed
from gen_architectures import LLAMA, SMALL, vocabulary
from one_way_shapes import (
    arwkv7,
    dots3_note,
    experts,
    feed_forward,
    granite_speech,
    granite_switch,
    hunyuan_moe,
    kimi_k2,
    kimi_k3,
    layers,
    lfm25_detokenizer,
    mamba,
    phi4_vision,
    puzzle,
    qwen,
    qwen3tts,
    qwen4exp,
    with_vocabulary,
)

FOLDER = FIXTURES / "one_way"
CONVERT = """
import base64
import json
import pathlib
import sys
import types
from transformers import AutoTokenizer, PreTrainedConfig
tree, source, output, pre = sys.argv[1:]
sys.path.insert(0, tree)
# The tokenizer does not need the configuration, which transformers refuses if it does not know the class.
loaded = AutoTokenizer.from_pretrained
AutoTokenizer.from_pretrained = lambda path, **options: loaded(path, config=PreTrainedConfig(), **options)
# The members of tokenizer classes that come with a model: ranks of bytes, and special tokens after them.
class Ranked:
    def __init__(self, file):
        lines = [line.split() for line in file.read_bytes().splitlines()]
        self.mergeable_ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
        first = {"qwen": ("endoftext", "im_start", "im_end"), "hy": ("endoftext", "startoftext", "bos", "eos", "pad")}[file.stem]
        names = [*first, *(f"extra_{number}" for number in range(205))]
        self.special_tokens = {f"<|{name}|>": len(lines) + place for place, name in enumerate(names)}
        self.vocab_size = len(lines) + len(names)
    def get_vocab(self):
        return self.mergeable_ranks
for file in pathlib.Path(source).glob("*.tiktoken"):
    AutoTokenizer.from_pretrained = lambda path, file=file, **options: Ranked(file)
# Those of Kimi's class: special tokens by their ids, and reserved ones between them.
class Kimi:
    def __init__(self, file):
        lines = [line.split() for line in file.read_bytes().splitlines()]
        ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
        self.model = types.SimpleNamespace(_mergeable_ranks=ranks)
        settings = json.loads((file.parent / "tokenizer_config.json").read_text())
        named = {int(id): token["content"] for id, token in settings["added_tokens_decoder"].items()}
        ids = range(len(ranks), len(ranks) + 256)
        self.special_tokens = {named.get(id, f"<|reserved_token_{id}|>"): id for id in ids}
        self.eos_id = self.special_tokens[settings["eos_token"]]
for file in pathlib.Path(source).glob("tiktoken.model"):
    AutoTokenizer.from_pretrained = lambda path, file=file, **options: Kimi(file)
sys.argv = ["convert_hf_to_gguf.py", source, "--outfile", output, "--outtype", "bf16"]
import convert_hf_to_gguf
from conversion.base import TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
convert_hf_to_gguf.main()
"""


def converted(case, pre):
    """Write the output of the converter."""
    output = FOLDER / f"{case}.expected.gguf"
    output.unlink(missing_ok=True)
    command = [sys.executable, "-c", CONVERT, LLAMA, str(FOLDER / case), str(output), pre]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"one_way/{case}: {output.stat().st_size} bytes")


def is_asked(case):
    """Whether a case is written; its folder is empty then."""
    if len(sys.argv) > 1 and case not in sys.argv[1:]:
        return False
    shutil.rmtree(FOLDER / case, ignore_errors=True)
    (FOLDER / case).mkdir(parents=True)
    seed(case)
    return True


def write(case, config, shapes, pre="gpt-2", tokens=(), tokenizer="PreTrainedTokenizerFast", template=None):
    """Write a checkpoint with random tensors, and the output of the converter. `tokenizer` is a class, the stem of a file of ranks or nothing."""
    directory = FOLDER / case
    if not is_asked(case):
        return
    (directory / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}, indent=1) + "\n")
    tensors = {}
    for name, shape in shapes.items():
        tensors[name] = tensors[shape].clone() if isinstance(shape, str) else made(name, shape)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    if tokenizer in ("qwen", "hy"):
        ranked(directory / f"{tokenizer}.tiktoken", {"tokenizer_class": f"{tokenizer.upper()}Tokenizer"})
    elif tokenizer == "kimi":
        ranked(directory / "tiktoken.model", KIMI_SETTINGS)
    elif tokenizer is not None:
        vocabulary(directory, tokenizer, tokens)
    if template is not None:
        (directory / "chat_template.jinja").write_text(template)
    for path in directory.iterdir():
        path.chmod(0o644)
    converted(case, pre)


# Tokens of two and more bytes, each of two others.
MERGED = [b"th", b"he", b"in", b"er", b"the", b" the", b"ing", b"\xc3\xa4", b"  ", b"    "]
MERGED.insert(5, b" t")


# The special tokens of Kimi's class, which has others between them.
KIMI_SPECIAL = {268: "[BOS]", 270: "[EOS]", 271: "<|im_end|>", 300: "<|im_user|>", 330: "[PAD]"}
KIMI_SETTINGS = {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]", "pad_token": "[PAD]"}
KIMI_SETTINGS["added_tokens_decoder"] = {str(id): {"content": token, "special": True} for id, token in KIMI_SPECIAL.items()}


def ranked(path, settings):
    """Write a vocabulary of bytes with their ranks, and the settings of its class."""
    tokens = [bytes([byte]) for byte in range(256)] + MERGED
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
    path.write_text("".join(lines))
    (path.parent / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")


def made(name, shape):
    """A tensor of a checkpoint: a shape, or the values themselves or a function that makes them; a name is another tensor once more."""
    if callable(shape) and not isinstance(shape, torch.Tensor):
        return shape()
    if isinstance(shape, torch.Tensor):
        return shape
    values = torch.randn(shape) * 0.3
    return (values + 1 if "norm" in name else values).to(torch.bfloat16)


def ling3(members, prediction=0):
    """Ling 3: Kimi Delta Attention, latent attention in the last layer of each group, a gate for every head."""
    config = {**SMALL, "architectures": ["BailingMoeV3ForCausalLM"], "model_type": "bailing_moe_v3", "num_hidden_layers": 5}
    config |= {"head_dim": 8, "layer_group_size": 2, "no_kda_lora": True, "kda_safe_gate": True, "kda_lower_bound": -5.0}
    config |= {"gated_attention_proj_granularity_type": "head_wise", "short_conv_kernel_size": 4, "rms_norm_eps": 1e-6}
    config |= {"kv_lora_rank": 12, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 6, "rope_theta": 600000.0}
    config |= {"num_experts": 4, "num_experts_per_tok": 2, "num_shared_experts": 1, "moe_intermediate_size": 8, "first_k_dense_replace": 1}
    config |= {"moe_shared_expert_intermediate_size": 8, "routed_scaling_factor": 2.5, "norm_topk_prob": True, "score_function": "sigmoid"}
    config |= {"num_nextn_predict_layers": prediction, **members}
    hidden, heads, inner = 16, 4, 32
    count, rank = config["num_hidden_layers"], config.get("q_lora_rank")

    def layer(number):
        shapes = {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}
        group = config["layer_group_size"]
        if number >= count // group * group or (number + 1) % group == 0:
            nope, rope, value, latent = 4, config["qk_rope_head_dim"], 6, 12
            if rank is None:
                shapes["attention.q_proj.weight"] = (heads * (nope + rope), hidden)
            else:
                shapes |= {"attention.q_a_proj.weight": (rank, hidden), "attention.q_a_layernorm.weight": (rank,)}
                shapes["attention.q_b_proj.weight"] = (heads * (nope + rope), rank)
            shapes |= {"attention.kv_a_proj_with_mqa.weight": (latent + rope, hidden), "attention.kv_a_layernorm.weight": (latent,)}
            shapes |= {"attention.kv_b_proj.weight": (heads * (nope + value), latent), "attention.g_proj.weight": (heads, hidden)}
            shapes["attention.dense.weight"] = (hidden, heads * value)
        else:
            shapes |= {f"attention.{name}_proj.weight": (inner, hidden) for name in "qkvfg"}
            shapes |= {f"attention.{name}_conv1d.weight": (inner, 1, 4) for name in "qkv"}
            shapes |= {"attention.b_proj.weight": (heads, hidden), "attention.A_log": (heads,), "attention.dt_bias": (inner,)}
            shapes |= {"attention.o_norm.weight": (8,), "attention.o_proj.weight": (hidden, inner)}
        if number < 1:
            return shapes | feed_forward("mlp", hidden, 24)
        shapes |= {"mlp.gate.weight": (4, hidden), "mlp.gate.expert_bias": (4,)}
        shapes |= experts("mlp.experts", hidden, 8, 4) | feed_forward("mlp.shared_experts", hidden, 8)
        if number >= count:
            shapes |= {"eh_proj.weight": (hidden, 2 * hidden), "enorm.weight": (hidden,), "hnorm.weight": (hidden,)}
            shapes["final_layernorm.weight"] = (hidden,)
        return shapes

    ends = {"model.word_embeddings.weight": (260, hidden), "model.norm.weight": (hidden,), "lm_head.weight": (260, hidden)}
    return config, ends | layers(count + prediction, layer)


def step35(members):
    """Step 3.5: layers with a sliding window and more heads, scaled positions, and a layer for multi-token prediction."""
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2, "head_dim": 16}
    sizes |= {"max_position_embeddings": 512, "vocab_size": 260, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}
    config = {"architectures": ["Step3p5ForCausalLM"], "model_type": "step3p5_tiny", **sizes, "num_attention_groups": 1}
    config |= {"attention_other_setting": {"num_attention_heads": 4, "num_attention_groups": 1}, "layer_types": kinds}
    config |= {"partial_rotary_factors": [0.5 if kind.startswith("full") else 1.0 for kind in kinds], "sliding_window": 32}
    config |= {"rope_theta": [5e6, 1e4, 1e4, 5e6, 1e4], "moe_num_experts": 4, "moe_top_k": 2, "moe_intermediate_size": 24}
    config |= {"share_expert_dim": 24, "moe_router_scaling_factor": 3.0, "norm_expert_weight": True, "moe_layers_enum": "1,2,3"}
    config |= {"swiglu_limits": [0.0, None, 7.0, 7.0], "swiglu_limits_shared": [0.0, 16.0], "num_nextn_predict_layers": 1, **members}
    hidden, size, count = 16, 16, 4

    def layer(number):
        heads = 4 if kinds[number].startswith("sliding") else 2
        shapes = {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}
        shapes |= {"self_attn.q_proj.weight": (heads * size, hidden), "self_attn.o_proj.weight": (hidden, heads * size)}
        shapes |= {f"self_attn.{name}_proj.weight": (size, hidden) for name in "kv"}
        shapes |= {f"self_attn.{name}_norm.weight": (size,) for name in "qk"} | {"self_attn.g_proj.weight": (heads, hidden)}
        if number in (1, 2, 3):
            shapes |= {"moe.gate.weight": (4, hidden), "moe.router_bias": (4,), "moe.down_proj.weight": (4, hidden, 24)}
            shapes |= {f"moe.{name}_proj.weight": (4, 24, hidden) for name in ("gate", "up")}
            return shapes | feed_forward("share_expert", hidden, 24)
        shapes |= feed_forward("mlp", hidden, 24)
        if number >= count:
            shapes |= {"eh_proj.weight": (hidden, 2 * hidden), "enorm.weight": (hidden,), "hnorm.weight": (hidden,)}
            shapes |= {"transformer.shared_head.norm.weight": (hidden,), "transformer.shared_head.output.weight": (260, hidden)}
        return shapes

    ends = {"model.embed_tokens.weight": (260, hidden), "model.norm.weight": (hidden,), "lm_head.weight": (260, hidden)}
    return config, ends | layers(count + 1, layer)


def with_tower(config, shapes, name):
    """The same as the language model of a multimodal one."""
    nested = {key: value for key, value in config.items() if key != "architectures"}
    config = {"architectures": [name], "model_type": f"{name.lower()}_tiny", "text_config": nested, "vision_config": {"hidden_size": 8}}
    inner = {name.replace("model.", "model.language_model.", 1): shape for name, shape in shapes.items()}
    return config, inner | {"model.vision_model.patch_embed.weight": (8, 8)}


def gemma4_unified(case):
    """Gemma 4 without towers, with tokens that are never generated, and the vocabulary of another case."""
    directory = FOLDER / case
    if not is_asked(case):
        return
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 6, "num_attention_heads": 2, "num_key_value_heads": 1}
    sizes |= {"head_dim": 8, "max_position_embeddings": 512, "sliding_window": 32, "vocab_size": 320, "final_logit_softcapping": 30.0}
    made = transformers.Gemma4UnifiedForConditionalGeneration
    config = made.config_class(text_config={**sizes, "per_layer_config": {"5": {"head_dim": 16}}})
    config.architectures = [made.__name__]
    model = made(config).eval()
    for parameter in model.parameters():
        parameter.copy_(torch.randn_like(parameter) * 0.3)
    model = model.to(torch.bfloat16)
    model.config.dtype = torch.bfloat16
    model.save_pretrained(directory)
    # The converter looks for a size of experts.
    stored = json.loads((directory / "config.json").read_text())
    stored["text_config"]["moe_intermediate_size"] = None
    (directory / "config.json").write_text(json.dumps(stored, indent=1) + "\n")
    (directory / "generation_config.json").write_text(json.dumps({"suppress_tokens": [7, 300]}) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(FOLDER / "gemma4" / name, directory / name)
    for path in directory.iterdir():
        path.chmod(0o644)
    converted(case, "default")


def again():
    """Convert the sources of the other cases."""
    for source in sorted(path for path in FOLDER.iterdir() if path.is_dir()):
        field = GGUFReader(FOLDER / f"{source.name}.expected.gguf").fields.get("tokenizer.ggml.pre")
        converted(source.name, field.contents() if field else "default")


with torch.no_grad():
    if sys.argv[1:] == ["again"]:
        again()
    write("ling3", *ling3({}, prediction=1))
    clamps = {"expert_swiglu_limit_list": [None, 7.0, 7.0], "share_expert_swiglu_limit_list": [0.0, 5.0, 5.0, 5.0]}
    write("ling3_low_rank", *ling3({"q_lora_rank": 6, **clamps}))
    scaling = {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 32.0}
    scaling |= {"original_max_position_embeddings": 131072}
    write("step35_mtp", *step35({"rope_scaling": scaling}))
    gemma4_unified("gemma4_unified")
    write("step37", *with_tower(*step35({}), "Step3p7ForConditionalGeneration"))
    write("phi4_vision", *phi4_vision(), tokenizer="GPT2Tokenizer")
    write("mamba_lm_head", *mamba(), pre="olmo")
    write("nemotron_h_puzzle", *puzzle())
    ranks = 256 + len(MERGED)
    write("hunyuan_moe", *hunyuan_moe(ranks + 210), pre="hunyuan", tokenizer="hy")
    write("qwen", *qwen(ranks + 212), pre="qwen2", tokenizer="qwen")
    write("granite_speech", *granite_speech("GraniteSpeechForConditionalGeneration"))
    write("granite_switch", *granite_switch())
    # The converter has a template for models without one.
    write("kimi_k3", *kimi_k3(is_packed=False), template="{% for m in messages %}{{ m['content'] }}{% endfor %}")
    write("kimi_k3_packed", *kimi_k3(is_packed=True), template="{% for m in messages %}{{ m['content'] }}{% endfor %}")
    write("kimi_k3_ranks", *with_vocabulary(*kimi_k3(is_packed=False), ranks + 256), pre="kimi-k2", tokenizer="kimi", template="{{ messages }}")
    write("kimi_k2_ranks", *with_vocabulary(*kimi_k2(), ranks + 240), pre="kimi-k2", tokenizer="kimi")
    write("arwkv7", *arwkv7(is_gated=True))
    write("arwkv7_ungated", *arwkv7(is_gated=False))
    write("qwen4exp", *qwen4exp({"ple_layer_ids": [1], "eos_token_id": [256, 257]}, is_nested=True))
    write("qwen4exp_plain", *qwen4exp({"ple_layer_ids": [], "eos_token_id": 257}, is_nested=False))
    write("dots3_note", *dots3_note(has_towers=True), tokens=["<|endofassistant|>"])
    write("dots3_note_text", *dots3_note(has_towers=False), tokens=["<|endofassistant|>"])
    write("lfm25_detokenizer", *lfm25_detokenizer(), tokenizer=None)
    write("qwen3tts", *qwen3tts(), tokenizer="Qwen2Tokenizer", template="{{ messages }}")
