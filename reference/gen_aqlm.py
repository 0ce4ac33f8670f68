"""AQLM checkpoints: random codes and codebooks, packed and decoded by aqlm's own functions."""

import torch
from aqlm.utils import _dequantize_weight, get_int_dtype, pack_int_data, unpack_int_data
from common import seed, write_case

LAYER = "model.layers.{}.self_attn.q_proj"


def case(name, inputs, outputs, books, bits, dtype, shapes, scales=()):
    seed(name)
    tensors, expected = {}, {}
    for index, (rows, cols) in enumerate(shapes):
        module = LAYER.format(index)
        codebooks = (torch.randn(books, 2**bits, outputs, inputs) * 0.5).to(dtype)
        codes = torch.randint(0, 2**bits, (rows // outputs, cols // inputs, books))
        scale = (torch.rand(rows // outputs, 1, 1, 1) * 0.1 + 1e-3).to(dtype)
        for at, value in enumerate(scales):
            scale[at] = value
        packed = pack_int_data(codes.clone(), bits)
        assert packed.dtype == get_int_dtype(bits)
        tensors |= {f"{module}.codes": packed, f"{module}.codebooks": codebooks, f"{module}.scales": scale}
        if index == 1:
            tensors[f"{module}.bias"] = torch.randn(rows).to(dtype)
        unpacked = unpack_int_data(packed, bits)
        expected[f"{module}.weight"] = _dequantize_weight(unpacked, codebooks.float(), scale.float())
    tensors["model.norm.weight"] = torch.randn(8).to(dtype)
    config = {
        "quant_method": "aqlm",
        "in_group_size": inputs,
        "out_group_size": outputs,
        "num_codebooks": books,
        "nbits_per_codebook": bits,
        "linear_weights_not_to_quantize": ["model.norm.weight", "lm_head.weight"],
    }
    write_case("aqlm", name, tensors, expected, config)


case("1x8_f16", 8, 1, 1, 8, torch.float16, [(12, 40), (7, 16)])
case("2x8_bf16", 8, 1, 2, 8, torch.bfloat16, [(9, 24)], [1e-38, 1e37, 0.0])
case("3x6_outputs_f16", 4, 2, 3, 6, torch.float16, [(12, 20), (6, 8)])
case("1x12_f16", 2, 1, 1, 12, torch.float16, [(12, 16)])
case("1x5_outputs_bf16", 8, 4, 1, 5, torch.bfloat16, [(16, 24)])
