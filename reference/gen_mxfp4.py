"""MXFP4 checkpoints: experts of gpt-oss, and of DeepSeek-V4 with its eight-bit floats.

The oracle is transformers: `convert_moe_packed_tensors` for gpt-oss, and the dequantisation of its fine-grained
FP8 for DeepSeek-V4.
"""

import torch
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from common import seed, write_case

E8M0 = torch.float8_e8m0fnu
EXPERTS = "model.layers.0.mlp.experts"
GPT_OSS = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ],
}
DEEPSEEK = {
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "quant_method": "fp8",
    "scale_fmt": "ue8m0",
    "weight_block_size": [128, 128],
}


def random_bytes(*shape):
    """Bytes of any value."""
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def gpt_oss():
    """Stacks of every kind of shape, with biases."""
    for case, experts, shapes in (
        ("gpt_oss", 2, (("gate_up_proj", 10, 2), ("down_proj", 5, 1))),
        ("gpt_oss_tall", 1, (("down_proj", 67, 1),)),
        ("gpt_oss_wide", 2, (("down_proj", 3, 7),)),
        ("gpt_oss_untold", 3, (("gate_up_proj", 4, 1),)),
    ):
        seed(case)
        tensors, expected = {}, {}
        for name, outputs, count in shapes:
            blocks = random_bytes(experts, outputs, count, 16)
            scales = torch.randint(110, 135, (experts, outputs, count), dtype=torch.uint8)
            tensors[f"{EXPERTS}.{name}_blocks"] = blocks
            tensors[f"{EXPERTS}.{name}_scales"] = scales
            tensors[f"{EXPERTS}.{name}_bias"] = torch.randn(experts, outputs).to(torch.bfloat16)
            decoded = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
            expected[f"{EXPERTS}.{name}"] = decoded
        write_case("mxfp4", case, tensors, expected, None if "untold" in case else GPT_OSS)

    case = "gpt_oss_exponents"
    seed(case)
    blocks = random_bytes(1, 16, 1, 16)
    exponents = [0, 1, 2, 3, 22, 23, 24, 104, 126, 127, 128, 150, 252, 253, 254, 255]
    scales = torch.tensor(exponents, dtype=torch.uint8).reshape(1, 16, 1)
    write_case(
        "mxfp4",
        case,
        {f"{EXPERTS}.down_proj_blocks": blocks, f"{EXPERTS}.down_proj_scales": scales},
        {f"{EXPERTS}.down_proj": convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)},
        GPT_OSS,
    )


def dequantised(weight, scales):
    """A weight dequantised by transformers."""
    return Fp8Dequantize(None)._dequantize_one(weight, scales, output_dtype=torch.float32)


def deepseek():
    """Four-bit experts and eight-bit attention, with the names of DeepSeek and of transformers."""
    case = "deepseek_v4"
    seed(case)
    expert, attention = "layers.0.ffn.experts.0.w1", "layers.0.attn.wq_a"
    codes = random_bytes(5, 48).view(torch.int8)
    scales = torch.randint(110, 135, (5, 3), dtype=torch.uint8).view(E8M0)
    eight = random_bytes(128, 2).view(torch.float8_e4m3fn)
    one = torch.tensor([[121]], dtype=torch.uint8).view(E8M0)
    tensors = {
        f"{expert}.weight": codes,
        f"{expert}.scale": scales,
        f"{attention}.weight": eight,
        f"{attention}.scale": one,
        "layers.0.attn_norm.weight": torch.randn(4).to(torch.bfloat16),
    }
    expected = {
        f"{expert}.weight": dequantised(codes, scales),
        f"{attention}.weight": dequantised(eight, one),
    }
    write_case("mxfp4", case, tensors, expected, DEEPSEEK)

    case = "deepseek_v4_exponents"
    seed(case)
    exponents = [0, 1, 2, 126, 127, 128, 252, 253, 254, 255]
    codes = random_bytes(len(exponents), 16).view(torch.int8)
    scales = torch.tensor(exponents, dtype=torch.uint8).reshape(-1, 1).view(E8M0)
    tensors = {f"{expert}.weight": codes, f"{expert}.scale": scales}
    write_case("mxfp4", case, tensors, {f"{expert}.weight": dequantised(codes, scales)}, DEEPSEEK)

    for name, dtype in (("e8m0", E8M0), ("f32", torch.float32)):
        case = f"stacked_{name}"
        seed(case)
        codes = random_bytes(3, 4, 32).view(torch.int8)
        scales = torch.randint(110, 135, (3, 4, 2), dtype=torch.uint8).view(E8M0)
        if dtype == torch.float32:
            scales = scales.float() * 1.3
        parameter = f"{EXPERTS}.down_proj"
        write_case(
            "mxfp4",
            case,
            {parameter: codes, f"{parameter}_scale_inv": scales},
            {parameter: dequantised(codes, scales)},
            {**DEEPSEEK, "expert_dtype": "fp4"},
        )


def main():
    gpt_oss()
    deepseek()


if __name__ == "__main__":
    main()
