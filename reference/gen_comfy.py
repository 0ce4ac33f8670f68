"""ComfyUI checkpoints: weights quantised and decoded by comfy-kitchen's torch backend, and by convert_to_quant for FP8
in rows and blocks and INT8 in blocks.

Low-rank factors of SVDQuant and the scales of rotated weights are dyadic, so that their sums are exact in every order.
"""

import dataclasses
import json

import comfy_kitchen as ck
import convert_to_quant.comfy.quant_ops as c2q
import torch
from comfy_kitchen.float_utils import to_blocked
from comfy_kitchen.tensor import QuantizedTensor
from comfy_kitchen.tensor.awq_w4a16 import TensorCoreAWQW4A16Layout as Awq
from comfy_kitchen.tensor.convrot_w4a4 import TensorCoreConvRotW4A4Layout as ConvRot
from comfy_kitchen.tensor.fp8 import TensorCoreFP8Layout as Fp8
from comfy_kitchen.tensor.int8 import TensorWiseINT8Layout as Int8
from comfy_kitchen.tensor.mxfp8 import TensorCoreMXFP8Layout as Mxfp8
from comfy_kitchen.tensor.nvfp4 import TensorCoreNVFP4Layout as Nvfp4
from comfy_kitchen.tensor.svdquant_w4a4 import TensorCoreSVDQuantW4A4Layout as SvdQuant
from comfy_kitchen.tensor.w4a8_int8 import AsymW4A8Int8Layout as W4a8
from common import seed, write_case

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def layer(index):
    return f"model.diffusion_model.blocks.{index}.attn.to_q"


def marker(**options):
    return torch.tensor(list(json.dumps(options).encode()), dtype=torch.uint8)


def weights(rows, cols, dtype=torch.float32):
    values = torch.randn(rows, cols) * 0.05
    values[0] = 0
    if rows > 2:
        values[1] *= 1e-4
        values[2] *= 300
    return values.to(dtype)


class Case:
    def __init__(self, name):
        self.name, self.tensors, self.expected, self.layers = name, {}, {}, {}
        seed(name)

    def add(self, index, layout, codes, params, options, in_header=False, bias=None, names=None):
        """Adds a weight under the names of its layout, decoded by the layout in F32."""
        name = layer(index)
        for suffix, tensor in layout.state_dict_tensors(codes, params).items():
            self.tensors[f"{name}.weight{(names or {}).get(suffix, suffix)}"] = tensor
        self.describe(index, options, in_header)
        params = dataclasses.replace(params, orig_dtype=torch.float32)
        decoded = QuantizedTensor(codes, layout.__name__, params).dequantize()
        self.expected[f"{name}.weight"] = decoded
        if bias:
            self.tensors[f"{name}.bias"] = torch.randn(params.orig_shape[0]).to(bias)

    def describe(self, index, options, in_header=False):
        if in_header:
            self.layers[layer(index)] = options
        else:
            self.tensors[f"{layer(index)}.comfy_quant"] = marker(**options)

    def write(self):
        metadata = None
        if self.layers:
            layers = {"format_version": "1.0", "layers": self.layers}
            metadata = {"_quantization_metadata": json.dumps(layers)}
        write_case("comfy", self.name, self.tensors, self.expected, metadata=metadata)


def floats():
    for name, dtype in (("float8_e4m3fn", E4M3), ("float8_e5m2", E5M2)):
        case = Case(f"{name}_marker")
        codes, params = Fp8.quantize(weights(7, 33, torch.bfloat16), dtype=dtype)
        case.add(0, Fp8, codes, params, {"format": name}, bias=torch.bfloat16)
        case.tensors[f"{layer(0)}.input_scale"] = torch.tensor(0.5)
        case.write()
    case = Case("scaled_fp8")
    case.tensors["scaled_fp8"] = torch.zeros(2).to(E4M3)
    codes, params = Fp8.quantize(weights(9, 20), dtype=E4M3)
    case.add(0, Fp8, codes, params, {})
    del case.tensors[f"{layer(0)}.comfy_quant"]
    case.tensors[f"{layer(0)}.scale_weight"] = case.tensors.pop(f"{layer(0)}.weight_scale")
    case.tensors[f"{layer(0)}.scale_input"] = torch.tensor(1.0)
    case.write()
    case = Case("float8_rowwise")
    codes, params = c2q.RowWiseFP8Layout.quantize(weights(7, 12))
    case.tensors |= {f"{layer(0)}.weight": codes, f"{layer(0)}.weight_scale": params["scale"]}
    case.describe(0, {"format": "float8_e4m3fn_rowwise", "orig_dtype": "torch.float32"})
    decoded = c2q.RowWiseFP8Layout.dequantize(codes, params["scale"], torch.float32)
    case.expected[f"{layer(0)}.weight"] = decoded
    case.write()
    for name, layout in (
        ("float8_e4m3fn_blockwise", c2q.BlockWiseFP8Layout),
        ("int8_blockwise", c2q.BlockWiseINT8Layout),
    ):
        case = Case(name)
        codes, params = layout.quantize(weights(16, 24), block_size=8, is_weight=True)
        case.tensors |= {f"{layer(0)}.weight": codes, f"{layer(0)}.weight_scale": params["scale"]}
        case.describe(0, {"format": name, "group_size": 8})
        decoded = layout.dequantize(
            codes, params["scale"], 8, is_weight=True, orig_dtype=torch.float32
        )
        case.expected[f"{layer(0)}.weight"] = decoded
        case.write()


