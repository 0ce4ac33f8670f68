"""Weights quantised by the canonical libraries without calibration: the stored tensors and the source values.

Each file has `source`, the values, and the tensors that a library makes of a layer of these weights. Its metadata name the
target, and the group size where it is not the usual one.
"""

import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from llmcompressor.entrypoints.model_free.converter import ModelFreePtqConverter

from common import REF, seed, write_tensors

FAMILY = "encode"
LAYER = "model.layers.0.mlp.down_proj"
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def noise(rows, columns, dtype):
    return (torch.randn(rows, columns) * 0.05).to(dtype)


def magnitudes(rows, columns, dtype):
    """Rows of very different magnitudes, two of them zeros of both signs, and groups of zeros in others."""
    values = torch.randn(rows, columns)
    values = values * torch.exp2(torch.linspace(-12, 9, rows).round()).unsqueeze(1)
    values[1] = 0
    values[2] = -0.0
    values[3:6, : columns // 2] = 0
    return values.to(dtype)


def steps(rows, columns, dtype):
    """Whole and half steps of every scale: ties of codes, values on limits, magnitudes that are powers of two and 1.75 of them."""
    row = (torch.arange(columns) % 33 - 16) / 2
    scales = torch.tensor([1.0, 0.5, 0.875, 1.75, 0.4375, 3.0, 7.5, 0.1, 0.01, 127.5, 6.0, 448.0])
    return (row * scales.repeat(rows)[:rows].unsqueeze(1)).to(dtype)


def lopsided(rows, columns, dtype):
    """Values of one sign only, and constant rows."""
    values = torch.rand(rows, columns) * 0.1 + 0.02
    values[::3] *= -1
    values[1] = 0.3
    values[2] = -0.7
    return values.to(dtype)


def tiny(rows, columns, dtype):
    """Values close to the smallest subnormal."""
    smallest = {BF16: 1e-40, F32: 1e-43, F16: 6e-8}[dtype]
    values = torch.randn(rows, columns) * smallest
    values[1:4] *= 1000
    return values.to(dtype)


SOURCES = {"noise": noise, "magnitudes": magnitudes, "steps": steps, "lopsided": lopsided, "tiny": tiny}


def write(target, case, source, tensors, group_size=None, layer=None):
    metadata = {"target": target}
    if layer is not None:
        metadata["layer"] = layer
        write_tensors(FAMILY, f"{target}@{case}", {"source": source, **tensors}, metadata)
        return
    if group_size is not None:
        metadata["group_size"] = str(group_size)
    tensors = {f"{LAYER}.{name}": tensor for name, tensor in tensors.items()}
    write_tensors(FAMILY, f"{target}@{case}", {"source": source, **tensors}, metadata)


# Targets that share their arithmetic with another have every kind of source in one type only.
ALIKE = ("gptq-", "w8a16", "w3a16", "w2a16", "mlx-2bit", "mlx-3bit", "mlx-5bit", "mlx-6bit", "mlx-8bit", "hqq-8bit", "hqq-2bit")
ALIKE += ("hqq-1bit",)


def sources(target, shape, names=("noise", "magnitudes", "steps", "lopsided"), dtypes=(BF16, F16, F32)):
    """Weights of each kind and type, each seeded by its own name."""
    for name in names:
        for dtype in dtypes:
            if target.startswith(ALIKE) and name != "noise" and dtype != BF16:
                continue
            case = f"{name}_{str(dtype).removeprefix('torch.')}"
            seed(f"{FAMILY}/{target}/{case}")
            yield case, SOURCES[name](*shape, dtype)


def compress(weight, form, args):
    """A layer as llm-compressor makes it without calibration: its `model_free_ptq`, without the files around it."""
    tensors = converted({f"{LAYER}.weight": weight}, form, args)
    return {name.removeprefix(f"{LAYER}."): tensor for name, tensor in tensors.items()}


def converted(weights, form, args):
    """Layers that llm-compressor fuses."""
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=form)
    converter = ModelFreePtqConverter(QuantizationConfig(config_groups={"group_0": scheme}))
    return converter.process({name: weight.clone() for name, weight in weights.items()})


