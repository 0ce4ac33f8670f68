"""Checkpoints of transformers' method `gemma`: packed linear layers and embeddings, decoded by its own modules."""

import json

import torch
from common import seed, write_case
from transformers.integrations.gemma_quant import QuantizedEmbedding, QuantizedLinear
from transformers.utils.quantization_config import GemmaQuantizationConfig

LAYERS = "model.language_model.layers"


def codes(like, bits):
    if bits == 8:
        return torch.randint(-128, 128, like.shape, dtype=torch.int8)
    return torch.randint(0, 256, like.shape, dtype=torch.uint8)


def case(name, linears, embeddings, **options):
    seed(name)
    tensors, expected = {}, {}
    for path, rows, cols, bits in linears:
        module = QuantizedLinear(cols, rows, bias=False, num_bits=bits)
        module.weight.data = codes(module.weight.data, bits)
        module.weight_scale.data = torch.rand(rows, 1) * 0.02 + 1e-5
        module.weight_scale.data[:3] = torch.tensor([[1e-40], [3e36], [0.0]])
        module.input_activation_scale.data = torch.tensor(0.0371)
        module.output_activation_scale.data = torch.tensor(0.0)
        tensors |= {f"{path}.{key}": value for key, value in module.state_dict().items()}
        expected[f"{path}.weight"] = module._dequantize_weights()
    for path, rows, cols, bits, blocks in embeddings:
        module = QuantizedEmbedding(rows, cols, torch.float32, embed_scale=48.0, num_bits=bits)
        module.embedding_quantized.data = codes(module.embedding_quantized.data, bits)
        module.embedding_scale.data = torch.rand(rows, blocks) * 0.05
        tensors |= {f"{path}.{key}": value for key, value in module.state_dict().items()}
        expected[f"{path}.weight"] = module.weight
    tensors[f"{LAYERS}.0.input_layernorm.weight"] = torch.randn(16).bfloat16()
    config = json.loads(GemmaQuantizationConfig(**options).to_json_string(use_diff=False))
    write_case("gemma", name, tensors, expected, config | {"quant_method": "gemma"})


for bits in (2, 4, 8):
    linears = [(f"{LAYERS}.0.self_attn.q_proj", 9, 24, bits)]
    case(f"int{bits}", linears, [], num_bits=bits, modules_to_not_convert=["lm_head"])
case(
    "mixed",
    [
        (f"{LAYERS}.0.mlp.gate_proj", 8, 24, 2),
        (f"{LAYERS}.0.mlp.down_proj", 12, 16, 4),
        (f"{LAYERS}.1.mlp.down_proj", 8, 20, 8),
    ],
    [
        ("model.language_model.embed_tokens", 10, 32, 4, 1),
        ("model.language_model.embed_tokens_per_layer", 6, 64, 2, 4),
    ],
    num_bits=4,
    quantize_embeddings=True,
    module_quant_configs={
        r"gate_proj$|up_proj$": {"num_bits": 2},
        "embed_tokens_per_layer": {"num_bits": 2},
        r"layers\.1\.mlp\.": {"num_bits": 8},
        "mlp": {"num_bits": 4},
    },
    modules_to_not_convert=["lm_head", "vision_tower"],
)