def nvfp4():
    for in_header in (False, True):
        case = Case("nvfp4_header" if in_header else "nvfp4_marker")
        for index, (rows, cols) in enumerate(((16, 80), (144, 16))):
            codes, params = Nvfp4.quantize(weights(rows, cols, torch.bfloat16))
            options = {"format": "nvfp4"}
            case.add(index, Nvfp4, codes, params, options, in_header, torch.bfloat16)
        case.write()
    case = Case("nvfp4_rows")
    values = weights(7, 48)
    scale = (values.abs().amax() / (448 * 6)).float()
    codes, blocks = ck.quantize_nvfp4(values, scale, pad_16x=False)
    params = Nvfp4.Params(
        scale=scale, orig_dtype=torch.float32, orig_shape=(7, 48), block_scale=blocks
    )
    case.add(0, Nvfp4, codes, params, {"format": "nvfp4"})
    case.tensors[f"{layer(0)}.weight_scale"] = blocks.view(torch.uint8)
    case.write()
    case = Case("nvfp4_tile")
    values = torch.randn(128, 64) * torch.exp2(torch.arange(512.0) % 13 - 6).reshape(
        128, 4
    ).repeat_interleave(16, 1)
    codes, params = Nvfp4.quantize(values)
    case.add(0, Nvfp4, codes, params, {"format": "nvfp4"})
    case.write()


def mxfp8():
    for in_header in (False, True):
        case = Case("mxfp8_header" if in_header else "mxfp8_marker")
        for index, (rows, cols) in enumerate(((32, 160), (160, 32))):
            codes, params = Mxfp8.quantize(weights(rows, cols, torch.bfloat16))
            case.add(index, Mxfp8, codes, params, {"format": "mxfp8"}, in_header)
        case.write()
    case = Case("mxfp8_codes")
    codes = torch.arange(512, dtype=torch.int64).to(torch.uint8).reshape(8, 64)
    exponents = torch.randint(0, 255, (8, 2), dtype=torch.uint8)
    exponents[:3, 0] = torch.tensor([0, 1, 254])
    scale = to_blocked(exponents, flatten=False).view(torch.float8_e8m0fnu)
    params = Mxfp8.Params(scale=scale, orig_dtype=torch.float32, orig_shape=(8, 64))
    case.add(0, Mxfp8, codes.view(E4M3), params, {"format": "mxfp8"})
    case.write()


def int8():
    case = Case("int8_tensorwise")
    for index, per_row in enumerate((False, True)):
        codes, params = Int8.quantize(weights(7, 33, torch.bfloat16), per_channel=per_row)
        options = {"format": "int8_tensorwise", "per_row": per_row}
        case.add(index, Int8, codes, params, options, bias=torch.bfloat16)
    case.write()
    case = Case("int8_unnamed")
    codes, params = Int8.quantize(weights(6, 24), per_channel=True)
    case.add(0, Int8, codes, params, {"convrot": False, "per_row": True})
    case.write()
    case = Case("int8_convrot")
    for index, (rows, group, groups) in enumerate(((5, 256, 1), (3, 16, 3), (6, 4, 5))):
        cols = group * groups
        codes = torch.randint(-127, 128, (rows, cols), dtype=torch.int8)
        params = Int8.Params(
            scale=torch.exp2(torch.randint(-12, 3, (rows, 1)).float()),
            orig_dtype=torch.float32,
            orig_shape=(rows, cols),
            convrot=True,
            convrot_groupsize=group,
        )
        options = {"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": group}
        if index == 0:
            del options["convrot_groupsize"]
        elif index == 1:
            options = {"format": "int8_tensorwise", "params": options}
        case.add(index, Int8, codes, params, options)
    case.write()


