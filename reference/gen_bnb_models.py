"""Tiny models of classes whose layers are not all alike, quantised and saved by transformers with bitsandbytes on the CPU.

    python gen_bnb_models.py [directory]

GPT-2 (`Conv1D`, stored transposed), T5 (`wo` stays F32) and CLIP (its last layer stays what it is): as they were (`source`), and as
transformers saves them in NF4, and GPT-2 in eight bits. Rows are no shorter than a block: bitsandbytes reads other scales for such rows on the CPU. What transformers decodes is in `decoded.safetensors`, as the class stores it.
"""

import shutil
import sys
import warnings
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import BitsAndBytesConfig
from transformers.integrations.bitsandbytes import dequantize_bnb_weight
from transformers.pytorch_utils import Conv1D

from common import FIXTURES

warnings.filterwarnings("ignore")
torch.set_grad_enabled(False)
transformers.utils.logging.disable_progress_bar()

TEXT = {"vocab_size": 32, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
MODELS = {
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 32, "n_embd": 64, "n_layer": 1, "n_head": 2, "n_positions": 16}),
    "t5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 32, "d_model": 64, "d_kv": 32, "d_ff": 64, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2},
    ),
    "clip": (
        "CLIPTextModelWithProjection",
        {**TEXT, "projection_dim": 64, "max_position_embeddings": 16},
    ),
}
KINDS = {"nf4": BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16), "int8": BitsAndBytesConfig(load_in_8bit=True)}


def decoded(model, plain):
    """Every quantised weight by its name, as the class has it."""
    for name, module in model.named_modules():
        if type(module).__name__ in ("Linear4bit", "Linear8bitLt"):
            values = dequantize_bnb_weight(module.weight, getattr(module, "state", None)).to(torch.bfloat16)
            is_turned = isinstance(plain.get_submodule(name), Conv1D)
            yield f"{name}.weight", (values.T if is_turned else values).contiguous()


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else FIXTURES / "bnb_models"
    shutil.rmtree(root, ignore_errors=True)
    for name, (cls, config) in MODELS.items():
        cls = getattr(transformers, cls)
        torch.manual_seed(5)
        plain = cls(cls.config_class(**config))
        for parameter in plain.parameters():
            parameter.data.normal_(0, 0.3)
        plain.to(torch.bfloat16).save_pretrained(root / name / "source")
        for kind, quantised in KINDS.items() if name == "gpt2" else [("nf4", KINDS["nf4"])]:
            model = cls.from_pretrained(root / name / "source", quantization_config=quantised, device_map="cpu", dtype=torch.bfloat16)
            model.save_pretrained(root / name / kind)
            model = cls.from_pretrained(root / name / kind, device_map="cpu", dtype=torch.bfloat16)
            save_file(dict(decoded(model, plain)), root / name / kind / "decoded.safetensors.expected")
        for file in root.rglob("generation_config.json"):
            file.unlink()


if __name__ == "__main__":
    main()
