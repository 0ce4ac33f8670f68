"""More formats of compressed-tensors: mxfp6-pack-quantized of 0.20 and, with OLD=1 and 0.11 (REF/ct_old), the sparse formats
and marlin-24, which newer versions no longer have.

marlin-24 has no decompressor: its expected values are the library's own quantisation and decoding of the packed weights.
"""

import json
import os
import sys

OLD = os.environ.get("OLD") == "1"
if OLD:
    sys.path.insert(0, os.environ.get("REF", ".reference") + "/ct_old")

import compressed_tensors  # noqa: E402
import torch  # noqa: E402
from common import seed, write_case  # noqa: E402
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme  # noqa: E402
from compressed_tensors.quantization.lifecycle.forward import dequantize, quantize  # noqa: E402

FAMILY = "compressed_tensors"


def layer(index):
    return f"model.layers.{index}.mlp.up_proj"


def config(format, args=None, **more):
    described = {
        "quant_method": "compressed-tensors",
        "format": format,
        "version": compressed_tensors.__version__,
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
    }
    if args:
        weights = json.loads(args.model_dump_json())
        group = {"targets": ["Linear"], "weights": weights, "input_activations": None}
        described["config_groups"] = {"group_0": group | {"output_activations": None}}
    return described | more


def mxfp6():
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.compressors.mxfp6.helpers import unpack_fp6_from_uint8

    args = QuantizationArgs(
        num_bits=6, type="float", symmetric=True, strategy="group", group_size=32,
        scale_dtype=torch.uint8, zp_dtype=torch.uint8,
    )
    compressor = BaseCompressor.get_value_from_registry("mxfp6-pack-quantized")
    seed("mxfp6")
    tensors, expected = {}, {}
    for index, (rows, cols) in enumerate(((9, 96), (16, 32))):
        packed = torch.randint(0, 256, (rows, cols * 3 // 4), dtype=torch.uint8)
        scale = torch.randint(1, 255, (rows, cols // 32), dtype=torch.uint8)
        scale.view(-1)[:2] = torch.tensor([1, 254], dtype=torch.uint8)
        codes = unpack_fp6_from_uint8(packed, rows, cols, dtype=torch.float32)
        factors = compressor._decompress_scale(scale, torch.float32)
        decoded = dequantize(x_q=codes, scale=factors, args=args, dtype=torch.float32)
        expected[f"{layer(index)}.weight"] = decoded
        tensors |= {f"{layer(index)}.weight_packed": packed, f"{layer(index)}.weight_scale": scale}
    write_case(FAMILY, "mxfp6", tensors, expected, config("mxfp6-pack-quantized", args))


def pruned(values, is_pairs):
    if not is_pairs:
        return torch.where(torch.rand(values.shape) < 0.6, torch.zeros_like(values), values)
    quads = values.reshape(-1, 4)
    kept = torch.rand(quads.shape).topk(2, 1).indices
    mask = torch.zeros_like(quads, dtype=torch.bool).scatter_(1, kept, True)
    return torch.where(mask, quads, torch.zeros_like(quads)).reshape(values.shape)


def sparse():
    from compressed_tensors.compressors.sparse_compressors.sparse_24_bitmask import Sparse24BitMaskTensor
    from compressed_tensors.compressors.sparse_compressors.sparse_bitmask import BitmaskTensor

    def parts(tensors):
        return {name.rsplit(".", 1)[1]: tensor for name, tensor in tensors.items()}

    for format, kind in (("sparse-bitmask", BitmaskTensor), ("sparse-24-bitmask", Sparse24BitMaskTensor)):
        is_pairs = kind is Sparse24BitMaskTensor
        seed(format)
        tensors, expected = {}, {}
        shapes = ((13, 44, torch.bfloat16), (5, 20 if is_pairs else 19, torch.float32), (3, 8, torch.float16))
        for index, (rows, cols, dtype) in enumerate(shapes):
            values = pruned((torch.randn(rows, cols) * 0.05).to(dtype), is_pairs)
            stored = kind.from_dense(values).dict(layer(index))
            tensors |= stored
            back = kind.from_compressed_data(**parts(stored)) if is_pairs else kind(**parts(stored))
            if not is_pairs:
                back.shape = [int(size) for size in back.shape]
            expected[f"{layer(index)}.weight"] = back.decompress().float()
        tensors[f"{layer(0)}.bias"] = torch.randn(13).bfloat16()
        sparsity = {"format": format, "global_sparsity": 0.5, "targets": [], "ignore": ["lm_head"]}
        name = format.replace("-", "_")
        write_case(FAMILY, name, tensors, expected, config("dense", sparsity_config=sparsity))
    for strategy in ("channel", "tensor"):
        name = f"sparse_24_fp8_{strategy}"
        seed(name)
        args = QuantizationArgs(num_bits=8, type="float", symmetric=True, strategy=strategy)
        values = pruned(torch.randn(9, 36) * 0.05, True)
        largest = values.abs().amax(1, keepdim=True) if strategy == "channel" else values.abs().max().reshape(1)
        scale = (largest.clamp(min=1e-6) / 448).float()
        codes = quantize(values, scale, None, args, dtype=torch.float8_e4m3fn)
        tensors = Sparse24BitMaskTensor.from_dense(codes).dict(layer(0))
        back = Sparse24BitMaskTensor.from_compressed_data(**parts(tensors)).decompress()
        expected = {f"{layer(0)}.weight": dequantize(back, scale, None, args=args)}
        tensors[f"{layer(0)}.weight_scale"] = scale
        sparsity = {"format": "sparse-24-bitmask", "targets": ["Linear"], "ignore": ["lm_head"]}
        write_case(FAMILY, name, tensors, expected, config("float-quantized", args, sparsity_config=sparsity))


def marlin24():
    from compressed_tensors.compressors.sparse_quantized_compressors.marlin_24 import Marlin24Compressor

    for bits, strategy, cols in ((4, "channel", 64), (4, "group", 384), (8, "group", 128)):
        name = f"marlin_24_int{bits}_{strategy}"
        seed(name)
        group = {"group_size": 128} if strategy == "group" else {}
        args = QuantizationArgs(num_bits=bits, type="int", symmetric=True, strategy=strategy, **group)
        values = pruned(torch.randn(64, cols) * 0.05, True).half()
        runs = values.float().reshape(64, -1, 128) if group else values.float()
        scale = (runs.abs().amax(-1, keepdim=not group) * 2 / (2**bits - 1)).clamp(min=1e-4).half()
        state = {
            f"{layer(0)}.weight": values,
            f"{layer(0)}.weight_scale": scale,
            f"{layer(0)}.weight_zero_point": torch.zeros_like(scale, dtype=torch.int8),
        }
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        compressor = Marlin24Compressor.__new__(Marlin24Compressor)
        tensors = compressor.compress(state, {layer(0): scheme})
        codes = quantize(x=values, scale=scale, zero_point=None, args=args)
        # Integers have no negative zero.
        expected = {f"{layer(0)}.weight": dequantize(x_q=codes.float() + 0.0, scale=scale.float(), args=args)}
        write_case(FAMILY, name, tensors, expected, config("marlin-24", args))


if OLD:
    sparse()
    marlin24()
else:
    mxfp6()
