"""Times the Python libraries that make these formats, on one thread, and prints a table in Markdown.

torch decodes FP8 by broadcasting, bitsandbytes NF4 by its own kernel, gguf-py blocks by NumPy. What is not installed is left
out by name.
"""

import statistics
import time

import numpy as np

ROWS, COLS = 2048, 8192


def seconds(run):
    run()
    times = []
    for _ in range(5):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def rows():
    import torch

    torch.set_num_threads(1)
    codes = torch.randint(0, 127, (ROWS, COLS), dtype=torch.uint8).view(torch.float8_e4m3fn)
    scales = torch.rand(ROWS // 128, COLS // 128)

    def fp8():
        wide = codes.to(torch.float32).view(ROWS // 128, 128, COLS // 128, 128) * scales[:, None, :, None]
        return wide.to(torch.bfloat16)

    yield "FP8 128x128", "BF16", f"torch {torch.__version__}", 2, fp8
    try:
        import bitsandbytes.functional as bnb

        packed, state = bnb.quantize_4bit(torch.randn(ROWS, COLS), blocksize=64, quant_type="nf4")
        yield "NF4", "F32", "bitsandbytes", 4, lambda: bnb.dequantize_4bit(packed, state)
    except ImportError:
        print("bitsandbytes is not installed.\n")
    try:
        import gguf

        values = np.random.default_rng(0).standard_normal((ROWS, COLS), dtype=np.float32)
        for kind in ("Q4_0", "Q8_0"):
            kind = gguf.GGMLQuantizationType[kind]
            blocks = gguf.quantize(values, kind)
            yield kind.name, "F32", "gguf-py", 4, lambda blocks=blocks, kind=kind: gguf.dequantize(blocks, kind)
        blocks = np.random.default_rng(0).integers(0, 256, (ROWS, COLS // 256 * 144), dtype=np.uint8)
        kind = gguf.GGMLQuantizationType.Q4_K
        yield "Q4_K", "F32", "gguf-py", 4, lambda: gguf.dequantize(blocks, kind)
    except ImportError:
        print("gguf is not installed.\n")


print("## The libraries in Python, one thread\n")
print("| weight | output | library | GB/s of output |")
print("|---|---|---|---|")
for weight, output, library, size, run in rows():
    print(f"| {weight} | {output} | {library} | {ROWS * COLS * size / seconds(run) / 1e9:.2f} |")
