"""quanto checkpoints: eight-bit integers and floats, and packed codes with a shift.

The expected values are the library's own, in the type of its scales.
"""

import optimum.quanto as quanto
import torch

from common import seed, write_case

LAYER = "model.layers.0.mlp.down_proj"
WEIGHT = f"{LAYER}.weight"


def case(name, qtype, shape, dtype=torch.bfloat16, bias=False):
    """Quantise a linear layer with the library and write its state_dict."""
    seed(name)
    linear = torch.nn.Linear(shape[1], shape[0], bias=bias).to(dtype)
    source = torch.randn(*shape) * 0.05
    source[0] *= 1e-3
    source[-1] = 0
    linear.weight.data = source.to(dtype)
    model = torch.nn.Sequential(linear)
    quanto.quantize(model, weights=qtype)
    quanto.freeze(model)
    decoded = model[0].weight.dequantize()
    tensors = {
        f"{LAYER}{key[1:]}": value
        for key, value in model.state_dict().items()
        if isinstance(value, torch.Tensor)
    }
    tensors["lm_head.weight"] = (torch.randn(4, 8) * 0.05).to(torch.bfloat16)
    write_case(
        "quanto",
        name,
        tensors,
        {WEIGHT: decoded.float()},
        {"quant_method": "quanto", "weights": qtype.name, "activations": None},
        {WEIGHT: decoded},
    )


def main():
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    for name, dtype in types.items():
        for qtype in (quanto.qint8, quanto.qint4, quanto.qint2, quanto.qfloat8_e4m3fn):
            case(f"{qtype.name}_{name}", qtype, (6, 40), dtype)
    case("qfloat8_e5m2_bf16", quanto.qfloat8_e5m2, (6, 40))
    # Rows that do not fill the last byte.
    case("qint4_odd", quanto.qint4, (7, 33))
    case("qint2_odd", quanto.qint2, (9, 21))
    case("qint8_one_row", quanto.qint8, (1, 33))
    # Rows of several groups, which only the bias reveals.
    case("qint4_groups_bias", quanto.qint4, (3, 256), torch.float16, bias=True)
    case("qint2_groups_bias", quanto.qint2, (5, 192), torch.float16, bias=True)
    case("qint8_bias", quanto.qint8, (6, 40), bias=True)


if __name__ == "__main__":
    main()
