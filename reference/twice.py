"""Which libraries are not idempotent: the share of values that change when decoded weights are quantised again, by target.

    python twice.py
"""

import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

import gen_encode as encode
from common import seed


def again(target, once):
    """`once` quantises and dequantises values."""
    seed(f"twice/{target}")
    first = once(torch.randn(128, 256) * 0.05)
    second = once(first)
    print(f"{target:12} {(first != second).float().mean():8.2%}")


def compressed(form, **args):
    args = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)

    def once(values):
        compressor = BaseCompressor.get_value_from_registry(form)
        return compressor.decompress(encode.compress(values, form, args), scheme)["weight"].float()

    return once


def mlx(**args):
    import mlx.core as mx
    import numpy

    def once(values):
        made = mx.quantize(mx.array(values.numpy()), **args)
        return torch.from_numpy(numpy.array(mx.dequantize(*made, **args)).copy())

    return once


def hqq(bits):
    from hqq.core.quantize import Quantizer

    def once(values):
        rounds = {"round_zero": bits == 4, "optimize": False, "axis": 1}
        codes, meta = Quantizer.quantize(values, nbits=bits, group_size=64, device="cpu", **rounds)
        return Quantizer.dequantize(codes, {**meta, "compute_dtype": torch.float32})

    return once


def main():
    group = {"strategy": "group", "group_size": 128}
    e4m3 = {"scale_dtype": torch.float8_e4m3fn, "zp_dtype": torch.float8_e4m3fn}
    again("fp8-channel", compressed("float-quantized", num_bits=8, type="float", symmetric=True, strategy="channel"))
    again("w8a8", compressed("int-quantized", num_bits=8, type="int", symmetric=True, strategy="channel"))
    again("w4a16", compressed("pack-quantized", num_bits=4, type="int", symmetric=True, **group))
    again("w4a16-asym", compressed("pack-quantized", num_bits=4, type="int", symmetric=False, **group))
    nvfp4 = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group", "group_size": 16}
    again("nvfp4", compressed("nvfp4-pack-quantized", **nvfp4, **e4m3))
    for bits in (2, 3, 4, 8):
        again(f"mlx-{bits}bit", mlx(group_size=64, bits=bits))
    for bits in (1, 2, 4, 8):
        again(f"hqq-{bits}bit", hqq(bits))


if __name__ == "__main__":
    main()
