"""Directories with small vocabularies, and the keys that the converter of llama.cpp writes for them.

Writes vocabularies/ among the fixtures: a directory for each case, and beside it CASE.vocab.expected.gguf, which has keys and
no tensors. LLAMA names a source tree of llama.cpp. The converter knows byte-level vocabularies by a digest that none of a few
hundred tokens has, so it is told the name that llama.cpp has for the declared pre-tokenizer.
"""

import base64
import io
import json
import logging
import multiprocessing
import os
import shutil
import sys

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from common import FIXTURES

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
DIRECTORY = FIXTURES / "vocabularies"
LLAMA = os.environ.get("LLAMA", os.environ.get("REF", ".reference") + "/llama")

TEXT = ["the rain and the other rain, then 1234 more of them\n", "  we'll see; \u00fcber na\u00efve \u4f60\u597d!\n"] * 8
CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def write(directory, **files):
    for name, content in files.items():
        path = directory / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            path.write_text(text, encoding="utf-8")


def byte_level(expression, added, normalizer=None, template=None, merges=20):
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(expression), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=256 + merges, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    steps = [processors.ByteLevel(trim_offsets=False)]
    if template:
        special = [(token, tokenizer.token_to_id(token)) for token in sorted(set(template.split()) - {"$A"})]
        pair = " ".join(f"{item}:1" if item != "$A" else "$B:1" for item in template.split())
        steps.append(processors.TemplateProcessing(single=template, pair=f"{template} {pair}", special_tokens=special))
    tokenizer.post_processor = processors.Sequence(steps) if len(steps) > 1 else steps[0]
    return json.loads(tokenizer.to_str())


def pieces(prefix=True, control=(), user=()):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=file, vocab_size=310, hard_vocab_limit=False, model_type="bpe",
        byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=prefix, split_digits=True, control_symbols=list(control), user_defined_symbols=list(user),
        minloglevel=2, num_threads=1,
    )  # fmt: skip
    return file.getvalue()


def added(content, special=False, normalized=False):
    return AddedToken(content, special=special, normalized=normalized)


def listed(tokens):
    keys = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    return {str(token["id"]): {key: token[key] for key in keys} for token in tokens}


CASES = {}


def case(architecture, model_type, pre=None, **config):
    def keep(function):
        CASES[function.__name__] = (function, {"architectures": [architecture], "model_type": model_type, **config}, pre)
        return function

    return keep


@case("Qwen2ForCausalLM", "qwen2", "qwen2", vocab_size=290, eos_token_id=[278, 279], _name_or_path="org/Tiny-7B-Chat-v2")
def qwen(directory):
    """Padding, a card, sampling, and tokens that are added without being special."""
    tokens = [added("<|endoftext|>", True), added("<|im_end|>", True), added("<tool>"), added("<|odd|>"), added("a\u2581b")]
    document = byte_level(CL100K.replace("{1,3}", ""), tokens, normalizers.NFC())
    settings = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                "add_bos_token": False, "add_prefix_space": False, "chat_template": CHAT}  # fmt: skip
    card = "---\nlicense: apache-2.0\nbase_model:\n- Qwen/Qwen2.5-0.5B\ndatasets:\n- org/some-data-v1.5\nlanguage:\n- en\n- no\ntags:\n- chat\n"
    sampling = {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05, "do_sample": True}
    write(directory, tokenizer_DOT_json=document, tokenizer_config_DOT_json=settings,
          README_DOT_md=card + "pipeline_tag: text-generation\n---\n# x\n", generation_config_DOT_json=sampling)  # fmt: skip


@case("LlamaForCausalLM", "llama", "llama-bpe", vocab_size=284, bos_token_id=276)
def llama3(directory):
    """Added BOS and EOS, an end of turn, several chat templates, and tokens in the byte-level alphabet."""
    tokens = [added("<s>", True), added("<end>", True), added("<eot>"), added("\u0120x"), added("\u0120y", normalized=True)]
    document = byte_level(CL100K, tokens, template="<s> $A <end>")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": {"__type": "AddedToken", "content": "<s>", "normalized": False}, "eos_token": "<eot>",
                "pad_token": "<eot>", "additional_special_tokens": ["<more>"],
                "added_tokens_decoder": listed(document["added_tokens"])}  # fmt: skip
    write(directory, tokenizer_DOT_json=document, tokenizer_config_DOT_json=settings, chat_template_DOT_jinja=CHAT,
          additional_chat_templates__tool_use_DOT_jinja="{{ tools }}")  # fmt: skip


@case("Glm4ForCausalLM", "glm4", "glm4", vocab_size=280, eos_token_id=[277])
def glm4(directory):
    """Special tokens by name."""
    tokens = [added("<|endoftext|>", True), added("<|user|>", True)]
    write(directory, tokenizer_DOT_json=byte_level(CL100K, tokens),
          tokenizer_config_DOT_json={"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<|endoftext|>"})  # fmt: skip


@case("MambaForCausalLM", "mamba", "olmo", vocab_size=279, hidden_size=8, num_hidden_layers=1, state_size=4, conv_kernel=4,
      intermediate_size=16, time_step_rank=1, layer_norm_epsilon=1e-5)  # fmt: skip
