"""Gives single tensors types of their own with llama.cpp and with `amn forget`, and compares what both write: every type and every byte.

    python tensor_types.py path/to/amn path/to/libllama.so

The oracle is `llama_model_quantize` of libllama, which is all that llama-quantize does after reading its options; of those it makes
the expressions of `--tensor-type` lower case. Libraries that libllama needs must be beside it.
"""

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

LAYERS = 8
PARTS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_down", "ffn_gate", "ffn_up"]

# A mix, types of single tensors, and of the output and the embedding.
CASES = [
    ("q4_k_m", [], None, None),
    ("q4_k_m", ["attn_v=q8_0"], None, None),
    ("q4_k_m", ["ffn=q5_0", "ffn_down=q8_0"], None, None),
    ("q4_k_m", ["ffn_down=q8_0", "ffn=q5_0"], None, None),
    ("q4_k_m", [r"blk\.[0-3]\.ffn_.*=f16", r"blk\.(1|5)\.attn_k=bf16"], None, None),
    ("q4_k_m", [r"^blk\.0\.=q2_k", r"weight$=q6_k"], None, None),
    ("q4_k_m", [r"ATTN_Q=q8_0"], None, None),
    ("q4_k_m", [r"attn_(q|k)\.weight=iq4_nl", "ffn_(up|gate)=q3_k"], None, None),
    ("q4_k_m", ["attn_v=q4_0"], "q8_0", "q5_k"),
    ("q4_k_m", ["output=q8_0"], None, None),
    ("q4_k_m", ["output=q8_0"], "q6_k", None),
    ("q4_k_m", ["token_embd=q8_0"], None, "f16"),
    ("q3_k_m", ["attn_v=q8_0"], None, None),
    ("q3_k_l", [r"blk\.[4-7]\.attn_v=q5_k"], None, None),
    ("q5_k_m", ["ffn_down=q4_k"], None, None),
    ("q2_k", [r"blk\.\d\.attn_output=q8_0"], None, None),
    ("q6_k", ["attn=f32"], None, None),
    ("iq4_xs", ["attn_v=q8_0", "ffn_down=q5_1"], None, None),
    ("q4_0", [r"\.(2|3)\.=q4_1", "ffn_up=mxfp4"], None, None),
    ("q8_0", [r"[aeiou]ttn_[^qv]=q4_k"], "f32", "bf16"),
]
FILE_TYPES = {
    "q4_0": 2, "q8_0": 7, "q2_k": 10, "q3_k_m": 12, "q3_k_l": 13, "q4_k_m": 15, "q5_k_m": 17, "q6_k": 18, "iq4_xs": 30,
}


class Override(ctypes.Structure):
    _fields_ = [("pattern", ctypes.c_char_p), ("type", ctypes.c_int)]


class Params(ctypes.Structure):
    _fields_ = [
        ("nthread", ctypes.c_int32), ("ftype", ctypes.c_int), ("output_tensor_type", ctypes.c_int),
        ("token_embedding_type", ctypes.c_int), ("allow_requantize", ctypes.c_bool), ("quantize_output_tensor", ctypes.c_bool),
        ("only_copy", ctypes.c_bool), ("pure", ctypes.c_bool), ("keep_split", ctypes.c_bool), ("dry_run", ctypes.c_bool),
        ("imatrix", ctypes.c_void_p), ("kv_overrides", ctypes.c_void_p), ("tt_overrides", ctypes.POINTER(Override)),
        ("prune_layers", ctypes.c_void_p),
    ]


def library(path):
    """libllama with its types."""
    folder = Path(path).resolve().parent
    for end in ("ggml-base", "ggml"):
        for file in sorted(folder.glob(f"lib{end}.*so*")) + sorted(folder.glob(f"lib{end}.so*")):
            ctypes.CDLL(str(file), ctypes.RTLD_GLOBAL)
    llama = ctypes.CDLL(str(path))
    llama.llama_model_quantize_default_params.restype = Params
    llama.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Params)]
    llama.llama_model_quantize.restype = ctypes.c_uint32
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    llama.llama_log_set(quiet, None)
    llama.quiet = quiet
    return llama


def number(name):
    return gguf.GGMLQuantizationType[name.upper()].value


def by_llama(llama, source, output, mix, types, of_output, of_embedding):
    params = llama.llama_model_quantize_default_params()
    params.nthread, params.ftype = 1, FILE_TYPES[mix]
    if of_output:
        params.output_tensor_type = number(of_output)
    if of_embedding:
        params.token_embedding_type = number(of_embedding)
    pairs = [text.rpartition("=")[::2] for text in types]
    overrides = (Override * (len(pairs) + 1))(*[Override(pattern.lower().encode(), number(kind)) for pattern, kind in pairs])
    params.tt_overrides = overrides
    if llama.llama_model_quantize(str(source).encode(), str(output).encode(), ctypes.byref(params)) != 0:
        raise ValueError("llama.cpp does not quantise it")


def by_amn(amn, source, output, mix, types, of_output, of_embedding):
    line = [amn, "forget", source, "--to", mix, "-o", output, "-q"]
    for text in types:
        line += ["--tensor-type", text]
    if of_output:
        line += ["--output-tensor-type", of_output]
    if of_embedding:
        line += ["--token-embedding-type", of_embedding]
    subprocess.run([str(word) for word in line], check=True)


def model(path):
    """Eight layers, so that mixes treat some otherwise than others."""
    random = np.random.default_rng(5)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(256)
    writer.add_feed_forward_length(256)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(64)
    writer.add_tokenizer_model("none")
    names = ["token_embd.weight", "output_norm.weight", "output.weight"]
    for layer in range(LAYERS):
        names += [f"blk.{layer}.{part}.weight" for part in ["attn_norm", "ffn_norm", *PARTS]]
    for name in names:
        shape = (256,) if "norm" in name else (32, 256) if name == "token_embd.weight" else (4, 256)
        writer.add_tensor(name, random.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors(path):
    return {tensor.name: (tensor.tensor_type.name, bytes(tensor.data)) for tensor in gguf.GGUFReader(str(path)).tensors}


def main():
    amn, llama = sys.argv[1], library(sys.argv[2])
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        source = folder / "model.gguf"
        model(source)
        for number_of_case, case in enumerate(CASES):
            outputs = folder / f"llama-{number_of_case}.gguf", folder / f"amn-{number_of_case}.gguf"
            by_llama(llama, source, outputs[0], *case)
            by_amn(amn, source, outputs[1], *case)
            want, found = map(tensors, outputs)
            types = {name: (want[name][0], found[name][0]) for name in want if want[name][0] != found[name][0]}
            values = [name for name in want if name not in types and want[name] != found[name]]
            faults += bool(types or values or want.keys() != found.keys())
            print(case, "differs" if types or values else f"{len(want)} tensors equal", types or "", values[:3] or "")
    print(f"{len(CASES)} cases, {faults} differ")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
