"""Every code of the small float formats, and F32 probes rounded by torch."""

import ml_dtypes
import numpy as np
import torch

from common import seed, write_tensors

FLOAT8 = {
    "e4m3fn": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e4m3fnuz": torch.float8_e4m3fnuz,
    "e5m2fnuz": torch.float8_e5m2fnuz,
    "e8m0fnu": torch.float8_e8m0fnu,
}


def all_codes():
    """Every code 0..255 of each format."""
    codes = torch.arange(256, dtype=torch.uint8)
    return {name: codes.clone().view(dtype) for name, dtype in FLOAT8.items()}


def around_midpoints(values):
    """The midpoints between neighbouring finite values, and the F32 numbers next to them."""
    values = np.unique(values[np.isfinite(values)]).astype(np.float64)
    midpoints = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    below = np.nextafter(midpoints, np.float32(-np.inf))
    above = np.nextafter(midpoints, np.float32(np.inf))
    return np.concatenate([midpoints, below, above])


def sample_of_16_bit(dtype, count):
    """Midpoints between neighbours of a 16-bit format, drawn at random."""
    codes = torch.randint(0, 0x7BFF, (count,), dtype=torch.int64)
    low = codes.to(torch.int16).view(dtype).float().numpy()
    high = (codes + 1).to(torch.int16).view(dtype).float().numpy()
    midpoints = ((low.astype(np.float64) + high.astype(np.float64)) / 2).astype(np.float32)
    return np.concatenate([midpoints, -midpoints])


def probes():
    """F32 inputs: codes, ties and their neighbours, range ends, special values, random ones."""
    seed("codes/encode")
    parts = []
    for tensor in all_codes().values():
        values = tensor.float().numpy()
        parts.append(values)
        parts.append(around_midpoints(values))
    e2m1 = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    parts.append(e2m1)
    parts.append(around_midpoints(e2m1))
    parts.append(sample_of_16_bit(torch.bfloat16, 256))
    parts.append(sample_of_16_bit(torch.float16, 256))

    edges = [4, 5, 6, 6.5, 7, 8, 224, 232, 240, 248, 256, 432, 448, 456, 464, 472, 480, 496, 512]
    edges += [49152, 53248, 57344, 59392, 61439, 61440, 61441, 65504, 65519, 65520, 65536, 1e6]
    edges += [3e38, 3.3961775e38, 3.4028235e38, np.inf, 0.0]
    edges = np.array(edges, dtype=np.float32)
    edges = np.concatenate([edges, np.nextafter(edges, np.float32(np.inf))])
    smallest = np.array([2.0**-power for power in range(1, 150)], dtype=np.float32)
    smallest = np.concatenate([smallest, smallest * np.float32(1.5), smallest * np.float32(1.25)])
    for part in (edges, smallest):
        parts.append(part)
        parts.append(-part)
    bits = [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 1, 0x80000001, 0x80000000]
    parts.append(np.array(bits, dtype=np.uint32).view(np.float32))
    bits = [0x3F800000, 0x3FB504F3, 0x3FC00000, 0x3FFFFFFF, 0x00400000, 0x00400001, 0x007FFFFF]
    bits += [0x00800000, 0x00C00000, 0x003FFFFF, 0x00200000, 0x7F000000, 0x7F400000, 0x7F7FFFFF]
    parts.append(np.array(bits, dtype=np.uint32).view(np.float32))

    exponents = torch.randint(-40, 40, (1024,)).float()
    parts.append((torch.randn(1024) * torch.exp2(exponents)).numpy())
    parts.append((torch.randn(512) * 30).numpy())
    parts.append((torch.randn(256) * 1e-3).numpy())
    any_bits = torch.randint(-(2**31), 2**31, (512,), dtype=torch.int64).to(torch.int32)
    parts.append(any_bits.view(torch.float32).numpy())
    everything = np.concatenate([part.astype(np.float32) for part in parts])
    unique_bits = np.unique(everything.view(np.uint32))
    return torch.from_numpy(unique_bits.view(np.float32).copy())


def main():
    codes = all_codes()
    write_tensors("codes", "codes", codes)
    write_tensors(
        "codes",
        "codes.expected",
        {f"{name}.f32": tensor.float() for name, tensor in codes.items()},
    )

    values = probes()
    answers = {"input": values}
    for name, dtype in FLOAT8.items():
        answers[f"to_{name}"] = values.to(dtype).view(torch.uint8)
    e2m1 = values.numpy().astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    answers["to_e2m1"] = torch.from_numpy(e2m1.copy())
    answers["to_bf16"] = values.to(torch.bfloat16)
    answers["to_f16"] = values.to(torch.float16)
    write_tensors("codes", "encode", answers)
    print(f"codes: {values.numel()} probes")


if __name__ == "__main__":
    main()
