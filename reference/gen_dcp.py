"""Distributed checkpoints of PyTorch, saved by one, two and four ranks.

The expected tensors are those that torch's own loader reads: `dcp_to_torch_save` with the keys
joined by dots, and `HuggingFaceStorageReader` for safetensors. They are compared with the tensors
that were saved.
"""

import os
import shutil
import tempfile
import zlib
from pathlib import Path

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from safetensors.torch import save_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

from common import FIXTURES, SEED

FAMILY = FIXTURES / "dcp"
TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64")
TYPES += ("bool", "float8_e4m3fn", "float8_e5m2", "complex64")
PLACEMENTS = {
    "rows": [Shard(0)],
    "columns": [Shard(1)],
    "replicated": [Replicate()],
    "grid": [Shard(0), Shard(1)],
    "twice": [Shard(0), Shard(0)],
}


def seed(case):
    torch.manual_seed(zlib.crc32(case.encode()) + SEED)


def whole_tensors():
    """The tensors before they are distributed: some do not divide evenly, one has few rows."""
    seed("tensors")
    return {
        "even": torch.randn(8, 12),
        "uneven": torch.randn(7, 5),
        "few": torch.randn(3, 4),
        "half": torch.randn(6, 8).bfloat16(),
        "cube": torch.randn(4, 6, 3),
        "numbers": torch.arange(16).reshape(-1, 1) * 3,
    }


def undistributed(kind):
    seed(kind)
    if kind == "types":
        state = {name: (torch.randn(3, 5) * 3).abs().to(getattr(torch, name)) for name in TYPES}
        state["scalar"] = torch.tensor(2.5)
        state["empty"] = torch.empty(0, 4)
        state["transposed"] = torch.randn(4, 6).t()
        state["slice"] = torch.randn(9, 9)[2:5, 1:8:2]
        return state
    if kind == "nested":
        layer = {"weight": torch.randn(4, 3), "bias": torch.randn(4)}
        model = {"layer": layer, "list": [torch.ones(2), {"x": torch.zeros(3)}]}
        pair = (1, torch.arange(3))
        return {"model": model, "step": 7, "name": "run", "pair": pair, 5: torch.full((2,), 5.0)}
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.enable_grad():
        model(torch.randn(5, 6)).sum().backward()
    optimizer.step()
    parts = get_state_dict(model, optimizer)
    return {"model": parts[0], "optim": parts[1], "epoch": 3}


def state_of(world, kind):
    if kind not in PLACEMENTS:
        return undistributed(kind)
    placements = PLACEMENTS[kind]
    shape = (2, world // 2) if len(placements) == 2 else (world,)
    mesh = init_device_mesh("cpu", shape)
    distribute = lambda tensor: distribute_tensor(tensor, mesh, placements, src_data_rank=None)
    return {name: distribute(tensor) for name, tensor in whole_tensors().items()}


def save(rank, world, case, kind, options, folder):
    os.chdir(folder)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world
    )
    state = state_of(world, kind)
    if options.get("safetensors"):
        writer = dcp.HuggingFaceStorageWriter(path=case, save_distributed=True)
    else:
        writer = dcp.FileSystemWriter(
            case,
            single_file_per_rank=not options.get("file_per_tensor"),
            thread_count=options.get("threads", 1),
        )
    dcp.save(state, storage_writer=writer)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def flat(value, path=()):
    """The tensors of a nested value, with their keys joined by dots."""
    if isinstance(value, torch.Tensor):
        return {".".join(map(str, path)): value.detach().clone().contiguous()}
    items = enumerate(value) if isinstance(value, (list, tuple)) else ()
    items = value.items() if isinstance(value, dict) else items
    return {
        name: tensor for key, item in items for name, tensor in flat(item, (*path, key)).items()
    }


def make(case, world, kind, **options):
    folder = tempfile.mkdtemp()
    arguments = (world, case, kind, options, folder)
    torch.multiprocessing.start_processes(save, arguments, nprocs=world, start_method="fork")
    directory = FAMILY / case
    shutil.rmtree(directory, ignore_errors=True)
    FAMILY.mkdir(parents=True, exist_ok=True)
    shutil.move(f"{folder}/{case}", directory)
    if options.get("safetensors"):
        loaded = {name: torch.zeros_like(tensor) for name, tensor in whole_tensors().items()}
        reader = dcp.HuggingFaceStorageReader(str(directory))
        dcp.load(loaded, storage_reader=reader, no_dist=True)
    else:
        dcp_to_torch_save(str(directory), f"{folder}/whole.pt")
        loaded = flat(torch.load(f"{folder}/whole.pt", weights_only=False))
    if kind in PLACEMENTS:
        for name, tensor in whole_tensors().items():
            assert torch.equal(loaded[name], tensor), (case, name)
    path = FAMILY / f"{case}.expected.safetensors"
    save_file(loaded, str(path))
    path.chmod(0o644)
    shutil.rmtree(folder)
    print(f"dcp/{case}: {sorted(os.listdir(directory))}")


def main():
    make("types", 1, "types")
    make("nested", 1, "nested")
    make("training", 1, "training")
    make("file_per_tensor", 1, "types", file_per_tensor=True)
    make("threads", 1, "types", threads=3)
    make("two_columns", 2, "columns")
    make("two_replicated", 2, "replicated")
    make("four_rows", 4, "rows")
    make("four_grid", 4, "grid")
    make("four_twice", 4, "twice")
    make("shards", 2, "rows", safetensors=True)
    make("shards_grid", 4, "grid", safetensors=True)


if __name__ == "__main__":
    main()
