"""Checkpoints of compressed-tensors 0.11: words with gaps between codes of 3, 5, 6 and 7 bits, and groups given by an index.

That version packs zero points and refuses to unpack them, so its own functions are put together for those.
"""

import sys

from common import REF, seed, write_case

sys.path.insert(0, str(REF / "ct_old"))

import compressed_tensors
import torch
from compressed_tensors.compressors.quantized_compressors.pack_quantized import (
    PackedQuantizationCompressor,
    unpack_from_int32,
)
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams

FAMILY = "compressed_tensors"
LAYER = "model.layers.0.self_attn.q_proj"
ROWS, COLUMNS, SIZE = 11, 48, 16


def described(args):
    """The quantization_config that the library writes."""
    group = QuantizationScheme(targets=["Linear"], weights=args)
    config = QuantizationConfig(
        config_groups={"group_0": group},
        format="pack-quantized",
        quantization_status="compressed",
        ignore=["lm_head"],
    ).model_dump(mode="json")
    config["version"] = compressed_tensors.__version__
    return config


def case(bits, symmetric, order, columns=COLUMNS, index=None):
    """Writes one weight in groups; `order` assigns columns to them."""
    name = f"old_int{bits}_{'sym' if symmetric else 'asym'}_{order}"
    if columns != COLUMNS:
        name += f"_{columns}"
    seed(f"{FAMILY}/{name}")
    dtype = torch.float16 if bits % 2 else torch.bfloat16
    source = (torch.randn(ROWS, columns) * 0.05 + 0.01).to(dtype)
    groups = torch.arange(columns, dtype=torch.int32) // SIZE
    if order == "shuffled":
        groups = groups[torch.randperm(columns)].contiguous()
    stored_order = order != "plain"
    actorder = "group" if stored_order else None
    args = QuantizationArgs(
        num_bits=bits, type="int", symmetric=symmetric, strategy="group", group_size=SIZE, actorder=actorder
    )
    spread = [source.float()[:, groups == group] for group in range(columns // SIZE)]
    low, high = (torch.stack([getattr(part, end)(1) for part in spread], 1) for end in ("amin", "amax"))
    scale, zeros = calculate_qparams(low, high, args)
    scale, zeros = scale.to(dtype), zeros.to(torch.int8)
    packer = object.__new__(PackedQuantizationCompressor)
    index = groups if stored_order else None
    zero_point = None if symmetric else zeros
    parts = packer.compress_weight(source, scale, args, zero_point=zero_point, g_idx=index)
    parts["weight_scale"] = scale
    if order == "unset":
        index = torch.full_like(groups, -1)
    if index is not None:
        parts["weight_g_idx"] = index
    shape = torch.Size((ROWS, columns))
    codes = unpack_from_int32(parts["weight_packed"], bits, shape)
    if not symmetric:
        shape = torch.Size((ROWS, columns // SIZE))
        zero_point = unpack_from_int32(parts["weight_zero_point"], bits, shape, packed_dim=0)
        parts["weight_zero_point"] = parts["weight_zero_point"].contiguous()
    decoded = dequantize(codes, scale.float(), zero_point, args, g_idx=index)
    stored = {f"{LAYER}.{part}": value for part, value in parts.items()}
    write_case(FAMILY, name, stored, {f"{LAYER}.weight": decoded}, described(args))


def main():
    for bits in (3, 4, 5, 6, 7, 8):
        for symmetric in (True, False):
            case(bits, symmetric, "plain")
    for bits in (3, 4, 8):
        for symmetric in (True, False):
            case(bits, symmetric, "shuffled")
    # An ascending index, and one that was never set.
    case(4, True, "ordered")
    case(4, False, "unset")
    # As many words as without gaps: only the version distinguishes them.
    case(3, True, "plain", columns=16)


if __name__ == "__main__":
    main()
