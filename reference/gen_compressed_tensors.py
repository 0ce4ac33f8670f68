"""compressed-tensors checkpoints in each of its formats, compressed and decompressed by the library itself.

Its FP8 formats are with the other FP8 fixtures, but for MXFP8, which only it writes.
"""

import compressed_tensors
import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.compressors.mx_utils import decompress_mx_scale
from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

from common import seed, write_case

FAMILY = "compressed_tensors"
LAYER = "model.layers.0.self_attn.q_proj"
PACK, INT, NAIVE = "pack-quantized", "int-quantized", "naive-quantized"
NVFP4, MXFP4, MXFP8 = "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"
FLOAT = "float-quantized"
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
NAN, INF = float("nan"), float("inf")


def integers(bits, strategy, symmetric=True, **more):
    """Arguments of integers."""
    return QuantizationArgs(num_bits=bits, type="int", symmetric=symmetric, strategy=strategy, **more)


def nvfp4(size=16):
    """Arguments of NVFP4."""
    e4m3 = torch.float8_e4m3fn
    return QuantizationArgs(
        num_bits=4, type="float", strategy="tensor_group", group_size=size, scale_dtype=e4m3, zp_dtype=e4m3
    )


def mx(bits, size=32):
    """Arguments of MXFP4 and MXFP8."""
    return QuantizationArgs(
        num_bits=bits,
        type="float",
        strategy="group",
        group_size=size,
        scale_dtype=torch.uint8,
        zp_dtype=torch.uint8,
    )


