"""Weights quantised by bitsandbytes on CPU: codes, scales and quant states with the source values.

One thread, because torch splits the sum behind the mean of more than 32768 block maxima among its threads.
"""

import bitsandbytes
import bitsandbytes.functional as functional
import torch

from common import seed, write_tensors

torch.set_num_threads(1)

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def magnitudes(shape, dtype):
    """Noise with rows of very different magnitudes, and rows of zeros of both signs."""
    values = torch.randn(*shape)
    exponents = torch.linspace(-12, 9, shape[0]).round()
    values = values * torch.exp2(exponents).unsqueeze(1)
    values[1] = 0
    values[2] = -0.0
    return values.to(dtype)


def noise(shape, dtype):
    return (torch.randn(*shape) * 0.02).to(dtype)


def tiny(shape, dtype):
    """Subnormal numbers, such that their block maximum is below 1e-38, and very large ones."""
    values = torch.randn(*shape)
    scales = torch.tensor([1e-38, 1e-40, 3e-45, 2e-38, 1e-37, 6e-8, 1e-5, 3e37])
    values = values.clamp(-1, 1) * scales.repeat(shape[0])[: shape[0]].unsqueeze(1)
    return values.to(dtype).nan_to_num(posinf=60000.0, neginf=-60000.0)


def subnormal(shape, dtype):
    """Block maxima whose inverse is infinite."""
    return (torch.randn(*shape).clamp(-3, 3) * 1e-40).to(dtype)


def midpoints(quant_type, dtype):
    """Halfway between neighbouring codes, and one step to either side of it, at several block maxima."""
    code = functional.get_4bit_type(quant_type, device="cpu").sort().values
    middle = (code[1:] + code[:-1]) / 2
    infinity = torch.tensor(torch.inf)
    row = torch.cat(
        [middle, torch.nextafter(middle, infinity), torch.nextafter(middle, -infinity), code]
    )
    row = torch.cat([row, torch.tensor([1.0, -0.0, 0.0])])
    scales = torch.tensor([1.0, 0.5, 3.0, 0.1, 0.0123, 7e-5, 333.0, 1.1])
    return (row.unsqueeze(0) * scales.unsqueeze(1)).to(dtype)


def scale_midpoints():
    """Blocks of 32 whose maxima, less their mean of 2, lie halfway between neighbouring nested codes."""
    code = functional.create_dynamic_map()
    middle = ((code[1:] + code[:-1]) / 2)[::4]
    maxima = torch.cat([2 + middle, 2 - middle, torch.tensor([1.0, 3.0])])
    values = torch.zeros(len(maxima), 32)
    values[:, 5] = maxima
    return values


def four_bit(case, source, quant_type, block_size, nested):
    """One weight as a layer of bitsandbytes would save it."""
    weight = bitsandbytes.nn.Params4bit(
        source.clone(),
        requires_grad=False,
        quant_type=quant_type,
        blocksize=block_size,
        compress_statistics=nested,
    )._quantize("cpu")
    tensors = {"source": source, "weight": weight.data}
    for key, value in weight.quant_state.as_dict(packed=True).items():
        tensors[f"weight.{key}"] = value
    write_tensors("lethe", case, tensors)


def eight_bit(case, source):
    """One weight as `Linear8bitLt` saves it: through F16, regardless of its type."""
    weight = bitsandbytes.nn.Int8Params(source.clone(), requires_grad=False, has_fp16_weights=False)
    weight = weight._quantize("cpu")
    write_tensors("lethe", case, {"source": source, "weight": weight.CB, "SCB": weight.SCB})


def means():
    """`torch.mean` of as many numbers as there are block maxima in weights of many sizes."""
    counts = [1, 2, 7, 8, 9, 31, 32, 33, 100, 127, 128, 1000, 4097, 32769, 70001, 1100003]
    for count in counts:
        # A sequence that a test can draw for itself: 24 bits of a multiplicative congruence.
        states = [(index * 2654435761) % 2**32 for index in range(1, count + 1)]
        values = torch.tensor([state >> 8 for state in states], dtype=torch.float64)
        yield count, (values / 2**24).float().mean()


def main():
    for quant_type in ("nf4", "fp4"):
        for dtype in DTYPES:
            name = str(dtype).removeprefix("torch.")
            for source, values in (
                ("magnitudes", magnitudes),
                ("noise", noise),
                ("tiny", tiny),
                ("subnormal", subnormal),
            ):
                for nested in (False, True):
                    case = f"{quant_type}{'_nested' if nested else ''}_{source}_{name}"
                    seed(f"lethe/{case}")
                    four_bit(case, values((16, 64), dtype), quant_type, 64, nested)
            four_bit(f"{quant_type}_midpoints_{name}", midpoints(quant_type, dtype), quant_type, 64, False)
        for block_size in (32, 128, 256, 4096):
            case = f"{quant_type}_b{block_size}"
            seed(f"lethe/{case}")
            four_bit(case, noise((9, 160), torch.bfloat16), quant_type, block_size, False)
        for rows, columns in ((1, 1), (1, 64), (11, 70), (11, 33), (3, 65)):
            for nested in (False, True):
                case = f"{quant_type}{'_nested' if nested else ''}_{rows}x{columns}"
                seed(f"lethe/{case}")
                four_bit(case, noise((rows, columns), torch.bfloat16), quant_type, 64, nested)
        ragged = noise((5, 70), torch.float32)
        ragged[4] = 0
        four_bit(f"{quant_type}_zero_last_block", ragged, quant_type, 64, False)
        ragged[4] = torch.linspace(-1e-39, 1e-39, 70)
        four_bit(f"{quant_type}_tiny_last_block", ragged, quant_type, 64, False)
    seed("lethe/nested_blocks")
    four_bit("nf4_nested_blocks", noise((130, 152), torch.bfloat16), "nf4", 32, True)
    four_bit("nf4_nested_scale_midpoints", scale_midpoints(), "nf4", 32, True)
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        for source, values in (("magnitudes", magnitudes), ("noise", noise), ("tiny", tiny)):
            seed(f"lethe/int8_{source}_{name}")
            eight_bit(f"int8_{source}_{name}", values((16, 70), dtype))
    # Halves between codes, exactly: a row maximum of 127 makes the step one.
    halves = torch.arange(-127, 127.5, 0.5).repeat(3, 1) * torch.tensor([[1.0], [2.0], [0.25]])
    eight_bit("int8_halves", halves.half())
    counts, results = zip(*means())
    write_tensors(
        "lethe",
        "means",
        {"counts": torch.tensor(counts, dtype=torch.int64), "means": torch.stack(results)},
    )


if __name__ == "__main__":
    main()