def mamba(directory):
    """A padded vocabulary, and the default special tokens of a class."""
    document = byte_level(CL100K, [added("<|endoftext|>", True)])
    document["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    write(directory, tokenizer_DOT_json=document, tokenizer_config_DOT_json={"tokenizer_class": "GPTNeoXTokenizer"})


@case("LlamaForCausalLM", "llama", vocab_size=320, bos_token_id=1, eos_token_id=2)
def sentencepieces(directory):
    """Pieces, added tokens of two files that replace or follow them, and padding."""
    tokens = {"310": {"content": "<|a|>"}, "311": {"content": "b\u2581c"}, "0": {"content": "<unk>", "special": True},
              "400": {"content": "<far>"}}  # fmt: skip
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "bos_token": "<s>",
                "add_prefix_space": True, "eos_token": "</s>", "unk_token": "<unk>", "added_tokens_decoder": tokens}  # fmt: skip
    write(directory, tokenizer_DOT_model=pieces(control=["[INST]"], user=["<u>"]), tokenizer_config_DOT_json=settings,
          added_tokens_DOT_json={"<|a|>": 310, "<x>": 312, "<y>": 500},
          chat_template_DOT_json={"chat_template": CHAT})  # fmt: skip


@case("Gemma2ForCausalLM", "gemma2", vocab_size=300, hidden_size=8, bos_token_id=1, eos_token_id=2)
def gemma2(directory):
    """Fewer tokens than pieces, and no space prefix."""
    write(directory, tokenizer_DOT_model=pieces(prefix=False), tokenizer_config_DOT_json={"bos_token": "<s>"})


@case("Phi3ForCausalLM", "phi3", vocab_size=320, original_max_position_embeddings=64)
def phi3(directory):
    """Added tokens of three files, special only if declared so."""
    tokens = {"310": {"content": "<|a|>", "special": False}, "311": {"content": "b\u2581c", "special": False}}
    document = {"version": "1.0", "added_tokens": [{"id": 312, "content": "<|end|>", "special": True},
                                                   {"id": 310, "content": "<|b|>", "special": True}],
                "model": {"type": "BPE", "vocab": {}, "merges": []}}  # fmt: skip
    settings = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "<|end|>",
                "added_tokens_decoder": tokens}  # fmt: skip
    write(directory, tokenizer_DOT_model=pieces(), tokenizer_config_DOT_json=settings, tokenizer_DOT_json=document)


@case("LlamaForCausalLM", "llama", vocab_size=320, bos_token_id=1, eos_token_id=2)
def pieces_in_json(directory):
    """Pieces that are in tokenizer.json only."""
    model = sentencepiece.SentencePieceProcessor(model_proto=pieces())
    vocab = {model.id_to_piece(id): id for id in range(model.vocab_size())}
    merges = [(piece[:1], piece[1:]) for piece in vocab if piece[:1] in vocab and piece[1:] in vocab]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([added(token, True) for token in ("<unk>", "<s>", "</s>", "<|a|>")])
    tokenizer.add_tokens([added("<b>")])
    settings = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    write(directory, tokenizer_DOT_json=json.loads(tokenizer.to_str()), tokenizer_config_DOT_json=settings)


@case("MistralForCausalLM", "mistral", vocab_size=300)
def tekken(directory):
    """tekken.json of Mistral: ranks without merges."""
    words = [b" t", b"he", b" the", b"in", b"an", b"er", b" r", b"ain", b" rain", b"ai", b"\xc3\xbc"]
    tokens = [bytes([byte]) for byte in range(256)] + words
    tokens.sort(key=len)
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for rank, token in enumerate(tokens)]
    config = {"pattern": "[^\\s]+|\\s+", "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) + 24,
              "default_num_special_tokens": 24, "version": "v3"}  # fmt: skip
    write(directory, tekken_DOT_json={"config": config, "vocab": vocab})


def convert(directory, file, pre):
    sys.path.insert(0, LLAMA)
    sys.argv = ["convert_hf_to_gguf.py", str(directory), "--outfile", str(file), "--vocab-only"]
    logging.disable(logging.WARNING)
    # llama.cpp includes its own gguf package.
    for module in [module for module in sys.modules if module.split(".")[0] == "gguf"]:
        del sys.modules[module]
    import convert_hf_to_gguf
    from conversion.base import TextModel

    if pre:
        TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    convert_hf_to_gguf.main()


def main():
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
             "num_key_value_heads": 1, "max_position_embeddings": 64}  # fmt: skip
    for name, (function, config, pre) in CASES.items():
        directory = DIRECTORY / name
        directory.mkdir(parents=True)
        function(directory)
        write(directory, config_DOT_json={**small, **config})
        run = multiprocessing.get_context("fork").Process(
            target=convert, args=(directory, DIRECTORY / f"{name}.vocab.expected.gguf", pre)
        )
        run.start()
        run.join()
        assert run.exitcode == 0, name


if __name__ == "__main__":
    main()