def value_range(values, args):
    """The smallest and largest of the values that share a scale."""
    if args.strategy == "tensor":
        return values.min().reshape(1), values.max().reshape(1)
    if args.strategy == "channel":
        return values.amin(-1, keepdim=True), values.amax(-1, keepdim=True)
    if args.strategy in ("group", "tensor_group"):
        groups = values.unflatten(-1, (-1, args.group_size))
        return groups.amin(-1), groups.amax(-1)
    height, width = args.block_structure
    rows, columns = values.shape
    grid = (-(-rows // height), -(-columns // width))
    padded = torch.zeros(grid[0] * height, grid[1] * width)
    padded[:rows, :columns] = values
    blocks = padded.reshape(grid[0], height, grid[1], width)
    return blocks.amin((1, 3)), blocks.amax((1, 3))


def compress(layout, args, source, dtype=BF16, global_scale=None):
    """The stored parts of a weight."""
    more = {} if global_scale is None else {"global_scale": global_scale}
    scale, zero_point = calculate_qparams(*value_range(source.float(), args), args, **more)
    if layout not in (NVFP4, MXFP4, MXFP8):
        scale = scale.to(dtype)
    state = {"weight": source, "weight_scale": scale}
    if not args.symmetric:
        state["weight_zero_point"] = zero_point.to(torch.int8)
    if global_scale is not None:
        state["weight_global_scale"] = global_scale
    return compressor(layout).compress(state, scheme(args))


def compressor(layout):
    return BaseCompressor.get_value_from_registry(layout)


def scheme(args, **more):
    return QuantizationScheme(targets=["Linear"], weights=args, **more)


def decompress(layout, args, parts):
    """The F32 values, and the native result of the library."""
    native = compressor(layout).decompress(dict(parts), scheme(args))["weight"]
    scale = parts["weight_scale"]
    if layout in (NVFP4, MXFP4):
        # The library unpacks to BF16: these are its own steps in F32.
        packed = parts["weight_packed"]
        rows, columns = packed.shape
        codes = unpack_fp4_from_uint8(packed, rows, columns * 2, dtype=F32)
        wide = compressor(layout)._decompress_scale(scale, F32)
        whole = parts.get("weight_global_scale")
        return dequantize(codes, wide, args=args, global_scale=whole, dtype=F32), native
    if layout == MXFP8:
        wide = {**parts, "weight_scale": decompress_mx_scale(scale).float()}
        return NaiveQuantizationCompressor.decompress(wide, scheme(args))["weight"], native
    wide = {**parts, "weight_scale": scale.float()}
    return compressor(layout).decompress(wide, scheme(args))["weight"], native


def described(groups, layout, ignore=("lm_head",)):
    """The quantization_config that the library writes."""
    config = QuantizationConfig(
        config_groups=groups, format=layout, quantization_status="compressed", ignore=list(ignore)
    ).model_dump(mode="json")
    config["version"] = compressed_tensors.__version__
    return config


def case(name, layout, args, source=None, parts=None, dtype=BF16, **more):
    """Writes one weight: compressed from a source, or made of parts."""
    if parts is None:
        parts = compress(layout, args, source, dtype)
    decoded, native = decompress(layout, args, parts)
    stored = {f"{LAYER}.{part}": value for part, value in {**parts, **more}.items()}
    config = described({"group_0": scheme(args)}, layout)
    write_case(FAMILY, name, stored, {f"{LAYER}.weight": decoded}, config, {f"{LAYER}.weight": native})


def drawn(*shape, dtype=BF16):
    return (torch.randn(*shape) * 0.05 + 0.01).to(dtype)


def begun(name):
    seed(f"{FAMILY}/{name}")
    return name


def packed():
    """pack-quantized with every number of bits and every strategy."""
    for bits in range(1, 9):
        dtype = (BF16, F16, F32)[bits % 3]
        for symmetric in (True, False):
            kind = "sym" if symmetric else "asym"
            name = begun(f"pack_int{bits}_group_{kind}")
            args = integers(bits, "group", symmetric, group_size=16)
            case(name, PACK, args, drawn(11, 48, dtype=dtype), dtype=dtype)
            name = begun(f"pack_int{bits}_channel_{kind}")
            case(name, PACK, integers(bits, "channel", symmetric), drawn(13, 45), dtype=dtype)
    for bits, symmetric in ((4, True), (4, False), (8, True), (3, False)):
        kind = "sym" if symmetric else "asym"
        name = begun(f"pack_int{bits}_tensor_{kind}")
        case(name, PACK, integers(bits, "tensor", symmetric), drawn(7, 37))
        name = begun(f"pack_int{bits}_block_{kind}")
        args = integers(bits, "block", symmetric, block_structure=[8, 16])
        case(name, PACK, args, drawn(20, 40))

    name = begun("pack_int4_shape_i32")
    args = integers(4, "group", group_size=32)
    parts = compress(PACK, args, drawn(6, 64))
    case(name, PACK, args, parts={**parts, "weight_shape": parts["weight_shape"].int()})

    name = begun("pack_int4_special_scales")
    args = integers(4, "channel")
    values = torch.tensor([NAN, INF, -INF, 0.0, -0.0, -0.5, 1e-45, 1e-39, 1.1754944e-38, 3.4028235e38])
    parts = compress(PACK, args, drawn(len(values), 16))
    case(name, PACK, args, parts={**parts, "weight_scale": values.reshape(-1, 1)})

    name = begun("pack_int4_zeros")
    source = drawn(11, 32)
    source[2] = 0
    source[:, 16:] = 0
    case(name, PACK, integers(4, "group", False, group_size=16), source)

    # Stored as older versions did: zero points of groups as bytes.
    name = begun("pack_int4_group_asym_unpacked")
    args = integers(4, "group", False, group_size=16)
    parts = compress(PACK, args, drawn(10, 32))
    shape = (10, 2)
    zeros = unpack_from_int32(parts["weight_zero_point"], 4, shape, packed_dim=0).contiguous()
    codes = unpack_from_int32(parts["weight_packed"], 4, (10, 32))
    decoded = dequantize(codes, parts["weight_scale"].float(), zeros, args)
    stored = {f"{LAYER}.{part}": value for part, value in {**parts, "weight_zero_point": zeros}.items()}
    config = described({"group_0": scheme(args)}, PACK)
    write_case(FAMILY, name, stored, {f"{LAYER}.weight": decoded}, config)

    for bits, strategy, symmetric in ((4, "group", True), (4, "group", False), (3, "channel", False)):
        name = begun(f"pack_experts_int{bits}_{strategy}_{'sym' if symmetric else 'asym'}")
        more = {"group_size": 16} if strategy == "group" else {}
        case(name, PACK, integers(bits, strategy, symmetric, **more), drawn(3, 11, 48))


def bytes_of_integers():
    """int-quantized and naive-quantized."""
    for strategy, more in (
        ("tensor", {}),
        ("channel", {}),
        ("group", {"group_size": 16}),
        ("block", {"block_structure": [8, 16]}),
    ):
        for symmetric in (True, False):
            name = begun(f"int8_{strategy}_{'sym' if symmetric else 'asym'}")
            dtype = {"tensor": F32, "channel": BF16, "group": F16, "block": BF16}[strategy]
            case(name, INT, integers(8, strategy, symmetric, **more), drawn(11, 48), dtype=dtype)
    name = begun("naive_int4_channel_asym")
    case(name, NAIVE, integers(4, "channel", False), drawn(9, 21))
    name = begun("int8_experts_channel_sym")
    case(name, INT, integers(8, "channel"), drawn(2, 5, 24))
    name = begun("int8_every_code")
    args = integers(8, "channel", False)
    codes = torch.arange(-128, 128, dtype=torch.int8).repeat(3, 1)
    scale = torch.tensor([[0.0123], [3.7e-5], [-0.5]])
    zeros = torch.tensor([[0], [-128], [127]], dtype=torch.int8)
    case(name, INT, args, parts={"weight": codes, "weight_scale": scale, "weight_zero_point": zeros})


def four_bit_floats():
    """NVFP4 and MXFP4."""
    for name, shape in (("nvfp4_global_vector", (1,)), ("nvfp4_global_scalar", ())):
        begun(name)
        source = drawn(7, 48)
        whole = generate_gparam(source.float().min().reshape(1), source.float().max().reshape(1))
        parts = compress(NVFP4, nvfp4(), source, global_scale=whole.reshape(shape))
        case(name, NVFP4, nvfp4(), parts=parts)
    name = begun("nvfp4_every_scale")
    packed = torch.randint(0, 256, (16, 16), dtype=torch.uint8)
    packed[:, 0] = 0x80
    scale = torch.arange(256, dtype=torch.uint8).reshape(16, 16).view(torch.float8_e4m3fn)
    parts = {"weight_packed": packed, "weight_scale": scale, "weight_global_scale": torch.tensor([3.7])}
    case(name, NVFP4, nvfp4(2), parts=parts)

    name = begun("mxfp4_group")
    case(name, MXFP4, mx(4), drawn(5, 96))
    name = begun("mxfp4_every_code")
    packed = torch.arange(256, dtype=torch.uint8).reshape(2, 128)
    parts = {"weight_packed": packed, "weight_scale": torch.randint(100, 140, (2, 8), dtype=torch.uint8)}
    case(name, MXFP4, mx(4), parts=parts)
    # Groups of two, so that each of the 256 exponents has some.
    name = begun("mxfp4_every_exponent")
    packed = torch.randint(0, 256, (16, 16), dtype=torch.uint8)
    packed[:, :2] = torch.tensor([0x80, 0x1F], dtype=torch.uint8)
    parts = {"weight_packed": packed, "weight_scale": torch.arange(256, dtype=torch.uint8).reshape(16, 16).T}
    parts["weight_scale"] = parts["weight_scale"].contiguous()
    case(name, MXFP4, mx(4, 2), parts=parts)

    name = begun("mxfp8_group")
    case(name, MXFP8, mx(8), drawn(5, 96))
    name = begun("mxfp8_every_exponent")
    codes = torch.randint(0, 256, (16, 32), dtype=torch.uint8).view(torch.float8_e4m3fn)
    parts = {"weight": codes, "weight_scale": torch.arange(256, dtype=torch.uint8).reshape(16, 16)}
    case(name, MXFP8, mx(8, 2), parts=parts)


def model(name, groups, layout, weights, extra, ignore=("lm_head",)):
    """Writes a model of several layers: module, format, arguments and source of each weight."""
    stored, expected = dict(extra), {}
    for module, form, args, source in weights:
        whole = None
        if form == NVFP4:
            whole = generate_gparam(source.float().min().reshape(1), source.float().max().reshape(1)).reshape(1)
        parts = compress(form, args, source, global_scale=whole)
        stored.update({f"{module}.{part}": value for part, value in parts.items()})
        expected[f"{module}.weight"], _ = decompress(form, args, parts)
    write_case(FAMILY, name, stored, expected, described(groups, layout, ignore))


def models():
    """Models as they are published."""
    layer = "model.layers.1"
    # Experts in four bits and nothing else, as Kimi K2.
    name = begun("model_experts_w4a16")
    args = integers(4, "group", group_size=32)
    projections = ("gate_proj", "up_proj", "down_proj")
    experts = [f"{layer}.mlp.experts.{index}.{part}" for index in range(2) for part in projections]
    extra = {
        f"{layer}.self_attn.o_proj.weight": drawn(4, 8),
        f"{layer}.mlp.gate.weight": drawn(2, 8),
        f"{layer}.mlp.gate.e_score_correction_bias": torch.randn(2),
        f"{layer}.mlp.shared_experts.up_proj.weight": drawn(4, 8),
        "lm_head.weight": drawn(4, 8),
    }
    ignore = ("lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*")
    weights = [(expert, PACK, args, drawn(8, 32)) for expert in experts]
    model(name, {"group_0": scheme(args)}, PACK, weights, extra, ignore)

    # Eight bits with activations, dynamic and static.
    name = begun("model_w8a8_dynamic")
    args = integers(8, "channel")
    tokens = integers(8, "token", dynamic=True)
    groups = {"group_0": scheme(args, input_activations=tokens)}
    extra = {"lm_head.weight": drawn(4, 8), f"{layer}.self_attn.q_proj.bias": drawn(6)}
    model(name, groups, INT, [(f"{layer}.self_attn.q_proj", INT, args, drawn(6, 16))], extra)
    name = begun("model_w8a8_static")
    fixed = integers(8, "tensor", False)
    groups = {"group_0": scheme(args, input_activations=fixed)}
    extra = {
        f"{layer}.mlp.up_proj.input_scale": torch.tensor([0.0125], dtype=BF16),
        f"{layer}.mlp.up_proj.input_zero_point": torch.tensor([-3], dtype=torch.int8),
        "lm_head.weight": drawn(4, 8),
    }
    model(name, groups, INT, [(f"{layer}.mlp.up_proj", INT, args, drawn(6, 16))], extra)

    # NVFP4 with scales of activations and of the cache.
    name = begun("model_nvfp4_kv_cache")
    groups = {"group_0": scheme(nvfp4(), input_activations=nvfp4())}
    extra = {"lm_head.weight": drawn(4, 8)}
    modules = [f"{layer}.self_attn.{part}_proj" for part in "kv"]
    for module in modules:
        extra[f"{module}.input_global_scale"] = torch.tensor([311.5])
    extra[f"{layer}.self_attn.k_scale"] = torch.tensor([0.0125], dtype=BF16)
    extra[f"{layer}.self_attn.v_scale"] = torch.tensor([0.025], dtype=BF16)
    model(name, groups, NVFP4, [(module, NVFP4, nvfp4(), drawn(4, 32)) for module in modules], extra)

    # A format for each group; the first two match their modules by expressions, the third all others.
    name = begun("model_mixed_precision")
    fp8 = QuantizationArgs(num_bits=8, type="float", strategy="channel")
    int4 = integers(4, "group", False, group_size=16)
    groups = {
        "group_0": QuantizationScheme(targets=["re:.*self_attn.*"], weights=fp8, format=FLOAT),
        "group_1": QuantizationScheme(targets=["re:.*down_proj$"], weights=int4, format=PACK),
        "group_2": QuantizationScheme(targets=["Linear"], weights=nvfp4(), format=NVFP4),
    }
    weights = [
        (f"{layer}.self_attn.q_proj", FLOAT, fp8, drawn(6, 16)),
        (f"{layer}.mlp.down_proj", PACK, int4, drawn(11, 32)),
        (f"{layer}.mlp.up_proj", NVFP4, nvfp4(), drawn(6, 32)),
    ]
    model(name, groups, "mixed-precision", weights, {"lm_head.weight": drawn(4, 8)})

    # Two groups for classes of modules; each weight matches one.
    name = begun("model_two_classes")
    int8 = integers(8, "channel")
    groups = {
        "group_0": QuantizationScheme(targets=["Linear"], weights=integers(4, "group", group_size=16)),
        "group_1": QuantizationScheme(targets=["Embedding"], weights=int8),
    }
    weights = [
        (f"{layer}.mlp.up_proj", PACK, integers(4, "group", group_size=16), drawn(6, 64)),
        ("model.embed_tokens", PACK, int8, drawn(9, 20)),
    ]
    model(name, groups, PACK, weights, {"lm_head.weight": drawn(4, 8)})


def main():
    packed()
    bytes_of_integers()
    four_bit_floats()
    models()


if __name__ == "__main__":
    main()
