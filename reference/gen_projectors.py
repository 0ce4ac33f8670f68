"""Tiny multimodal checkpoints without their language models, and the projectors that the converter of llama.cpp (the tree at
`$LLAMA`) writes for them with `--mmproj`.

transformers or `towers.py` name and shape the tensors, and random numbers fill them. Of towers that the converter has one
size for, only the headers of both files are kept. Arguments name the cases to write;
without any, all are.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from gguf import GGUFReader
from safetensors.torch import load_file, save_file

from common import FIXTURES, REF, seed
from towers import LARGE_TOWERS, QWEN, TOWERS

LLAMA = os.environ.get("LLAMA", str(REF / "llama"))
FOLDER = FIXTURES / "projectors"
TEXT = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": 32,
    "pad_token_id": 0,
}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}}
AUDIO = {
    "num_mel_bins": 8,
    "encoder_layers": 3,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "d_model": 16,
    "max_source_positions": 10,
}
CONFORMER = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "output_proj_dims": 12,
    "subsampling_conv_channels": [8, 4],
}
PREPROCESSOR = {"image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 0.75, 1.0], "image_seq_length": 1}
BREAK = {"added_tokens_decoder": {"12": {"content": "[IMG_BREAK]"}}}


def gemma4():
    vision = {**VISION, "head_dim": 8, "num_key_value_heads": 2, "position_embedding_size": 6, "pooling_kernel_size": 2}
    text = {**TEXT, "global_head_dim": 8, "vocab_size_per_layer_input": 32, "hidden_size_per_layer_input": 8}
    text |= {"num_kv_shared_layers": 0, "layer_types": ["full_attention"]}
    return transformers.Gemma4Config(text_config=text, vision_config=vision, audio_config=CONFORMER)


def granite_speech():
    encoder = {"input_dim": 16, "num_layers": 2, "hidden_dim": 16, "feedforward_mult": 2, "num_heads": 2, "dim_head": 8}
    encoder |= {"output_dim": 8, "context_size": 8, "max_pos_emb": 8, "conv_kernel_size": 3, "conv_expansion_factor": 2}
    former = {"model_type": "blip_2_qformer", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    former |= {"intermediate_size": 24, "encoder_hidden_size": 16, "cross_attention_frequency": 1}
    sizes = {"downsample_rate": 2, "window_size": 4, "has_lora_adapter": False, "audio_token_index": 31}
    text = {**TEXT, "model_type": "granite"}
    return transformers.GraniteSpeechConfig(text_config=text, encoder_config=encoder, projector_config=former, **sizes)


def granite_speech_plus():
    config = granite_speech().to_dict()
    encoder = {**config["encoder_config"], "model_type": "granite_speech_plus_encoder", "cat_hidden_layers": [1]}
    former = {**config["projector_config"], "encoder_hidden_size": 32}
    own = {key: config[key] for key in ("downsample_rate", "window_size", "has_lora_adapter", "audio_token_index")}
    text = {**TEXT, "model_type": "granite"}
    return transformers.GraniteSpeechPlusConfig(text_config=text, encoder_config=encoder, projector_config=former, **own)


# The class, its configuration, and the types of the outputs.
CASES = {
    "gemma3": (
        "Gemma3ForConditionalGeneration",
        lambda: transformers.Gemma3Config(text_config=TEXT, vision_config=VISION, mm_tokens_per_image=1),
        ["f16", "bf16"],
    ),
    "gemma4": ("Gemma4ForConditionalGeneration", gemma4, ["f16"]),
    "qwen2_5_vl": (
        "Qwen2_5_VLForConditionalGeneration",
        lambda: transformers.Qwen2_5_VLConfig(
            text_config={**TEXT, **ROPE}, vision_config={**QWEN, "fullatt_block_indexes": [1, 3]}
        ),
        ["bf16"],
    ),
    "qwen3_vl": (
        "Qwen3VLForConditionalGeneration",
        lambda: transformers.Qwen3VLConfig(
            text_config={**TEXT, **ROPE},
            vision_config={**QWEN, "num_position_embeddings": 9, "deepstack_visual_indexes": [0, 2]},
        ),
        ["f16"],
    ),
    "mistral3": (
        "Mistral3ForConditionalGeneration",
        lambda: transformers.Mistral3Config(
            text_config={**TEXT, "model_type": "mistral"},
            vision_config={**VISION, "num_hidden_layers": 3, "model_type": "pixtral", "hidden_act": "gelu"},
            spatial_merge_size=2,
        ),
        ["bf16"],
    ),
    "qwen2_audio": (
        "Qwen2AudioForConditionalGeneration",
        lambda: transformers.Qwen2AudioConfig(audio_config=AUDIO, text_config={**TEXT, "model_type": "qwen2"}),
        ["f16"],
    ),
    "qwen4_exp": (
        "Qwen4ExpForConditionalGeneration",
        lambda: transformers.Qwen4ExpConfig(
            text_config=TEXT, vision_config={**QWEN, "num_position_embeddings": 9, "deepstack_visual_indexes": []}
        ),
        ["f16"],
    ),
    "gemma4_unified": (
        "Gemma4UnifiedForConditionalGeneration",
        lambda: transformers.Gemma4UnifiedConfig(
            text_config={**TEXT, "global_head_dim": 8, "layer_types": ["full_attention"]},
            vision_config={"patch_size": 2, "pooling_kernel_size": 2, "mm_embed_dim": 16, "mm_posemb_size": 6, "output_proj_dims": 16},
            audio_config={"audio_embed_dim": 20},
        ),
        ["f16", "bf16"],
    ),
    "granite_speech_plus": ("GraniteSpeechPlusForConditionalGeneration", granite_speech_plus, ["f16"]),
    "granite_speech": ("GraniteSpeechForConditionalGeneration", granite_speech, ["f16"]),
}
# Tensors of the language models, in front of which `model.` may be.
TEXT_NAMES = ("language_model.", "lm_head.", "embed_tokens.", "layers.", "norm.")


def write(name):
    seed(f"projectors/{name}")
    directory = FOLDER / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if name in TOWERS:
        config, shapes, preprocessor, types = TOWERS[name]
        (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        tensors = {key: random(key, shape, torch.bfloat16) for key, shape in shapes.items()}
        finish(name, directory, tensors, None if preprocessor is None else {**PREPROCESSOR, **preprocessor}, types)
        return
    class_name, config, types = CASES[name]
    model = getattr(transformers, class_name)(config()).to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tensors = load_file(f"{folder}/model.safetensors")
        shutil.copy(f"{folder}/config.json", directory / "config.json")
    kept = {}
    for key, value in tensors.items():
        if key.removeprefix("model.").startswith(TEXT_NAMES):
            continue
        if name == "gemma3":
            # The name in published models, the only one that the converter knows.
            key = key.replace("vision_tower.", "vision_tower.vision_model.")
        kept[key] = random(key, value.shape, value.dtype)
    finish(name, directory, kept, PREPROCESSOR, types)


def random(key, shape, dtype):
    values = torch.randn(shape) * 0.5
    if key.endswith("num_batches_tracked"):
        return values.long()
    return (values.abs() + 0.5 if key.endswith("running_var") else values).to(dtype)


def finish(name, directory, tensors, preprocessor, types):
    """Writes the tensors and the description of preprocessing, and converts the directory."""
    save_file(tensors, str(directory / "model.safetensors"), metadata={"format": "pt"})
    if preprocessor is not None:
        (directory / "preprocessor_config.json").write_text(json.dumps(preprocessor, indent=1) + "\n")
    if name == "mistral3":
        (directory / "tokenizer_config.json").write_text(json.dumps(BREAK, indent=1) + "\n")
    for kind in types:
        output = FOLDER / f"{name}.{kind}.expected.gguf"
        output.unlink(missing_ok=True)
        program = [sys.executable, f"{LLAMA}/convert_hf_to_gguf.py", str(directory), "--mmproj"]
        subprocess.run([*program, "--outtype", kind, "--outfile", str(output)], check=True)


# The converter lost the name of two norms of Gemma 3n with Gemma 4, and stops at them. gguf 0.18 had it.
WITH_NAME = """
import runpy, sys
tree, *sys.argv = sys.argv[1:]
sys.path[:0] = [tree, f"{tree}/gguf-py"]
import gguf
names = gguf.TensorNameMap.block_mappings_cfg
norm = gguf.MODEL_TENSOR.A_ENC_CONV1D_NORM
names[norm] = (*names[norm], "model.audio_tower.subsample_conv_projection.conv_{bid}.norm")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def program(name):
    """The converter, with the name it lacks for Gemma 3n."""
    script = f"{LLAMA}/convert_hf_to_gguf.py"
    return [sys.executable, "-c", WITH_NAME, LLAMA, script] if name == "gemma3n" else [sys.executable, script]


