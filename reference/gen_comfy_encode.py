"""Weights quantised to ComfyUI's formats by comfy-kitchen's torch backend, and by convert_to_quant for FP8 in rows."""

import json

import comfy_kitchen as ck
import convert_to_quant.comfy.quant_ops as c2q
import torch
from comfy_kitchen.tensor.fp8 import TensorCoreFP8Layout as Fp8
from comfy_kitchen.tensor.int8 import TensorWiseINT8Layout as Int8
from comfy_kitchen.tensor.mxfp8 import TensorCoreMXFP8Layout as Mxfp8
from comfy_kitchen.tensor.nvfp4 import TensorCoreNVFP4Layout as Nvfp4
from common import seed, write_tensors

LAYER = "model.layers.0.mlp.down_proj"


def weights(name, dtype):
    """Rows of all magnitudes, a row of zeros and negative zeros; or plain noise."""
    values = torch.randn(144, 96) * 0.05
    if name == "magnitudes":
        values *= torch.exp2(torch.arange(144) % 25 - 12.0).unsqueeze(1)
        values[3] = 0
        values[4, ::2] = -0.0
        values[5, 16:32] = 0
    return values.to(dtype)


def nvfp4(values):
    scale = (values.abs().amax() / (448 * 6)).float()
    codes, blocks = ck.quantize_nvfp4(values, scale, pad_16x=False)
    params = Nvfp4.Params(
        scale=scale, orig_dtype=values.dtype, orig_shape=tuple(values.shape), block_scale=blocks
    )
    return Nvfp4, codes, params


def parts(target, values):
    """The stored tensors, without the marker, and the marker."""
    marker = {"format": {"comfy-nvfp4": "nvfp4", "comfy-mxfp8": "mxfp8"}.get(target, "int8_tensorwise")}
    if target == "comfy-fp8-row":
        codes, params = c2q.RowWiseFP8Layout.quantize(values)
        return {"weight": codes, "weight_scale": params["scale"]}, {"format": "float8_e4m3fn_rowwise"}
    if target == "comfy-fp8":
        layout, (codes, params) = Fp8, Fp8.quantize(values, dtype=torch.float8_e4m3fn)
        marker = {"format": "float8_e4m3fn"}
    elif target == "comfy-nvfp4":
        layout, codes, params = nvfp4(values)
    elif target == "comfy-mxfp8":
        layout, (codes, params) = Mxfp8, Mxfp8.quantize(values)
    else:
        is_row = target == "comfy-int8-row"
        layout, (codes, params) = Int8, Int8.quantize(values, per_channel=is_row)
        marker |= {"per_row": True} if is_row else {}
    stored = layout.state_dict_tensors(codes, params)
    return {f"weight{suffix}": tensor for suffix, tensor in stored.items()}, marker


TARGETS = ("comfy-fp8", "comfy-fp8-row", "comfy-nvfp4", "comfy-mxfp8", "comfy-int8", "comfy-int8-row")
with ck.use_backend("eager"):
    for target in TARGETS:
        for kind in ("noise", "magnitudes"):
            for dtype in (torch.float32, torch.bfloat16, torch.float16):
                # convert_to_quant computes in F32 whatever the type.
                if target == "comfy-fp8-row" and dtype != torch.float32:
                    continue
                name = f"{target}@{kind}_{str(dtype)[6:]}"
                seed(name)
                source = weights(kind, dtype)
                # MXFP8 pads rows to 32.
                source = source[:128] if target == "comfy-mxfp8" else source
                stored, marker = parts(target, source)
                tensors = {f"{LAYER}.{part}": tensor for part, tensor in stored.items()}
                text = json.dumps(marker).encode()
                tensors[f"{LAYER}.comfy_quant"] = torch.tensor(list(text), dtype=torch.uint8)
                tensors["source"] = source
                write_tensors("encode", name, tensors, {"format": "pt", "target": target})
                print(name)