def compressed_tensors():
    def ints(bits, symmetric, group):
        strategy = {"strategy": "channel"} if group == "channel" else {"strategy": "group", "group_size": group}
        return QuantizationArgs(num_bits=bits, type="int", symmetric=symmetric, **strategy)

    def floats(bits, **more):
        return QuantizationArgs(num_bits=bits, type="float", symmetric=True, **more)

    exponents = {"scale_dtype": torch.uint8, "zp_dtype": torch.uint8}
    e4m3 = {"scale_dtype": torch.float8_e4m3fn, "zp_dtype": torch.float8_e4m3fn}
    plans = [
        ("fp8-channel", "float-quantized", floats(8, strategy="channel"), (12, 70), None),
        ("fp8-tensor", "float-quantized", floats(8, strategy="tensor"), (12, 70), None),
        ("w8a8", "int-quantized", ints(8, True, "channel"), (12, 70), None),
        ("w8a8", "int-quantized", ints(8, True, 32), (12, 64), 32),
        ("w8a16", "pack-quantized", ints(8, True, 128), (12, 128), None),
        ("w8a16-asym", "pack-quantized", ints(8, False, 128), (13, 128), None),
        ("w4a16", "pack-quantized", ints(4, True, 128), (12, 256), None),
        ("w4a16", "pack-quantized", ints(4, True, 32), (12, 96), 32),
        ("w4a16", "pack-quantized", ints(4, True, "channel"), (12, 70), "channel"),
        ("w4a16-asym", "pack-quantized", ints(4, False, 128), (19, 128), None),
        ("w4a16-asym", "pack-quantized", ints(4, False, 64), (13, 128), 64),
        ("w4a16-asym", "pack-quantized", ints(4, False, "channel"), (12, 70), "channel"),
        ("w3a16", "pack-quantized", ints(3, True, 64), (12, 64), 64),
        ("w2a16", "pack-quantized", ints(2, True, "channel"), (12, 70), "channel"),
        ("mxfp4", "mxfp4-pack-quantized", floats(4, strategy="group", group_size=32, **exponents), (12, 96), None),
        ("mxfp8", "mxfp8-quantized", floats(8, strategy="group", group_size=32, **exponents), (12, 96), None),
        ("nvfp4", "nvfp4-pack-quantized", floats(4, strategy="tensor_group", group_size=16, **e4m3), (12, 96), None),
    ]
    for target, form, args, shape, group in plans:
        for case, source in sources(f"{target}-{group}" if group else target, shape):
            case = case if group is None else f"{case}_g{group}"
            write(target, case, source, compress(source, form, args), group)
    block = floats(8, strategy="block", block_structure=[128, 128])
    for case, source in sources("fp8-block", (130, 131), names=("magnitudes",), dtypes=(BF16,)):
        write("fp8-block", case, source, compress(source, "float-quantized", block))


def transformers():
    from types import SimpleNamespace

    from transformers.integrations.finegrained_fp8 import Fp8Quantize

    config = SimpleNamespace(weight_block_size=(128, 128), scale_fmt=None)
    quantise = Fp8Quantize(SimpleNamespace(quantization_config=config))
    for case, source in [
        *sources("fp8", (128, 128), names=("noise", "steps"), dtypes=(BF16,)),
        *sources("fp8", (256, 128), names=("magnitudes",), dtypes=(F16,)),
        *sources("fp8", (128, 256), names=("noise",), dtypes=(F32,)),
    ]:
        if case.startswith("magnitudes"):
            source[128:] = 0
        tensors = quantise._quantize_one(f"{LAYER}.weight", source)
        write("fp8", case, source, {name.removeprefix(f"{LAYER}."): tensor for name, tensor in tensors.items()})


