"""FP8 checkpoints: scales per block, row, tensor and expert, in every dialect.

Blocks that divide the weight are decoded by transformers, ragged ones by compressed-tensors,
ModelOpt checkpoints by ModelOpt, and unscaled ones by torch.
"""

from types import SimpleNamespace

import compressed_tensors
import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams
from modelopt.torch.export.convert_hf_config import convert_hf_quant_config_format
from modelopt.torch.quantization.qtensor.fp8_tensor import FP8QTensor
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

from common import seed, write_case

LAYER = "model.layers.0.mlp.down_proj"
WEIGHT = f"{LAYER}.weight"
SCALE_INV = f"{LAYER}.weight_scale_inv"
SCALE = f"{LAYER}.weight_scale"
EXPERTS = "model.layers.0.mlp.experts.gate_up_proj"

E4M3 = torch.float8_e4m3fn
E5M2 = torch.float8_e5m2
E8M0 = torch.float8_e8m0fnu

NAN = float("nan")
INF = float("inf")


def fine_grained_config(block, **more):
    """The quantization_config of a fine-grained FP8 checkpoint."""
    config = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}
    config["weight_block_size"] = block
    config.update(more)
    return config


def quantizer(block, scale_fmt="float"):
    """The part of a transformers quantizer that its FP8 operations look at."""
    config = SimpleNamespace(weight_block_size=block, scale_fmt=scale_fmt)
    return SimpleNamespace(quantization_config=config)


def by_transformers(weight, scales):
    """F32 values as transformers dequantises them; it takes the block from the scale grid."""
    return Fp8Dequantize(quantizer(None))._dequantize_one(weight, scales, torch.float32)


def by_compressed_tensors(weight, scales, strategy, block=None):
    """F32 values as compressed-tensors dequantises them; it pads and crops ragged blocks."""
    more = {"block_structure": block} if block else {}
    args = QuantizationArgs(num_bits=8, type="float", symmetric=True, strategy=strategy, **more)
    return dequantize(weight, scales.float(), args=args)


def codes(*shape, dtype=E4M3):
    """Random finite codes."""
    top = 0x7F if dtype == E4M3 else 0x7C
    magnitude = torch.randint(0, top, shape, dtype=torch.uint8)
    sign = torch.randint(0, 2, shape, dtype=torch.uint8) << 7
    return (magnitude | sign).view(dtype)


def every_code(rows, dtype=E4M3):
    """All 256 codes, NaN and infinities included, in each row."""
    return torch.arange(256, dtype=torch.uint8).repeat(rows, 1).view(dtype)


def scales_of(dtype, *shape):
    """Random positive scales as a checkpoint stores them; U8 holds exponents."""
    if dtype == torch.uint8:
        return torch.randint(110, 135, shape, dtype=torch.uint8)
    if dtype == E8M0:
        return torch.randint(110, 135, shape, dtype=torch.uint8).view(E8M0)
    return (torch.rand(shape) * 1e-3 + 1e-5).to(dtype)


