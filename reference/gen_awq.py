"""AWQ checkpoints of the GEMM layout, packed and dequantised by AutoAWQ."""

import torch
from awq.modules.linear.gemm import WQLinear_GEMM
from awq.quantize.quantizer import AwqQuantizer
from awq.utils.packing_utils import dequantize_gemm

from common import seed, write_case

LAYER = "model.layers.0.mlp.up_proj"


def config(group_size, zero_point=True):
    """The quantization_config that AutoAWQ writes."""
    return {
        "quant_method": "awq",
        "bits": 4,
        "group_size": group_size,
        "version": "gemm",
        "zero_point": zero_point,
        "modules_to_not_convert": None,
    }


def decode(qweight, qzeros, scales, group_size):
    """F32 values [out, in] as AutoAWQ computes them."""
    values = dequantize_gemm(qweight, qzeros, scales.float(), 4, group_size)
    native = dequantize_gemm(qweight, qzeros, scales, 4, group_size)
    assert torch.equal(values.to(scales.dtype), native)
    return values.T


def save(case, qweight, qzeros, scales, group_size, settings, bias=None):
    """Write one layer and what it decodes to."""
    tensors = {
        f"{LAYER}.qweight": qweight,
        f"{LAYER}.qzeros": qzeros,
        f"{LAYER}.scales": scales,
    }
    if bias is not None:
        tensors[f"{LAYER}.bias"] = bias
    expected = {f"{LAYER}.weight": decode(qweight, qzeros, scales, group_size)}
    write_case("awq", case, tensors, expected, settings)


def random_words(*shape):
    """Any 32-bit words."""
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int64).to(torch.int32)


def packed_cases():
    """Random weights, quantised and packed by AutoAWQ."""
    for group_size, inputs, outputs, bias in (
        (128, 128, 32, False),
        (32, 64, 32, False),
        (64, 64, 32, True),
        (-1, 32, 32, False),
    ):
        case = f"gemm_g{group_size if group_size > 0 else 'all'}"
        seed(f"awq/{case}")
        width = group_size if group_size > 0 else inputs
        linear = torch.nn.Linear(inputs, outputs, bias=bias).half()
        linear.weight.data = (torch.randn(outputs, inputs) * 0.05).half()
        finder = object.__new__(AwqQuantizer)
        finder.group_size = width
        finder.w_bit = 4
        finder.zero_point = True
        weight, scales, zeros = finder.pseudo_quantize_tensor(linear.weight.data)
        linear.weight.data = weight
        made = WQLinear_GEMM.from_linear(
            linear, 4, width, scales=scales.t().contiguous(), zeros=zeros.t().contiguous()
        )
        settings = config(group_size)
        save(case, made.qweight, made.qzeros, made.scales, width, settings, made.bias)


def random_cases():
    """Random words, so that every code and zero point occurs."""
    for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        case = f"gemm_random_{name}"
        seed(f"awq/{case}")
        qweight = random_words(32, 5)
        qzeros = random_words(2, 5)
        qzeros[0, 0] = -1
        qzeros[1, 1] = 0
        scales = (torch.rand(2, 40) * 0.01).to(dtype)
        save(case, qweight, qzeros, scales, 16, config(16))


def symmetric_case():
    """A symmetric checkpoint: `zero_point` is false and every stored zero point is 8."""
    eight_everywhere = -0x77777778
    case = "gemm_symmetric"
    seed(f"awq/{case}")
    qweight = random_words(64, 2)
    qzeros = torch.full((2, 2), eight_everywhere, dtype=torch.int32)
    scales = (torch.rand(2, 16) * 0.01).half()
    save(case, qweight, qzeros, scales, 32, config(32, zero_point=False))


def main():
    packed_cases()
    random_cases()
    symmetric_case()


if __name__ == "__main__":
    main()