def exported(weights, num_bits, block_sizes=None):
    """Layers as ModelOpt exports them, with weights that are quantised and inputs that are not."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export.unified_export_hf import _export_quantized_weight

    of_weights = {"num_bits": num_bits, "axis": None}
    if block_sizes is not None:
        del of_weights["axis"]
        of_weights["block_sizes"] = block_sizes
    model = torch.nn.Sequential()
    for weight in weights:
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False).to(weight.dtype)
        linear.weight.data = weight.clone()
        model.append(linear)
    rules = [
        {"quantizer_name": "*", "enable": False},
        {"quantizer_name": "*weight_quantizer", "cfg": of_weights},
    ]
    mtq.quantize(model, {"quant_cfg": rules, "algorithm": "max"})
    for linear, weight in zip(model, weights):
        _export_quantized_weight(linear, weight.dtype)
    names = ("weight", "weight_scale", "weight_scale_2")
    return [{name: getattr(layer, name).data for name in names if hasattr(layer, name)} for layer in model]


def modelopt():
    e8m0 = {-1: 32, "type": "dynamic", "scale_bits": (8, 0)}
    e4m3 = {-1: 16, "type": "dynamic", "scale_bits": (4, 3)}
    for target, shape, bits, blocks in (
        ("modelopt-fp8", (12, 70), (4, 3), None),
        ("modelopt-mxfp8", (12, 96), (4, 3), e8m0),
        ("modelopt-nvfp4", (12, 96), (2, 1), e4m3),
    ):
        for case, source in sources(target, shape):
            [tensors] = exported([source], bits, blocks)
            write(target, case, source, tensors)


def joined():
    """Layers that share their global scale, and one that does not: small models whole, by both libraries."""
    args = QuantizationArgs(
        num_bits=4,
        type="float",
        symmetric=True,
        strategy="tensor_group",
        group_size=16,
        scale_dtype=torch.float8_e4m3fn,
        zp_dtype=torch.float8_e4m3fn,
    )
    for model_class, more in (("llama", {}), ("mixtral", {"num_local_experts": 2, "num_experts_per_tok": 1})):
        for dtype in (BF16, F32):
            case = f"{model_class}_{str(dtype).removeprefix('torch.')}"
            seed(f"{FAMILY}/joined/{case}")
            model = tiny_model(model_class, dtype, more)
            weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            weights = {name: tensor for name, tensor in weights.items() if is_matrix(name, tensor)}
            seen = unstacked(weights)
            made = {"nvfp4": converted(seen, "nvfp4-pack-quantized", args)}
            if model_class == "llama":
                made["modelopt-nvfp4"] = exported_model(model, dtype)
            for target, tensors in made.items():
                sources = {f"source:{name}": tensor for name, tensor in seen.items()}
                write_tensors("joined", f"{target}@{case}", {**sources, **tensors}, {"target": target})


def tiny_model(model_class, dtype, more):
    import transformers

    sizes = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 64,
        "tie_word_embeddings": False,
    }
    config = transformers.AutoConfig.for_model(model_class, **sizes, **more)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.config.architectures = [type(model).__name__]
    # Layers of different magnitudes, so that separate scales would differ.
    for number, (name, tensor) in enumerate(model.named_parameters()):
        if tensor.dim() > 1:
            tensor.data = (torch.randn(tensor.shape) * 0.02 * (1 + number % 7)).to(dtype)
    return model


def is_matrix(name, tensor):
    return tensor.dim() > 1 and "embed" not in name and "lm_head" not in name and "gate.weight" not in name


def unstacked(weights):
    """Experts one by one, by the names that checkpoints have for them."""
    found = {}
    for name, tensor in weights.items():
        if tensor.dim() == 2:
            found[name] = tensor
            continue
        module = name.rsplit(".", 1)[0].replace("mlp.experts", "block_sparse_moe.experts")
        for expert, matrix in enumerate(tensor):
            if name.endswith("down_proj"):
                found[f"{module}.{expert}.w2.weight"] = matrix.clone()
            else:
                gate, up = matrix.chunk(2)
                found[f"{module}.{expert}.w1.weight"] = gate.clone()
                found[f"{module}.{expert}.w3.weight"] = up.clone()
    return found


def exported_model(model, dtype):
    """A model as ModelOpt's `export_hf_checkpoint` writes it."""
    import tempfile

    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    from safetensors.torch import load_file

    mtq.quantize(model, mtq.W4A16_NVFP4_CFG)
    with tempfile.TemporaryDirectory() as directory:
        export_hf_checkpoint(model, dtype=dtype, export_dir=directory)
        tensors = load_file(f"{directory}/model.safetensors")
    return {name: tensor for name, tensor in tensors.items() if ".layers." in name and "norm" not in name}


