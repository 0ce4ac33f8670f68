"""Writes the golden vectors of this folder with torch 2.13 and ml_dtypes 0.6 on CPU.

decode_FORMAT.f32   the values of the codes 0 to 255
encode_input.f32    numbers to encode: every value, every midpoint and its neighbours, range ends, subnormals, random
encode_FORMAT.u8    the codes they become
encode_*.u16        the BF16 and F16 words they become
"""

import ml_dtypes
import torch

FORMATS = {
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e4m3fnuz": torch.float8_e4m3fnuz,
    "e5m2fnuz": torch.float8_e5m2fnuz,
    "e8m0": torch.float8_e8m0fnu,
}


def write(name, tensor):
    with open(name, "wb") as file:
        file.write(tensor.numpy().tobytes())


torch.manual_seed(7)
infinity = torch.tensor(float("inf"))
codes = torch.arange(256, dtype=torch.uint8)
parts = []
for name, dtype in FORMATS.items():
    decoded = codes.view(dtype).float()
    write(f"decode_{name}.f32", decoded)
    values = decoded[torch.isfinite(decoded)].unique()
    middles = (values[1:] + values[:-1]) / 2
    if name in ("e4m3", "e5m2"):
        parts += [values, middles, torch.nextafter(middles, infinity), torch.nextafter(middles, -infinity)]
    elif name != "e8m0":
        parts += [middles[::3], values[::5]]
for exponent in (-149, -140, -128, -127, -126, -120, -24, -14, -2, -1, 0, 1, 2, 3, 100, 126, 127):
    for fraction in (1.0, 1.25, 1.5, 1.4999999, 1.5000001, 1.75, 1.9999999):
        parts.append(torch.tensor([fraction * 2.0**exponent, -fraction * 2.0**exponent]))
ends = [0.0, float("inf"), float("nan"), 240, 247.99, 248, 248.01, 256, 448, 464, 464.01, 480, 57344, 61439, 61440]
ends += [65519, 65520, 65536, 1e6, 3.4e38, 1e-45, 5.9e-39, 2.0**-127, 2.0**-127 + 2.0**-149, 4.9, 5.0, 5.1, 6.0, 7.0]
parts.append(torch.tensor([signed for end in ends for signed in (end, -end)]))
parts += [torch.randn(128) * 30, torch.randn(128) * 1e-3, torch.randn(128) * 3]
numbers = torch.cat(parts).float()
write("encode_input.f32", numbers)
for name, dtype in FORMATS.items():
    write(f"encode_{name}.u8", numbers.to(dtype).view(torch.uint8))
write("encode_bf16.u16", numbers.bfloat16().view(torch.int16))
write("encode_f16.u16", numbers.half().view(torch.int16))
e2m1 = numbers.numpy().astype(ml_dtypes.float4_e2m1fn).view("uint8")
write("encode_e2m1.u8", torch.from_numpy(e2m1))