def blocks_that_divide():
    """Fine-grained blocks, decoded by transformers."""
    scale_types = {
        "f32": torch.float32,
        "bf16": torch.bfloat16,
        "f16": torch.float16,
        "ue8m0": E8M0,
        "u8": torch.uint8,
    }
    for name, dtype in scale_types.items():
        more = {"scale_fmt": "ue8m0"} if name == "ue8m0" else {}
        for layout, shape, grid in (("wide", (2, 256), (1, 2)), ("tall", (256, 2), (2, 1))):
            case = f"block128_{layout}_{name}"
            seed(case)
            weight = codes(*shape)
            scales = scales_of(dtype, *grid)
            write_case(
                "fp8",
                case,
                {WEIGHT: weight, SCALE_INV: scales},
                {WEIGHT: by_transformers(weight, scales)},
                fine_grained_config([128, 128], **more),
            )

    case = "block128_allcodes"
    weight = every_code(2)
    scales = torch.tensor([[0.0123, 3.7e-5]])
    write_case(
        "fp8",
        case,
        {WEIGHT: weight, SCALE_INV: scales},
        {WEIGHT: by_transformers(weight, scales)},
        fine_grained_config([128, 128]),
    )

    # Quantised by transformers itself; the language model head stays unquantised.
    for case, block, scale_fmt, shape in (
        ("block32_f32", [32, 32], "float", (32, 64)),
        ("block16x32_ue8m0", [16, 32], "ue8m0", (32, 64)),
    ):
        seed(case)
        source = torch.randn(*shape) * 0.05
        source[0] = 0
        source[:, 32:] *= 1e-3
        made = Fp8Quantize(quantizer(block, scale_fmt))._quantize_one(WEIGHT, source)
        head = (torch.randn(4, 8) * 0.05).to(torch.bfloat16)
        more = {"scale_fmt": "ue8m0"} if scale_fmt == "ue8m0" else {}
        write_case(
            "fp8",
            case,
            {**made, "lm_head.weight": head},
            {WEIGHT: by_transformers(made[WEIGHT], made[SCALE_INV])},
            fine_grained_config(block, modules_to_not_convert=["lm_head"], **more),
        )

    for name, dtype in (("f32", torch.float32), ("u8", torch.uint8), ("ue8m0", E8M0)):
        case = f"block1x32_{name}"
        seed(case)
        weight = codes(8, 64)
        scales = scales_of(dtype, 8, 2)
        write_case(
            "fp8",
            case,
            {WEIGHT: weight, SCALE_INV: scales},
            {WEIGHT: by_transformers(weight, scales)},
            fine_grained_config([1, 32]),
        )

    # Every byte as a scale, one per row.
    for name, dtype in (("u8", torch.uint8), ("ue8m0", E8M0)):
        case = f"block1x32_every_scale_{name}"
        seed(case)
        weight = codes(256, 5)
        weight.view(torch.uint8)[:, 0] = 0x38
        weight.view(torch.uint8)[:, 1] = 0x00
        weight.view(torch.uint8)[:, 2] = 0x81
        scales = torch.arange(256, dtype=torch.uint8).reshape(256, 1).view(dtype)
        write_case(
            "fp8",
            case,
            {WEIGHT: weight, SCALE_INV: scales},
            {WEIGHT: by_transformers(weight, scales)},
            fine_grained_config([1, 32]),
        )