def gptq():
    import copy
    import sys

    sys.path.insert(0, str(REF / "src/gptqmodel-7.7.0"))
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.quantization.config import QuantizeConfig, RTNConfig
    from gptqmodel.quantization.rtn import RTN
    from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module

    for bits in (2, 3, 4, 8):
        for symmetric in (True, False):
            for group, shape in ((32, (32, 64)), ("channel", (64, 96))):
                base = f"gptq-{bits}bit"
                ending = "" if symmetric else "-asym"
                for case, source in sources(f"{base}{ending}-{group}", shape, dtypes=(BF16, F32)):
                    size = -1 if group == "channel" else group
                    config = QuantizeConfig(bits=bits, group_size=size, sym=symmetric, desc_act=False)
                    inputs = shape[1]
                    linear = torch.nn.Linear(inputs, shape[0], bias=False)
                    linear.weight.data = source.clone()
                    rounding = RTNConfig(bits=bits, group_size=size, sym=symmetric)
                    linear.weight.data, scales, zeros, index = RTN(linear, rounding).quantize()[:4]
                    second = TorchLinear(
                        bits=bits,
                        group_size=size,
                        sym=symmetric,
                        desc_act=False,
                        in_features=inputs,
                        out_features=shape[0],
                        bias=False,
                    )
                    second.pack_original(linear, scales, zeros, index)
                    first = copy.deepcopy(second)
                    convert_gptq_v2_to_v1_format_module(first, config)
                    for target, module in ((base, first), (f"{base}-v2", second)):
                        tensors = {name: getattr(module, name) for name in ("qweight", "qzeros", "scales", "g_idx")}
                        write(f"{target}{ending}", f"{case}_g{group}", source, tensors, group)


def awq():
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.quantize.quantizer import AwqQuantizer

    for group, shape in ((32, (32, 96)), ("channel", (64, 64))):
        for case, source in sources(f"awq-{group}", shape):
            size = shape[1] if group == "channel" else group
            # AutoAWQ loads models in F16.
            linear = torch.nn.Linear(shape[1], shape[0], bias=False).half()
            quantizer = object.__new__(AwqQuantizer)
            quantizer.group_size, quantizer.w_bit, quantizer.zero_point = size, 4, True
            linear.weight.data, scales, zeros = quantizer.pseudo_quantize_tensor(source.half())
            scales, zeros = scales.t().contiguous(), zeros.t().contiguous()
            module = WQLinear_GEMM.from_linear(linear, 4, size, scales=scales, zeros=zeros)
            tensors = {name: getattr(module, name) for name in ("qweight", "qzeros", "scales")}
            write("awq-4bit", f"{case}_g{group}", source, tensors, group)


