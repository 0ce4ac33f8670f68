"""BitNet checkpoints: packed weights of -1, 0 and 1, unpacked by transformers.

transformers keeps the scale out of the weight: `BitLinear` divides its result by it, `AutoBitLinear` multiplies. The
expected values are that operation on the unpacked weight, in F32.
"""

import os

os.environ["TORCHDYNAMO_DISABLE"] = "1"

import torch  # noqa: E402
from transformers import BitNetQuantConfig  # noqa: E402
from transformers.integrations.bitnet import pack_weights, unpack_weights  # noqa: E402

from common import seed, write_case  # noqa: E402

LAYER = "model.layers.0.mlp.down_proj"
WEIGHT = f"{LAYER}.weight"


def case(name, shape, dtype, linear_class=None, scale_shape=(1,), every_code=False):
    """Pack a random weight and write it with its scale."""
    seed(name)
    if every_code:
        packed = torch.arange(256, dtype=torch.uint8).reshape(2, 128)
    else:
        packed = pack_weights(torch.randint(-1, 2, shape).to(torch.int8))
    scale = (torch.rand(scale_shape) * 3 + 0.1).to(dtype)
    codes = unpack_weights(packed, torch.float32)
    multiplies = linear_class == "autobitlinear"
    decoded = codes * scale.float() if multiplies else codes / scale.float()
    if linear_class:
        config = BitNetQuantConfig(linear_class=linear_class).to_dict()
    else:
        config = {"quant_method": "bitnet", "modules_to_not_convert": None}
    tensors = {WEIGHT: packed, f"{WEIGHT}_scale": scale}
    tensors["lm_head.weight"] = (torch.randn(4, 8) * 0.05).to(torch.bfloat16)
    write_case("bitnet", name, tensors, {WEIGHT: decoded}, config)


def main():
    case("bitlinear_bf16", (12, 40), torch.bfloat16, "bitlinear")
    case("bitlinear_f32", (8, 33), torch.float32, "bitlinear", scale_shape=())
    case("autobitlinear_bf16", (12, 40), torch.bfloat16, "autobitlinear")
    case("autobitlinear_f16", (4, 7), torch.float16, "autobitlinear")
    case("no_class", (12, 40), torch.bfloat16)
    case("every_code", None, torch.bfloat16, "bitlinear", every_code=True)


if __name__ == "__main__":
    main()