def write_heads(name):
    """Converts a large tower, whose values are zeros, and writes the headers of the input and of the output."""
    config, shapes, kind = LARGE_TOWERS[name]
    directory = FIXTURES / "large_projectors" / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        model, output = Path(folder) / name, Path(folder) / "output.gguf"
        model.mkdir()
        shutil.copy(directory / "config.json", model)
        types = {key: torch.int64 if key.endswith("num_batches_tracked") else torch.bfloat16 for key in shapes}
        tensors = {key: torch.zeros(shape, dtype=types[key]) for key, shape in shapes.items()}
        save_file(tensors, str(model / "model.safetensors"), metadata={"format": "pt"})
        options = [str(model), "--mmproj", "--outtype", kind, "--outfile", str(output)]
        subprocess.run([*program(name), *options], check=True)
        with open(model / "model.safetensors", "rb") as file:
            length = file.read(8)
            (directory / "input.head").write_bytes(length + file.read(int.from_bytes(length, "little")))
        with open(output, "rb") as file:
            (directory / f"{kind}.head").write_bytes(file.read(GGUFReader(output).data_offset))


if __name__ == "__main__":
    for name in sys.argv[1:] or [*CASES, *TOWERS, *LARGE_TOWERS]:
        (write_heads if name in LARGE_TOWERS else write)(name)