def mlx():
    import mlx.core as mx
    import numpy

    to_mlx = {BF16: mx.bfloat16, F16: mx.float16, F32: mx.float32}

    def from_mlx(array):
        if array.dtype == mx.bfloat16:
            return torch.from_numpy(numpy.array(array.view(mx.uint16)).copy()).view(BF16)
        return torch.from_numpy(numpy.array(array).copy())

    plans = [("mlx-{}bit".format(bits), "affine", bits, 64, None, (12, 128)) for bits in (2, 3, 4, 5, 6, 8)]
    plans += [("mlx-4bit", "affine", 4, 32, 32, (12, 96)), ("mlx-3bit", "affine", 3, 128, 128, (12, 128))]
    plans += [
        ("mlx-mxfp4", "mxfp4", 4, 32, None, (12, 96)),
        ("mlx-mxfp8", "mxfp8", 8, 32, None, (12, 96)),
        ("mlx-nvfp4", "nvfp4", 4, 16, None, (12, 96)),
    ]
    for target, mode, bits, group, asked, shape in plans:
        for case, source in sources(f"{target}-{group}", shape):
            case = case if asked is None else f"{case}_g{asked}"
            weight = mx.array(source.float().numpy()).astype(to_mlx[source.dtype])
            made = mx.quantize(weight, group_size=group, bits=bits, mode=mode)
            tensors = dict(zip(("weight", "scales", "biases"), map(from_mlx, made)))
            write(target, case, source, tensors, asked)


def casts():
    for target, dtype in (("fp8-cast", torch.float8_e4m3fn), ("fp8-e5m2", torch.float8_e5m2)):
        for case, source in [*sources(target, (12, 70)), *sources(target, (5, 33), names=("tiny",), dtypes=(BF16,))]:
            write(target, case, source, {"weight": source.to(dtype)})


def quanto():
    import optimum.quanto as library

    kinds = {
        "quanto-int8": library.qint8,
        "quanto-float8": library.qfloat8_e4m3fn,
        "quanto-float8-e5m2": library.qfloat8_e5m2,
    }
    for target, kind in kinds.items():
        # The library writes NaN for a row of zeros.
        names = ("noise", "magnitudes", "steps", "lopsided") if kind.name == "qint8" else ("noise", "steps", "lopsided")
        one_row = [(f"{case}_row", source) for case, source in sources(f"{target}-row", (1, 70), names=("noise",))]
        for case, source in [*sources(target, (12, 70), names=names), *one_row]:
            linear = torch.nn.Linear(source.shape[1], source.shape[0], bias=False).to(source.dtype)
            linear.weight.data = source.clone()
            model = torch.nn.Sequential(linear)
            library.quantize(model, weights=kind)
            library.freeze(model)
            tensors = {name.removeprefix("0."): tensor for name, tensor in model.state_dict().items()}
            write(target, case, source, tensors)


def hqq():
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    for bits in (4, 8, 2, 1):
        for group, shape in ((None, (16, 128)), (32, (8, 96)), ("channel", (16, 70))):
            target = f"hqq-{bits}bit"
            for case, source in sources(f"{target}-{group}" if group else target, shape):
                linear = torch.nn.Linear(shape[1], shape[0], bias=False).to(source.dtype)
                linear.weight.data = source.clone()
                config = BaseQuantizeConfig(nbits=bits, group_size={None: 64, "channel": None}.get(group, group), axis=1)
                # The solver uses powers, whose rounding depends on the machine.
                config["weight_quant_params"]["optimize"] = False
                made = HQQLinear(linear, config, compute_dtype=source.dtype, device="cpu", del_orig=False)
                write(target, f"{case}_g{group}" if group else case, source, made.state_dict(), group)


def gpt_oss():
    from modelopt.torch.quantization.qtensor.mxfp4_tensor import MXFP4QTensor

    layer = "model.layers.0.mlp.experts.down_proj"
    for case, source in sources("gpt-oss", (3 * 64, 40)):
        source = source.reshape(3, 64, 40)
        # Blocks run along the inputs, which are the rows of each expert.
        turned = source.transpose(1, 2).contiguous()
        codes, scales = MXFP4QTensor.quantize(turned, 32)
        tensors = {
            f"{layer}_blocks": codes._quantized_data.reshape(3, 40, 2, 16),
            f"{layer}_scales": scales.reshape(3, 40, 2),
        }
        write("gpt-oss", case, source, tensors, layer=layer)


def main():
    casts()
    quanto()
    hqq()
    gpt_oss()
    compressed_tensors()
    transformers()
    modelopt()
    joined()
    mlx()
    awq()
    gptq()


if __name__ == "__main__":
    main()
