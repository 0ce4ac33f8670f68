"""The keyword arguments of commands, in the groups in which the command line has them. ``None`` and ``False`` are left out."""

from __future__ import annotations

import os
from typing import List, Mapping, TypedDict, Union

Path = Union[str, "os.PathLike[str]"]
Texts = Union[str, List[str]]
Pairs = Union[str, List[str], Mapping[str, Union[str, int]]]


class LimitOptions(TypedDict, total=False):
    """What a file may cost, and how models are read over a network."""

    limit: Pairs
    timeout: int
    network_concurrency: int
    download: bool


class ReadOptions(LimitOptions, total=False):
    """What to read, and how where the file leaves a choice."""

    only_this_file: bool
    select: str
    all: bool
    skip_unsupported: bool
    allow_unclaimed: bool
    npy_dtype: Pairs
    config: Path
    gptq_format: str
    arith: str
    include: Texts
    exclude: Texts


class InspectOptions(ReadOptions, total=False):
    """Of ``inspect``."""

    to: str
    metadata: bool
    context: int


class VerifyOptions(LimitOptions, total=False):
    """Of ``verify``."""

    against: Path
    provenance: Path


class NameOptions(TypedDict, total=False):
    """What tensors are called in the output."""

    rename: Texts
    prefix: str
    strip_prefix: str


class WriteOptions(ReadOptions, NameOptions, total=False):
    """Where and how the output is written."""

    force: bool
    threads: int
    dry_run: bool
    shard_size: Union[int, str]
    single_file: bool
    part: str
    provenance: Path


class RememberOptions(WriteOptions, total=False):
    """Of ``remember``."""

    to: str
    cast: str


class QuantizeOptions(WriteOptions, total=False):
    """How weights are quantised, and how GGUF files are split."""

    double_quant: bool
    block_size: int
    group_size: Union[int, str]
    same_codes: bool
    imatrix: Path
    pure: bool
    leave_output_tensor: bool
    output_tensor_type: str
    token_embedding_type: str
    tensor_type: Pairs
    rule: Pairs
    allow_nonfinite: bool
    allow_empty: bool
    report: bool
    keep_names: bool
    split_max_size: Union[int, str]
    split_max_tensors: int
    keep_split: bool


class ForgetOptions(QuantizeOptions, total=False):
    """Of ``forget``, ``compare`` and ``fit``."""


class ConvertOptions(QuantizeOptions, total=False):
    """Of ``convert``."""

    out_dtype: str
    cast: str
    quantize: Texts
    keep: Texts
    gguf_metadata: Path
    gguf_kv: Pairs
    gguf_remove_kv: Texts
    like: str
    no_mtp: bool
    mtp: bool
    vocab_only: bool
    fp8_as_q8: bool
    sentence_transformers_dense_modules: bool
    target_model_dir: Path
    mistral_format: bool
    bigendian: bool
    base: Path
    mmproj: bool
    with_mmproj: bool
