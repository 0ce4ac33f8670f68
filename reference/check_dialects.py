"""Whole models in formats that only a GPU runs: what amn makes of them is loaded by transformers and becomes GGUF.

    python check_dialects.py path/to/amn [--keep DIR]

Tiny Llamas whose linear layers are random words of a format (any words are valid codes) are decoded by `amn remember`.
transformers loads the directory without missing or unexpected keys, and its logits are those of a model that is built from
the configuration and filled with the weights, which amn decodes as a single file. Then `amn forget --to q4_k_m` in one command
must give the tensors and the metadata of decoding, converting and quantising apart, byte for byte: then llama.cpp computes
the same from both.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402
import transformers  # noqa: E402
from gguf import GGUFReader  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from gen_end_to_end import vocabulary  # noqa: E402

transformers.utils.logging.disable_progress_bar()
torch.set_grad_enabled(False)
torch.set_num_threads(1)

SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 128,
    "vocab_size": 300,
    "max_position_embeddings": 128,
    "bos_token_id": 28,
    "eos_token_id": 29,
    "tie_word_embeddings": False,
}
# Names of parts that are metadata of a file, not of a model.
OF_THE_FILE = ("general.name", "general.basename", "general.finetune", "general.version", "general.size_label", "GGUF.")


def words(*shape, dtype=torch.int32):
    """Random bits."""
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max + 1, shape, dtype=torch.int64).to(dtype)


def signs(count):
    return torch.randint(0, 2, (count,)).float() * 2 - 1


def padded(size, block):
    return -(-size // block) * block


def exl3(module, outputs, inputs):
    """4 bits of the codebook mcg; outputs padded to 128, with factors of zero."""
    stored = padded(outputs, 128)
    factors = signs(stored) * 0.02
    factors[outputs:] = 0
    return {
        f"{module}.trellis": words(inputs // 16, stored // 16, 64, dtype=torch.int16),
        f"{module}.suh": signs(inputs).half(),
        f"{module}.svh": factors.half(),
        f"{module}.mcg": torch.tensor(0xCBAC1FED - 2**32, dtype=torch.int32),
    }


def exl2(module, outputs, inputs):
    """Groups of 32 inputs, the first two of 5 bits, the others of 4, in random order; outputs padded to 32."""
    stored, groups = padded(outputs, 32), inputs // 32
    bits = [5 if group < 2 else 4 for group in range(groups)]
    starts = [sum(bits[:group]) for group in range(groups)]
    pairs = [number for pair in zip(bits, starts) for number in pair]
    return {
        f"{module}.q_weight": words(sum(bits), stored),
        f"{module}.q_scale": words(groups, stored // 8),
        f"{module}.q_scale_max": torch.full((groups,), 0.006).half(),
        f"{module}.q_groups": torch.tensor(pairs, dtype=torch.int16),
        f"{module}.q_invperm": torch.randperm(inputs, dtype=torch.int32),
    }


def aqlm(module, outputs, inputs):
    """Two codebooks of 256 vectors of 8 inputs."""
    return {
        f"{module}.codes": words(outputs, inputs // 8, 2, dtype=torch.int8),
        f"{module}.codebooks": (torch.randn(2, 256, 1, 8) * 0.7).half(),
        f"{module}.scales": (torch.rand(outputs, 1, 1, 1) * 0.04).half(),
    }


def gemma(module, outputs, inputs):
    """Four bits, two codes to a byte."""
    codes = torch.randint(0, 256, (outputs, inputs // 2), dtype=torch.uint8)
    return {f"{module}.weight": codes, f"{module}.weight_scale": torch.rand(outputs, 1) * 0.005}


def eetq(module, outputs, inputs):
    """Eight bits in any order."""
    codes = words(inputs, outputs, dtype=torch.int8)
    return {f"{module}.weight": codes, f"{module}.weight_scales": (torch.rand(outputs) * 3e-4).half()}


FORMATS = {
    "exl3": (exl3, {"version": "1.6.5", "bits": 4.0, "head_bits": 4, "codebook": "mcg"}, True),
    "exl2": (exl2, {"version": "0.3.2", "bits": 4.25, "head_bits": 4}, True),
    "aqlm": (
        aqlm,
        {"in_group_size": 8, "out_group_size": 1, "num_codebooks": 2, "nbits_per_codebook": 8},
        False,
    ),
    "gemma": (gemma, {"num_bits": 4, "modules_to_not_convert": ["lm_head"]}, False),
    "eetq": (eetq, {"weights": "int8", "modules_to_not_convert": ["lm_head"]}, False),
}


def make(method, folder):
    """A model whose linear layers, and the head if the format quantises it, are random."""
    make_layer, settings, has_head = FORMATS[method]
    config = transformers.LlamaConfig(**SIZES)
    config.architectures = ["LlamaForCausalLM"]
    model = transformers.LlamaForCausalLM(config).bfloat16()
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    vocabulary(folder)
    tensors = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        is_head = name == "lm_head.weight"
        if "_proj." in name or (is_head and has_head):
            tensors.update(make_layer(name.removesuffix(".weight"), *weight.shape))
        else:
            tensors[name] = weight
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    document = json.loads((folder / "config.json").read_text())
    document["quantization_config"] = {"quant_method": method, **settings}
    (folder / "config.json").write_text(json.dumps(document, indent=1))


def logits(model):
    return model.eval()(torch.arange(24).reshape(2, 12)).logits


def check_loading(run, method, root):
    """The logits of transformers, against those of the weights alone."""
    decoded = root / "decoded"
    run("remember", root / method, "-o", decoded, "--to", "f32")
    model, info = transformers.LlamaForCausalLM.from_pretrained(decoded, dtype=torch.float32, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value and key.endswith("keys")}
    if wrong or "quantization_config" in (decoded / "config.json").read_text():
        raise ValueError(f"{method}: {wrong or 'the configuration still describes a quantisation'}")
    run("remember", root / method / "model.safetensors", "-o", root / "alone.safetensors", "--to", "f32")
    alone = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    alone.load_state_dict(load_file(root / "alone.safetensors"), strict=True)
    found, wanted = logits(model), logits(alone.float())
    if not torch.equal(found, wanted) or not found.isfinite().all() or found.std() == 0:
        raise ValueError(f"{method}: logits differ by {(found - wanted).abs().max()}")
    print(f"{method}: {found.numel()} logits of transformers equal, from {found.min():.3f} to {found.max():.3f}")


def contents(path):
    reader = GGUFReader(path)
    tensors = {tensor.name: (tensor.tensor_type, list(tensor.shape), tensor.data.tobytes()) for tensor in reader.tensors}
    fields = {name: [part.tobytes() for part in field.parts] for name, field in reader.fields.items()}
    return tensors, {name: parts for name, parts in fields.items() if not name.startswith(OF_THE_FILE)}


def check_gguf(run, method, root):
    """One command, against three."""
    once, apart = root / "once.gguf", root / "apart.gguf"
    run("forget", root / method, "--to", "q4_k_m", "-o", once)
    # Weights are decoded to BF16 by default, in one command too.
    run("remember", root / method, "-o", root / "half")
    run("convert", root / "half", "--to", "gguf", "-o", root / "half.gguf")
    run("forget", root / "half.gguf", "--to", "q4_k_m", "-o", apart)
    (found, fields), (wanted, wanted_fields) = contents(once), contents(apart)
    differing = [name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)]
    differing += [name for name in fields.keys() | wanted_fields.keys() if fields.get(name) != wanted_fields.get(name)]
    if differing:
        raise ValueError(f"{method}: {sorted(differing)} differ between one command and three")
    total = sum(len(data) for _, _, data in found.values())
    print(f"{method}: {len(found)} tensors ({total} bytes) and {len(fields)} keys of q4_k_m equal to decode, convert, quantise")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("amn")
    parser.add_argument("--keep", help="a directory for the models")
    arguments = parser.parse_args()

    def run(*words):
        done = subprocess.run([arguments.amn, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")

    for method in FORMATS:
        torch.manual_seed(len(method))
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(arguments.keep or temporary) / f"tiny-{method}"
            shutil.rmtree(root, ignore_errors=True)
            (root / method).mkdir(parents=True)
            make(method, root / method)
            check_loading(run, method, root)
            check_gguf(run, method, root)


if __name__ == "__main__":
    main()
