"""Models in several GGUF files: a checkpoint split by the converter of llama.cpp, and a split model kept split by llama-quantize.

The oracles are `convert_hf_to_gguf.py` and `build/bin/llama-quantize` of llama.cpp, whose tree is at `$LLAMA`; gguf-py of the
same tree cuts the model that is quantised.
"""

import os
import shutil
import subprocess
import sys

import numpy as np
import torch

from common import FIXTURES, REF, seed
from gen_architectures import CONVERT

LLAMA = os.environ.get("LLAMA", str(REF / "llama"))
FOLDER = FIXTURES / "splits"


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fresh(name):
    """An empty folder of this name."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def told(name):
    files = sorted((FOLDER / name).iterdir())
    print(f"splits/{name}: {sum(path.stat().st_size for path in files)} bytes in {len(files)} files")


def converted(name, *options):
    """The checkpoint `llama3` of the architectures, split by the converter."""
    code = CONVERT.replace("sys.argv[4]]", "sys.argv[4], *sys.argv[5:]]")
    source, output = FIXTURES / "architectures" / "llama3", fresh(name) / "model.gguf"
    run(sys.executable, "-c", code, LLAMA, str(source), str(output), "bf16", *options)
    told(name)


def quantised():
    """A model of six layers, split in an unusual order, and each file quantised by llama-quantize."""
    sys.path.insert(0, f"{LLAMA}/gguf-py")
    import gguf

    seed("splits/stored")
    random = np.random.default_rng(torch.randint(2**31, (1,)).item())
    writer = gguf.GGUFWriter(str(fresh("stored") / "model.gguf"), "llama", split_max_tensors=9)
    writer.add_block_count(6)
    writer.add_context_length(128)
    writer.add_embedding_length(256)
    writer.add_feed_forward_length(256)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(64)
    writer.add_tokenizer_model("none")
    names = ["token_embd.weight", "output_norm.weight", "output.weight"]
    layer = ["attn_norm", "attn_q", "attn_v", "ffn_down", "ffn_gate"]
    names += [f"blk.{number}.{part}.weight" for number in range(6) for part in layer]
    # Some types of the mix depend on the number of earlier tensors, and files keep their order.
    random.shuffle(names)
    for name in names:
        shape = (256,) if "norm" in name else (2, 256)
        dtype = np.float32 if "norm" in name else np.float16
        writer.add_tensor(name, random.standard_normal(shape).astype(dtype))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    told("stored")
    first = sorted((FOLDER / "stored").iterdir())[0]
    for mix in ["q4_k_m", "q3_k_l"]:
        output = fresh(f"kept_{mix}") / "model.gguf"
        run(f"{LLAMA}/build/bin/llama-quantize", "--keep-split", str(first), str(output), mix)
        told(f"kept_{mix}")


def main():
    converted("size", "--split-max-size", "8K")
    converted("tensors", "--split-max-tensors", "9")
    quantised()


if __name__ == "__main__":
    main()
