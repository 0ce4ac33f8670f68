#!/usr/bin/env python3
"""Writes an FP8 checkpoint of eight shards for trying out clusters: make_checkpoint.py DIRECTORY [MEGABYTES_PER_SHARD]."""
import json
import os
import struct
import sys

SHARDS, ROWS = 8, 4096


def shard(path, index, columns):
    """Writes one weight with a scale per block of 128x128 values; the codes are random, without NaN."""
    name = f"model.layers.{index}.mlp.down_proj.weight"
    scales = [ROWS // 128, columns // 128]
    scale_bytes = scales[0] * scales[1] * 4
    header = {
        name: {"dtype": "F8_E4M3", "shape": [ROWS, columns], "data_offsets": [0, ROWS * columns]},
        name + "_scale_inv": {
            "dtype": "F32",
            "shape": scales,
            "data_offsets": [ROWS * columns, ROWS * columns + scale_bytes],
        },
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    keep = bytes(code if code & 0x7F != 0x7F else 0 for code in range(256))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(ROWS):
            file.write(os.urandom(columns).translate(keep))
        file.write(struct.pack("<f", 0.01) * (scales[0] * scales[1]))
    return {key: os.path.basename(path) for key in header}


def main():
    directory = sys.argv[1]
    columns = max(1, (int(sys.argv[2]) if len(sys.argv) > 2 else 100) * 1_000_000 // ROWS // 128) * 128
    os.makedirs(directory)
    names = {}
    for index in range(SHARDS):
        names |= shard(f"{directory}/model-{index + 1:05}-of-{SHARDS:05}.safetensors", index, columns)
    with open(f"{directory}/model.safetensors.index.json", "w") as file:
        json.dump({"metadata": {}, "weight_map": names}, file)
    quantization = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
    with open(f"{directory}/config.json", "w") as file:
        json.dump({"torch_dtype": "bfloat16", "quantization_config": quantization}, file, indent=2)


if __name__ == "__main__":
    main()