def ragged_blocks():
    """Blocks that overhang the weight, decoded by compressed-tensors."""
    shapes = (
        ("both", (130, 131), torch.float32, [128, 128]),
        ("row", (1, 129), torch.float32, [128, 128]),
        ("columns", (2, 300), torch.bfloat16, [128, 128]),
        ("one_column", (200, 5), torch.float32, [128, 128]),
        ("one_column_f16", (131, 2), torch.float16, [128, 128]),
        ("even_halves", (192, 3), torch.float32, [128, 128]),
        ("inside_one_block", (7, 9), torch.bfloat16, [128, 128]),
        ("block64x32", (66, 35), torch.bfloat16, [64, 32]),
        ("block1x32", (5, 50), torch.float32, [1, 32]),
        ("block32x1", (50, 5), torch.float32, [32, 1]),
    )
    for name, (rows, columns), dtype, block in shapes:
        case = f"ragged_{name}"
        seed(case)
        weight = codes(rows, columns)
        grid = (-(-rows // block[0]), -(-columns // block[1]))
        scales = scales_of(dtype, *grid)
        write_case(
            "fp8",
            case,
            {WEIGHT: weight, SCALE_INV: scales},
            {WEIGHT: by_compressed_tensors(weight, scales, "block", block)},
            fine_grained_config(block),
        )


def experts():
    """Weights with a leading expert dimension."""
    for name, shape, grid in (
        ("per_row", (3, 20, 40), (3, 20, 1)),
        ("per_expert", (3, 10, 20), (3, 1, 1)),
    ):
        case = f"experts_{name}"
        seed(case)
        weight = codes(*shape)
        scales = scales_of(torch.float32, *grid)
        write_case(
            "fp8",
            case,
            {EXPERTS: weight, f"{EXPERTS}_scale_inv": scales},
            {EXPERTS: by_transformers(weight, scales)},
            fine_grained_config(None),
        )

    for name, shape, dtype in (
        ("tall", (2, 130, 3), torch.float32),
        ("wide", (3, 2, 140), torch.bfloat16),
        ("weight_name", (2, 140, 5), torch.float32),
    ):
        case = f"experts_block_{name}"
        seed(case)
        weight = codes(*shape)
        count, rows, columns = shape
        scales = scales_of(dtype, count, -(-rows // 128), -(-columns // 128))
        decoded = [
            by_compressed_tensors(weight[index], scales[index], "block", [128, 128])
            for index in range(count)
        ]
        tensor = f"{EXPERTS}.weight" if name == "weight_name" else EXPERTS
        write_case(
            "fp8",
            case,
            {tensor: weight, f"{tensor}_scale_inv": scales},
            {tensor: torch.stack(decoded)},
            fine_grained_config([128, 128]),
        )

    case = "experts_block_exact"
    seed(case)
    weight = codes(2, 256, 3)
    scales = scales_of(torch.bfloat16, 2, 2, 1)
    write_case(
        "fp8",
        case,
        {EXPERTS: weight, f"{EXPERTS}_scale_inv": scales},
        {EXPERTS: by_transformers(weight, scales)},
        fine_grained_config([128, 128]),
    )


def tensors_and_rows():
    """One scale per tensor or per row, for both FP8 types."""
    for fmt, dtype in (("e4m3", E4M3), ("e5m2", E5M2)):
        config = {"quant_method": "fp8", "fmt": fmt, "activation_scheme": "static"}
        config["weight_block_size"] = None
        for name, shape, scale_dtype in (
            ("tensor_scalar", (), torch.float32),
            ("tensor_vector", (1,), torch.float32),
            ("tensor_scalar_bf16", (), torch.bfloat16),
            ("row_column", (16, 1), torch.float32),
            ("row_column_bf16", (16, 1), torch.bfloat16),
            ("row_vector", (16,), torch.float32),
        ):
            case = f"{fmt}_{name}"
            seed(case)
            weight = codes(16, 20, dtype=dtype)
            scales = scales_of(scale_dtype, *shape)
            if name.startswith("row"):
                decoded = by_compressed_tensors(weight, scales.reshape(16, 1), "channel")
            else:
                decoded = by_compressed_tensors(weight, scales, "tensor")
            write_case(
                "fp8",
                case,
                {WEIGHT: weight, SCALE: scales},
                {WEIGHT: decoded},
                config,
            )

    # A static checkpoint of transformers: a scalar scale for each weight and activation.
    case = "tensor_static_activation"
    seed(case)
    weight = codes(16, 48)
    scales = scales_of(torch.bfloat16)
    activation = torch.tensor(0.0125, dtype=torch.bfloat16)
    write_case(
        "fp8",
        case,
        {WEIGHT: weight, SCALE_INV: scales, f"{LAYER}.activation_scale": activation},
        {WEIGHT: by_transformers(weight, scales)},
        fine_grained_config(None, activation_scheme="static"),
    )

    case = "e5m2_allcodes"
    weight = every_code(2, E5M2)
    scales = torch.tensor([[0.0123], [3.7e-5]])
    write_case(
        "fp8",
        case,
        {WEIGHT: weight, SCALE: scales},
        {WEIGHT: by_compressed_tensors(weight, scales, "channel")},
        {"quant_method": "fp8", "fmt": "e5m2"},
    )


def special_scales():
    """Non-finite, zero and subnormal scales, each with every code."""
    wide = [NAN, INF, -INF, 0.0, -0.0, -0.5, 1e-45, 1e-39, -3e-41, 1.1754944e-38, 3.4028235e38]
    brain = [NAN, INF, -0.0, -0.5, 1e-39]
    half = [NAN, -INF, 0.0, 6e-8, 65504.0]
    for name, dtype, values in (
        ("f32", torch.float32, wide),
        ("bf16", torch.bfloat16, brain),
        ("f16", torch.float16, half),
    ):
        case = f"special_scales_{name}"
        weight = every_code(len(values))
        scales = torch.tensor(values).to(dtype).reshape(-1, 1)
        write_case(
            "fp8",
            case,
            {WEIGHT: weight, SCALE: scales},
            {WEIGHT: by_compressed_tensors(weight, scales, "channel")},
            {"quant_method": "fp8", "fmt": "e4m3"},
        )

    # The same values as block scales.
    case = "special_scales_block"
    seed(case)
    weight = codes(2, 11 * 32)
    scales = torch.tensor([wide])
    write_case(
        "fp8",
        case,
        {WEIGHT: weight, SCALE_INV: scales},
        {WEIGHT: by_transformers(weight, scales)},
        fine_grained_config([32, 32]),
    )


def scale_range(values, args):
    """The smallest and largest value that share a scale."""
    rows, columns = values.shape
    if args.strategy == "tensor":
        return values.min().reshape(1), values.max().reshape(1)
    if args.strategy == "channel":
        return values.amin(1, keepdim=True), values.amax(1, keepdim=True)
    if args.strategy == "group":
        groups = values.reshape(rows, -1, args.group_size)
        return groups.amin(2), groups.amax(2)
    height, width = args.block_structure
    grid = (-(-rows // height), -(-columns // width))
    padded = torch.zeros(grid[0] * height, grid[1] * width)
    padded[:rows, :columns] = values
    blocks = padded.reshape(grid[0], height, grid[1], width)
    return blocks.amin((1, 3)), blocks.amax((1, 3))


def compressed_tensors_config(args):
    """The quantization_config that compressed-tensors writes."""
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    config = QuantizationConfig(
        config_groups={"group_0": scheme},
        format="float-quantized",
        quantization_status="compressed",
        ignore=["lm_head", "re:.*norm.*"],
    ).model_dump(mode="json")
    config["version"] = compressed_tensors.__version__
    return config


def compressed_tensors_cases():
    """Checkpoints that compressed-tensors compresses and decompresses."""
    for name, shape, scale_dtype, options in (
        ("tensor", (16, 48), torch.bfloat16, {"strategy": "tensor"}),
        ("tensor_f32", (16, 48), torch.float32, {"strategy": "tensor"}),
        ("channel", (16, 48), torch.bfloat16, {"strategy": "channel"}),
        ("channel_f32", (16, 48), torch.float32, {"strategy": "channel"}),
        ("channel_f16", (16, 48), torch.float16, {"strategy": "channel"}),
        ("block", (130, 7), torch.bfloat16, {"strategy": "block", "block_structure": [128, 128]}),
        ("block_f32", (20, 40), torch.float32, {"strategy": "block", "block_structure": [16, 32]}),
        ("group", (16, 64), torch.bfloat16, {"strategy": "group", "group_size": 32}),
    ):
        case = f"ct_{name}"
        seed(case)
        args = QuantizationArgs(num_bits=8, type="float", symmetric=True, **options)
        source = (torch.randn(*shape) * 0.05).to(torch.bfloat16)
        scales, _ = calculate_qparams(*scale_range(source.float(), args), args)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        compressor = BaseCompressor.get_value_from_registry("float-quantized")
        state = {"weight": source, "weight_scale": scales.to(scale_dtype)}
        made = compressor.compress(state, scheme)
        native = compressor.decompress(dict(made), scheme)["weight"]
        wide = {**made, "weight_scale": made["weight_scale"].float()}
        decoded = compressor.decompress(wide, scheme)["weight"]
        tensors = {f"{LAYER}.{key}": value for key, value in made.items()}
        tensors["lm_head.weight"] = (torch.randn(4, 8) * 0.05).to(torch.bfloat16)
        if name == "tensor":
            tensors[f"{LAYER}.input_scale"] = torch.tensor([0.0125], dtype=torch.bfloat16)
        write_case(
            "fp8",
            case,
            tensors,
            {WEIGHT: decoded},
            compressed_tensors_config(args),
            {WEIGHT: native},
        )


def modelopt_config(algorithm, kv_cache=None):
    """The quantization_config that ModelOpt puts into config.json."""
    quantization = {"quant_algo": algorithm, "kv_cache_quant_algo": kv_cache}
    quantization["exclude_modules"] = ["lm_head"]
    producer = {"name": "modelopt", "version": "0.47.0"}
    return convert_hf_quant_config_format({"producer": producer, "quantization": quantization})


def modelopt_cases():
    """Checkpoints that ModelOpt quantises and dequantises."""
    attention = "model.layers.0.self_attn"
    for name, projections, kv_cache in (
        ("tensor", ("q_proj",), None),
        ("kv_cache", ("k_proj", "v_proj"), "FP8"),
    ):
        case = f"modelopt_{name}"
        seed(case)
        tensors = {"lm_head.weight": (torch.randn(4, 8) * 0.05).to(torch.bfloat16)}
        expected = {}
        native = {}
        for projection in projections:
            prefix = f"{attention}.{projection}"
            source = (torch.randn(16, 48) * 0.05).to(torch.bfloat16)
            made, scales = FP8QTensor.quantize(source)
            scales = scales.float()
            tensors[f"{prefix}.weight"] = made._quantized_data
            tensors[f"{prefix}.weight_scale"] = scales
            tensors[f"{prefix}.input_scale"] = torch.tensor(0.0125)
            if kv_cache:
                tensors[f"{prefix}.{projection[0]}_scale"] = torch.tensor(0.5)
            expected[f"{prefix}.weight"] = made.dequantize(dtype=torch.float32, scale=scales)
            native[f"{prefix}.weight"] = made.dequantize(dtype=torch.bfloat16, scale=scales)
        write_case("fp8", case, tensors, expected, modelopt_config("FP8", kv_cache), native)

    case = "modelopt_block"
    seed(case)
    source = torch.randn(20, 40) * 0.05
    blocks = {-1: 32, -2: 16}
    made, scales = FP8QTensor.quantize(source, block_sizes=blocks)
    config = modelopt_config("FP8_PB_WO")
    config["weight_block_size"] = [16, 32]
    write_case(
        "fp8",
        case,
        {WEIGHT: made._quantized_data, SCALE: scales},
        {WEIGHT: made.dequantize(dtype=torch.float32, scale=scales, block_sizes=blocks)},
        config,
    )


def fbgemm():
    """FBGEMM as transformers stores it: a scale per output, which are the columns of stacked experts."""
    config = {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}
    config["modules_to_not_convert"] = ["lm_head"]

    case = "fbgemm_rows"
    seed(case)
    weight, scales = codes(7, 20), scales_of(torch.float32, 7, 1)
    tensors = {WEIGHT: weight, SCALE: scales, f"{LAYER}.input_scale_ub": torch.tensor([1200.0])}
    write_case("fp8", case, tensors, {WEIGHT: by_compressed_tensors(weight, scales, "channel")}, config)

    case = "fbgemm_experts"
    seed(case)
    experts = EXPERTS.rsplit(".", 1)[0]
    tensors, expected = {}, {}
    for name, shape, grid in (
        ("gate_up_proj", (2, 5, 40), (2, 1, 40)),
        ("down_proj", (2, 20, 24), (2, 24, 1)),
    ):
        weight, scales = codes(*shape), scales_of(torch.float32, *grid)
        tensors[f"{experts}.{name}"] = weight
        tensors[f"{experts}.{name}_scale"] = scales
        turned = weight.view(torch.uint8).transpose(1, 2).contiguous().view(E4M3)
        decoded = [
            by_compressed_tensors(turned[index], scales[index].reshape(-1, 1), "channel")
            for index in range(shape[0])
        ]
        expected[f"{experts}.{name}"] = torch.stack(decoded).transpose(1, 2).contiguous()
    write_case("fp8", case, tensors, expected, config)


def unscaled():
    """A plain cast to FP8: no scales, no configuration."""
    case = "unscaled"
    seed(case)
    e4m3 = (torch.randn(16, 32) * 2).to(E4M3)
    e5m2 = (torch.randn(16, 32) * 2).to(E5M2)
    tensors = {
        "blocks.0.attn.weight": e4m3,
        "blocks.0.mlp.weight": e5m2,
        "blocks.0.codes_e4m3.weight": every_code(1),
        "blocks.0.codes_e5m2.weight": every_code(1, E5M2),
        "blocks.0.bias": torch.randn(16).to(E4M3),
    }
    write_case("fp8", case, tensors, {name: value.float() for name, value in tensors.items()})


def main():
    blocks_that_divide()
    ragged_blocks()
    experts()
    tensors_and_rows()
    special_scales()
    compressed_tensors_cases()
    modelopt_cases()
    fbgemm()
    unscaled()


if __name__ == "__main__":
    main()