def four_bits():
    case = Case("convrot_w4a4")
    codes = torch.randint(0, 256, (5, 32), dtype=torch.uint8).view(torch.int8)
    params = ConvRot.Params(
        scale=torch.exp2(torch.randint(-12, 3, (5,)).float()),
        orig_dtype=torch.float32,
        orig_shape=(5, 64),
        convrot_groupsize=16,
    )
    case.add(0, ConvRot, codes, params, {"format": "convrot_w4a4", "convrot_groupsize": 16})
    case.write()
    case = Case("w4a8")
    for index, (rows, group, bits, book, dtype, corrected) in enumerate(
        (
            (6, 16, 4, True, E4M3, False),
            (5, 16, 6, False, E4M3, False),
            (7, 8, 4, False, torch.float32, True),
        )
    ):
        codes, params = W4a8.quantize(
            torch.randn(rows, 64) * 0.05,
            group_size=group,
            convrot_groupsize=64,
            scale_dtype=dtype,
            bits=bits,
            codebook=book,
            symmetric=True,
        )
        correction = torch.randint(-64, 65, (64 // group, rows)).float() / 4096 if corrected else None
        params = dataclasses.replace(
            params, s_channel=torch.exp2(torch.randint(-12, -3, (rows,)).float()), correction=correction
        )
        options = {"format": "asym_w4a8_int8", "group_size": group, "convrot_groupsize": 64}
        case.add(index, W4a8, codes, params, options, bias=torch.bfloat16)
        if index == 1:
            case.tensors[f"{layer(index)}.weight_s_rel"] = params.scale.view(torch.uint8)
    case.write()
    case = Case("awq_w4a16")
    for index, (rows, cols, group, dtype) in enumerate(
        ((7, 128, 64, torch.bfloat16), (5, 32, 16, torch.float16))
    ):
        codes = torch.randint(0, 256, (rows, cols // 2), dtype=torch.uint8).view(torch.int8)
        params = Awq.Params(
            scale=(torch.rand(cols // group, rows) * 0.02 + 1e-4).to(dtype),
            zeros=(torch.randn(cols // group, rows) * 0.05).to(dtype),
            orig_dtype=torch.float32,
            orig_shape=(rows, cols),
            group_size=group,
        )
        options = {"format": "awq_w4a16"} | ({"group_size": group} if group != 64 else {})
        case.add(index, Awq, codes, params, options, names={"_zeros": "_zero"} if index else None)
    case.write()


def svdquant():
    for is_tiled in (False, True):
        case = Case("svdquant_tiled" if is_tiled else "svdquant")
        rows, cols, rank, dtype = (128, 64, 4, torch.bfloat16) if is_tiled else (7, 128, 8, torch.float16)
        codes = torch.randint(0, 256, (rows, cols // 2), dtype=torch.uint8).view(torch.int8)
        scale = (torch.rand(cols // 64, rows) * 0.02 + 1e-4).to(dtype)
        smooth = (torch.rand(cols) * 3 + 0.05).to(dtype)
        down = (torch.randint(-8, 9, (cols, rank)).float() / 64).to(dtype)
        up = (torch.randint(-8, 9, (rows, rank)).float() / 64).to(dtype)
        options = {"format": "svdquant_w4a4"}
        name, inner = layer(0), "weight_"
        if is_tiled:
            codes = codes.view(1, 32, 4, 1, 32).permute(0, 3, 1, 2, 4).reshape(1, 1, 32, 128)
            scale, up = scale.view(1, 1, 128), up.view(1, 128, rank).permute(0, 2, 1)
            options["layout"], inner = "kitchen_tile_packed_w4a4", ""
        params = SvdQuant.Params(
            scale=scale.float().contiguous(),
            orig_dtype=torch.float32,
            orig_shape=(rows, cols),
            proj_down=down.float(),
            proj_up=up.float().contiguous(),
            smooth_factor=smooth.float(),
        )
        case.expected[f"{name}.weight"] = SvdQuant.dequantize(codes.contiguous(), params)
        case.tensors |= {
            f"{name}.weight": codes,
            f"{name}.weight_scale": scale,
            f"{name}.{inner}proj_down": down,
            f"{name}.{inner}proj_up": up,
            f"{name}.{inner}smooth_factor": smooth,
        }
        case.describe(0, options)
        case.write()


with ck.use_backend("eager"):
    for family in (floats, nvfp4, mxfp8, int8, four_bits, svdquant):
        family()
