"""ONNX models: plain tensors in every form of storage, and weights quantised for ONNX Runtime.

Plain tensors are expected as `onnx.numpy_helper` reads them. Quantised weights are expected as
ONNX Runtime computes them on the CPU: `DequantizeLinear` by running the node, fused operators by
multiplying an identity matrix or gathering every row. ONNX Runtime has no CPU kernel for
FLOAT4E2M1; there the reference evaluator of onnx computes the values.
"""

import json
import os
import re
import shutil
import struct
import tempfile
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = Path(__file__).resolve().parent
FIXTURES = Path(
    os.environ.get("FIXTURES", HERE.parent / "crates" / "anamnesis" / "tests" / "fixtures")
)
SEED = int(os.environ.get("SEED", "0"))
CONTRIBUTED = "com.microsoft"
STORED = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}
onnxruntime.set_default_logger_severity(4)
random = np.random.default_rng()


def begin(case):
    """Seed the numbers of one case, so that adding a case leaves the others as they were."""
    global random
    random = np.random.default_rng(zlib.crc32(case.encode()) + SEED)


def floats(*shape, scale=1.0):
    return (random.standard_normal(shape) * scale).astype(np.float32)


def scales(*shape):
    return np.abs(floats(*shape)) * np.float32(0.02) + np.float32(1e-3)


def integers(low, high, shape, dtype):
    return random.integers(low, high, shape).astype(np.int32).astype(dtype)


def tensor(array, name):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, tensors=(), inputs=(), outputs=(), sparse=(), functions=(), opset=23, domains=()):
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        list(tensors),
        sparse_initializer=list(sparse),
    )
    sets = [helper.make_opsetid(domain, 1) for domain in (CONTRIBUTED, *domains)]
    sets.insert(0, helper.make_opsetid("", opset))
    ir_version = 11 if opset > 21 else 10
    return helper.make_model(
        graph, opset_imports=sets, ir_version=ir_version, functions=list(functions)
    )


def run(built, feeds=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        built.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds or {})


def stored(array):
    """The safetensors type and bytes: integers below eight bits are widened to bytes."""
    array = np.asarray(array)
    name = array.dtype.name
    if name in ("int4", "int2"):
        array = array.astype(np.int8)
    elif name in ("uint4", "uint2"):
        array = array.astype(np.uint8)
    elif name == "float4_e2m1fn":
        codes = array.reshape(-1).view(np.uint8) & 15
        return "F4", array.shape, (codes[0::2] | codes[1::2] << 4).tobytes()
    return STORED[array.dtype.name], array.shape, np.ascontiguousarray(array).tobytes()


def expect(family, case, plain, decoded=None):
    """Write CASE.expected.safetensors: plain tensors, and NAME.f32, .bf16 and .f16 of weights."""
    answers = {name: stored(array) for name, array in plain.items()}
    for name, values in (decoded or {}).items():
        assert values.dtype == np.float32, (case, name)
        with np.errstate(over="ignore"):
            for suffix, dtype in (("f32", "f4"), ("bf16", ml_dtypes.bfloat16), ("f16", "f2")):
                answers[f"{name}.{suffix}"] = stored(values.astype(dtype))
    header, data = {}, b""
    for name, (dtype, shape, content) in answers.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += content
    text = json.dumps(header, ensure_ascii=False).encode()
    path = FIXTURES / family / f"{case}.expected.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    print(f"{family}/{case}: {', '.join(answers)[:100]}")


def write(family, case, content):
    path = FIXTURES / family / f"{case}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, bytes):
        content = content.SerializeToString(deterministic=True)
    path.write_bytes(content)
    return path


# Plain tensors.


def values_of_every_type():
    floating = ("float32", "float64", "float16", ml_dtypes.bfloat16)
    eight_bits = (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float4_e2m1fn,
    )
    found = {}
    for dtype in (*floating, *eight_bits, "int8", "int16", "int32", "int64"):
        found[np.dtype(dtype).name] = floats(3, 4, scale=3).astype(dtype)
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        found[dtype] = np.abs(floats(3, 4, scale=50)).astype(dtype)
    found["bool"] = floats(3, 4) > 0
    found["complex64"] = (floats(3, 4) + 1j * floats(3, 4)).astype("c8")
    found["e8m0"] = np.exp2(np.round(floats(3, 4, scale=3))).astype(ml_dtypes.float8_e8m0fnu)
    for dtype, low, high in (
        (ml_dtypes.int4, -8, 8),
        (ml_dtypes.uint4, 0, 16),
        (ml_dtypes.int2, -2, 2),
        (ml_dtypes.uint2, 0, 4),
    ):
        found[np.dtype(dtype).name] = integers(low, high, (3, 3), dtype)
    found["scalar"] = np.float32(2.5)
    found["empty"] = np.zeros((0, 4), "f4")
    found["special"] = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], "f4")
    return found


def typed(raw):
    """The same tensor with its values in the typed field."""
    array = numpy_helper.to_array(raw)
    copy = TensorProto(dims=raw.dims, data_type=raw.data_type, name=raw.name)
    field = helper.tensor_dtype_to_field(raw.data_type)
    packed = (
        TensorProto.INT4,
        TensorProto.UINT4,
        TensorProto.INT2,
        TensorProto.UINT2,
        TensorProto.FLOAT4E2M1,
    )
    if raw.data_type in packed:
        entries = list(raw.raw_data)
    elif array.dtype.kind == "c":
        entries = array.reshape(-1).view("f4").tolist()
    elif array.dtype.kind in "iu" or array.dtype.name in ("float32", "float64"):
        entries = array.reshape(-1).tolist()
    else:
        entries = array.reshape(-1).view({1: "u1", 2: "u2"}[array.dtype.itemsize]).tolist()
    getattr(copy, field).extend(entries)
    return copy


def varint(number):
    number &= 2**64 - 1
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def field(number, wire, content):
    length = varint(len(content)) if wire == 2 else b""
    return varint(number << 3 | wire) + length + content


def wire_forms():
    """Messages in forms that the usual writers do not use."""
    values = floats(3)
    numbers = integers(-1000, 1000, 4, "i8")
    small = np.array([-1, -128, 127], "i1")
    head = lambda code, dims: field(2, 0, varint(code)) + b"".join(
        field(1, 0, varint(dim)) for dim in dims
    )
    unknown = field(100, 0, varint(5)) + field(101, 1, b"8 bytes!") + field(102, 5, b"four")
    one_by_one = b"".join(field(4, 5, value.tobytes()) for value in values)
    tensors = [
        head(TensorProto.FLOAT, [3]) + one_by_one + field(8, 2, b"one_by_one"),
        head(TensorProto.INT64, [2, 2])
        + field(7, 2, b"".join(varint(int(number)) for number in numbers[:3]))
        + field(8, 2, b"mixed")
        + field(7, 0, varint(int(numbers[3]))),
        head(TensorProto.INT8, [3])
        + b"".join(field(5, 0, varint(int(number))) for number in small)
        + field(8, 2, b"negative"),
        field(9, 2, values.tobytes())
        + field(8, 2, b"first")
        + unknown
        + field(2, 0, varint(TensorProto.FLOAT))
        + field(1, 2, varint(1) + varint(3))
        + field(8, 2, b"reordered"),
    ]
    opset = field(8, 2, field(1, 2, b"") + field(2, 0, varint(17)))
    graphs = [b"".join(field(5, 2, item) for item in half) for half in (tensors[:2], tensors[2:])]
    return field(1, 0, varint(9)) + field(7, 2, graphs[0]) + opset + field(7, 2, graphs[1])


def plain_cases():
    begin("types")
    arrays = values_of_every_type()
    raw = [tensor(array, name) for name, array in arrays.items()]
    write("onnx", "types_raw", model([], raw))
    expect("onnx", "types_raw", {item.name: numpy_helper.to_array(item) for item in raw})
    fields = [typed(item) for item in raw]
    write("onnx", "types_typed", model([], fields))
    expect("onnx", "types_typed", {item.name: numpy_helper.to_array(item) for item in fields})

    begin("wire_forms")
    content = wire_forms()
    read = onnx.load_from_string(content).graph.initializer
    write("onnx", "wire_forms", content)
    expect("onnx", "wire_forms", {item.name: numpy_helper.to_array(item) for item in read})

    begin("unsupported")
    kept = floats(2, 3)
    texts = tensor(np.array(["a", "bc"]), "text")
    write("onnx", "unsupported", model([], [texts, tensor(kept, "kept")]))
    expect("onnx", "unsupported", {"kept": kept})

    begin("constants")
    dense, spread, halves = floats(2, 3), np.zeros((4, 6), "f4"), np.zeros((3, 4), "f2")
    spread.reshape(-1)[[1, 7, 8, 23]] = floats(4)
    halves[0, 1], halves[2, 3] = 1.5, -2
    linear = helper.make_sparse_tensor(
        tensor(spread[spread != 0], "linear"), tensor(np.flatnonzero(spread), "i"), [4, 6]
    )
    coordinates = helper.make_sparse_tensor(
        tensor(halves[halves != 0], "coordinates"), tensor(np.argwhere(halves), "i"), [3, 4]
    )
    nodes = [
        helper.make_node("Constant", [], ["constant"], value=tensor(dense, "ignored")),
        helper.make_node("Constant", [], ["constant.sparse"], sparse_value=linear),
        helper.make_node("Constant", [], ["number"], value_float=1.0),
        helper.make_node("ConstantOfShape", ["s"], ["f"], value=tensor(np.ones(1, "f4"), "fill")),
    ]
    write("onnx", "constants", model(nodes, sparse=[linear, coordinates]))
    answers = {"constant": dense, "constant.sparse": spread, "linear": spread}
    expect("onnx", "constants", answers | {"coordinates": halves})

    begin("subgraphs")
    a, b, c, d = (floats(2, 2) for _ in range(4))

    def branch(constant, name, own):
        nodes = [
            helper.make_node("Constant", [], ["same"], value=tensor(constant, "")),
            helper.make_node("Add", ["same", name], ["o"]),
        ]
        output = helper.make_tensor_value_info("o", TensorProto.FLOAT, [2, 2])
        return helper.make_graph(nodes, "branch", [], [output], [tensor(own, name)])

    choose = helper.make_node(
        "If",
        ["c"],
        ["y"],
        name="choose",
        then_branch=branch(a, "then.w", b),
        else_branch=branch(c, "else.w", d),
    )
    add = helper.make_node("Constant", [], ["k"], value=tensor(d, ""))
    function = helper.make_function(
        "my.domain",
        "F",
        ["x"],
        ["z"],
        [add, helper.make_node("Add", ["x", "k"], ["z"])],
        [helper.make_opsetid("", 21)],
    )
    call = helper.make_node("F", ["top"], ["z"], domain="my.domain")
    built = model(
        [choose, call],
        [tensor(np.array(True), "c"), tensor(a, "top")],
        outputs=[("y", TensorProto.FLOAT, [2, 2]), ("z", TensorProto.FLOAT, [2, 2])],
        functions=[function],
        domains=["my.domain"],
    )
    assert (run(built)[0] == a + b).all() and (run(built)[1] == a + d).all()
    write("onnx", "subgraphs", built)
    answers = {"c": np.array(True), "top": a, "then.w": b, "else.w": d, "my.domain.F/k": d}
    answers |= {"choose/then_branch/same": a, "choose/else_branch/same": c}
    expect("onnx", "subgraphs", answers)

    external_case()


def external_case():
    """Ranges in any order, with holes, shared, and up to the end of a file."""
    begin("external")
    directory = FIXTURES / "onnx" / "external"
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "weights").mkdir(parents=True)
    first = floats(5, 32)
    second = floats(7, 3).astype("f2")
    third = integers(-8, 8, (3, 5), ml_dtypes.int4)
    arrays = {"first": first, "second": second, "third": third}
    tensors, content = [], b"\xaa" * 100

    def outside(array, name, location, **place):
        moved = tensor(array, name)
        moved.ClearField("raw_data")
        moved.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **place}.items():
            moved.external_data.add(key=key, value=str(value))
        tensors.append(moved)

    for name, array in reversed(arrays.items()):
        raw = tensor(array, name).raw_data
        content += b"\x55" * (-len(content) % 64)
        outside(array, name, "weights/all.bin", offset=len(content), length=len(raw))
        content += raw
    start = int(tensors[-1].external_data[1].value)
    outside(first, "tied", "./weights/all.bin", offset=start, length=640, checksum="0" * 40)
    outside(first[1:3], "inside", "weights/all.bin", offset=start + 128, length=256)
    outside(np.arange(4), "whole", "whole.bin")
    outside(np.arange(4), "to_end", "tail.bin", offset=2)
    (directory / "weights" / "all.bin").write_bytes(content + b"\x77" * 11)
    (directory / "whole.bin").write_bytes(np.arange(4).tobytes())
    (directory / "tail.bin").write_bytes(b"??" + np.arange(4).tobytes())
    path = directory / "model.onnx"
    path.write_bytes(model([], tensors).SerializeToString(deterministic=True))
    read = onnx.load(path).graph.initializer
    expect("onnx", "external", {item.name: numpy_helper.to_array(item) for item in read})


# Quantised weights.


def dequantised(codes, scale, zero=None, axis=1, block=0, domain="", opset=23):
    """A model with one DequantizeLinear over `w_quantized`, and its values with F32 scales."""
    attributes = {"axis": axis} | ({"block_size": block} if block else {})

    def built(scale):
        parts = [tensor(codes, "w_quantized"), tensor(scale, "w_scale")]
        if zero is not None:
            parts.append(tensor(zero, "w_zero_point"))
        names = [part.name for part in parts]
        node = helper.make_node("DequantizeLinear", names, ["w"], domain=domain, **attributes)
        kind = helper.np_dtype_to_tensor_dtype(scale.dtype)
        return model([node], parts, outputs=[("w", kind, None)], opset=opset)

    scale = np.asarray(scale)
    wide = built(scale.astype("f4"))
    try:
        values = run(wide)[0]
    except Exception:
        values = ReferenceEvaluator(wide).run(None, {})[0]
    return built(scale), np.asarray(values).astype("f4")


def linear_case(case, *args, **kwargs):
    built, values = dequantised(*args, **kwargs)
    write("onnx_quantised", case, built)
    expect("onnx_quantised", case, {}, {"w": values})


def linear_cases():
    rows, columns = 6, 32
    for case, make in {
        "tensor_i8": lambda: (integers(-128, 128, (rows, columns), "i1"), scales(), np.int8(-3)),
        "no_zero_u8": lambda: (integers(0, 256, (rows, columns), "u1"), scales()),
        "u16": lambda: (integers(0, 2**16, (rows, 5), "u2"), scales(), np.uint16(999)),
        "i16": lambda: (integers(-(2**15), 2**15, (rows, 5), "i2"), scales(), np.int16(-7)),
        "i32": lambda: (integers(-(2**31), 2**31 - 1, (rows,), "i4"), scales()),
        "f16_scale": lambda: (
            integers(-128, 128, (rows, columns), "i1"),
            scales().astype("f2"),
        ),
        "e4m3": lambda: (floats(rows, columns).astype(ml_dtypes.float8_e4m3fn), scales()),
        "e5m2fnuz": lambda: (floats(rows, columns).astype(ml_dtypes.float8_e5m2fnuz), scales()),
    }.items():
        begin(case)
        linear_case(f"dq_{case}", *make())
    begin("axis")
    codes, zeros = integers(-128, 128, (rows, 2, 3), "i1"), integers(-9, 9, rows, "i1")
    linear_case("dq_axis0", codes, scales(rows), zeros, axis=0)
    linear_case("dq_axis_negative", codes, scales(3), axis=-1)
    linear_case("dq_axis1", codes, scales(2), integers(-9, 9, 2, "i1"), axis=1)
    begin("blocks")
    codes = integers(0, 16, (rows, columns), ml_dtypes.uint4)
    zeros = integers(0, 16, (rows, 2), ml_dtypes.uint4)
    linear_case("dq_blocks_u4", codes, scales(rows, 2), zeros, axis=1, block=16)
    codes = integers(-8, 8, (10, 5), ml_dtypes.int4)
    linear_case("dq_blocks_ragged", codes, scales(3, 5), axis=0, block=4)
    codes = integers(-128, 128, (2, 8, 3), "i1")
    linear_case("dq_blocks_middle", codes, scales(2, 2, 3), axis=1, block=4)
    codes = integers(-2, 2, (rows, columns), ml_dtypes.int2)
    linear_case("dq_blocks_i2", codes, scales(rows, 2), axis=1, block=16)
    codes = integers(0, 16, (rows, columns), "u1").view(ml_dtypes.float4_e2m1fn)
    linear_case("dq_blocks_e2m1", codes, scales(rows, 2), axis=1, block=16)
    begin("contributed")
    codes = integers(0, 256, (rows, 5), "u1")
    linear_case("dq_contributed", codes, scales(), np.uint8(7), domain=CONTRIBUTED)

    begin("two_levels")
    codes = integers(0, 16, (rows, columns), "u1").view(ml_dtypes.float4_e2m1fn)
    block_scales = floats(rows, 2, scale=2).astype(ml_dtypes.float8_e4m3fn)
    parts = [tensor(codes, "w_quantized"), tensor(block_scales, "w_scale_quantized")]
    parts.append(tensor(scales(), "w_scale_2"))
    inner = helper.make_node("DequantizeLinear", ["w_scale_quantized", "w_scale_2"], ["w_scale"])
    outer = helper.make_node(
        "DequantizeLinear", ["w_quantized", "w_scale"], ["w"], axis=1, block_size=16
    )
    built = model([inner, outer], parts, outputs=[("w", TensorProto.FLOAT, None)])
    write("onnx_quantised", "dq_two_levels", built)
    values = ReferenceEvaluator(built).run(None, {})[0].astype("f4")
    expect("onnx_quantised", "dq_two_levels", {}, {"w": values})

    begin("float6")
    for case, dtype in (
        ("e2m3", ml_dtypes.float6_e2m3fn),
        ("e3m2", ml_dtypes.float6_e3m2fn),
    ):
        item = tensor(np.arange(64, dtype="u1").view(dtype).reshape(8, 8), "w")
        write("onnx_quantised", f"float6_{case}", model([], [item]))
        values = numpy_helper.to_array(item).astype("f4")
        expect("onnx_quantised", f"float6_{case}", {}, {"w": values})


def activation_case():
    """Codes with a weight's scale, and scales of activations, which are no weights."""
    begin("activations")
    codes, scale, zero = integers(0, 256, (6, 8), "u1"), scales(), np.uint8(7)
    plain = {"a_scale": scales(), "a_zero_point": np.uint8(128), "bias": floats(8)}
    parts = [tensor(codes, "w_quantized"), tensor(scale, "w_scale"), tensor(zero, "w_zero_point")]
    parts += [tensor(array, name) for name, array in plain.items()]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "a_scale", "a_zero_point"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "a_scale", "a_zero_point"], ["d"]),
        helper.make_node("DequantizeLinear", ["w_quantized", "w_scale", "w_zero_point"], ["w"]),
        helper.make_node("MatMul", ["d", "w"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["y"]),
    ]
    built = model(
        nodes,
        parts,
        inputs=[("x", TensorProto.FLOAT, [2, 6])],
        outputs=[("y", TensorProto.FLOAT, None), ("w", TensorProto.FLOAT, None)],
    )
    values = run(built, {"x": floats(2, 6)})[1]
    write("onnx_quantised", "activations", built)
    expect("onnx_quantised", "activations", plain, {"w": values})


def fused_cases():
    begin("qlinear_conv")
    weight, zeros = integers(-128, 128, (4, 2, 3, 3), "i1"), np.zeros(4, "i1")
    scale, bias = scales(4), integers(-999, 999, 4, "i4")
    plain = {"x_s": np.float32(0.1), "x_z": np.uint8(0), "y_s": np.float32(0.2), "y_z": np.uint8(9)}
    parts = {"c.weight_quantized": weight, "c.weight_scale": scale, "c.weight_zero_point": zeros}
    names = ["x", "x_s", "x_z", *parts, "y_s", "y_z", "c.bias_quantized"]
    tensors = [tensor(array, name) for name, array in (plain | parts).items()]
    tensors.append(tensor(bias, "c.bias_quantized"))
    built = model(
        [helper.make_node("QLinearConv", names, ["y"])],
        tensors,
        inputs=[("x", TensorProto.UINT8, [1, 2, 5, 5])],
        outputs=[("y", TensorProto.UINT8, None)],
    )
    run(built, {"x": integers(0, 256, (1, 2, 5, 5), "u1")})
    write("onnx_quantised", "qlinear_conv", built)
    product = (np.float32(0.1) * scale).astype("f4")
    decoded = {
        "c.weight": dequantised(weight, scale, zeros, axis=0)[1],
        "c.bias": dequantised(bias, product, axis=0)[1],
    }
    expect("onnx_quantised", "qlinear_conv", plain, decoded)

    begin("qlinear_matmul")
    weight, zeros, scale = integers(-128, 128, (6, 5), "i1"), integers(-9, 9, 5, "i1"), scales(5)
    parts = {"f.weight_quantized": weight, "f.weight_scale": scale, "f.weight_zero_point": zeros}
    built = model(
        [helper.make_node("QLinearMatMul", ["x", "x_s", "x_z", *parts, "y_s", "y_z"], ["y"])],
        [tensor(array, name) for name, array in (plain | parts).items()],
        inputs=[("x", TensorProto.UINT8, [2, 6])],
        outputs=[("y", TensorProto.UINT8, None)],
    )
    run(built, {"x": integers(0, 256, (2, 6), "u1")})
    write("onnx_quantised", "qlinear_matmul", built)
    values = dequantised(weight, scale, zeros, axis=1)[1]
    expect("onnx_quantised", "qlinear_matmul", plain, {"f.weight": values})


def tool_cases():
    """Models that the tools of ONNX Runtime quantise."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer

    begin("tools")
    inputs, outputs = 64, 12
    first, second, bias = floats(inputs, outputs), floats(outputs, inputs), floats(outputs)
    nodes = [
        helper.make_node("MatMul", ["x", "layer.0.weight"], ["a"], name="first"),
        helper.make_node("Add", ["a", "layer.0.bias"], ["b"], name="add"),
        helper.make_node("MatMul", ["b", "layer.1.weight"], ["y"], name="second"),
    ]
    tensors = [tensor(first, "layer.0.weight"), tensor(bias, "layer.0.bias")]
    tensors.append(tensor(second, "layer.1.weight"))
    source = model(
        nodes,
        tensors,
        inputs=[("x", TensorProto.FLOAT, ["n", inputs])],
        outputs=[("y", TensorProto.FLOAT, None)],
        opset=21,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/source.onnx"
        onnx.save(source, path)
        quantize_dynamic(path, f"{folder}/q.onnx", weight_type=QuantType.QInt8, per_channel=True)
        built = onnx.load(f"{folder}/q.onnx")
    arrays = {item.name: numpy_helper.to_array(item) for item in built.graph.initializer}
    decoded = {}
    for name in ("layer.0.weight", "layer.1.weight"):
        parts = [arrays[name + end] for end in ("_quantized", "_scale", "_zero_point")]
        decoded[name] = dequantised(*parts, axis=1)[1]
    write("onnx_quantised", "dynamic", built)
    expect("onnx_quantised", "dynamic", {"layer.0.bias": bias}, decoded)

    for case, kind in (("bnb4_fp4", 0), ("bnb4_nf4", 1)):
        quantiser = MatMulBnb4Quantizer(source, kind, 16)
        quantiser.process()
        built = quantiser.model.model
        arrays = {item.name: numpy_helper.to_array(item) for item in built.graph.initializer}
        decoded = {
            node.input[1].removesuffix("_Bnb4"): multiplied(node, arrays)
            for node in built.graph.node
            if node.op_type == "MatMulBnb4"
        }
        write("onnx_quantised", case, built)
        expect("onnx_quantised", case, {"layer.0.bias": bias}, decoded)


def multiplied(node, arrays):
    """The weight of a fused multiplication: its product with the identity matrix, scales in F32."""
    attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    attributes.pop("accuracy_level", None)
    k, n = attributes["K"], attributes["N"]
    wide = lambda array: array.astype("f4") if array.dtype == np.float16 else array
    parts = [tensor(wide(arrays[name]), name) for name in node.input[1:] if name]
    single = helper.make_node(
        node.op_type, ["A", *node.input[1:]], ["Y"], domain=CONTRIBUTED, **attributes
    )
    built = model(
        [single],
        parts,
        inputs=[("A", TensorProto.FLOAT, [k, k])],
        outputs=[("Y", TensorProto.FLOAT, [k, n])],
        opset=21,
    )
    # The sum of a row has no negative zeros.
    return run(built, {"A": np.eye(k, dtype="f4")})[0] + np.float32(0)


def bits_case(case, bits, block, zero, k=64, scale="f4", index=False, bias=False, names=None):
    """MatMulNBits with codes of all values; scales are positive, so that no zero is negative."""
    begin(case)
    n, blocks = 12, -(-k // block)
    codes = integers(0, 256, (n, blocks, block * bits // 8), "u1")
    arrays = {"f.weight_Q4": codes, "f.weight_scales": scales(n, blocks).astype(scale)}
    if zero == "packed":
        arrays["f.weight_zero_points"] = integers(0, 256, (n, -(-blocks * bits // 8)), "u1")
    elif zero == "floats":
        halves = integers(0, 2 ** (bits + 1), (n, blocks), "i4") / 2
        arrays["f.weight_zero_points"] = halves.astype(scale)
    if names:
        arrays = dict(zip(names, arrays.values()))
    operands, plain = ["x", *arrays], {}
    if index:
        operands += [""] * (4 - len(operands)) + ["f.g_idx"]
        arrays["f.g_idx"] = random.permutation(np.arange(k) // block).astype("i4")
    if bias:
        operands += [""] * (5 - len(operands)) + ["f.bias"]
        plain["f.bias"] = floats(n).astype(scale)
    settings = {"K": k, "N": n, "bits": bits, "block_size": block}
    node = helper.make_node("MatMulNBits", operands, ["y"], domain=CONTRIBUTED, **settings)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(scale))
    built = model(
        [node],
        [tensor(array, name) for name, array in (arrays | plain).items()],
        inputs=[("x", kind, [1, k])],
        outputs=[("y", kind, [1, n])],
        opset=21,
    )
    write("onnx_quantised", case, built)
    lone = helper.make_node("MatMulNBits", operands[:5], ["y"], domain=CONTRIBUTED, **settings)
    codes_name = next(iter(arrays))
    name = re.sub(r"_Q\d+$", "", re.sub(r"\.qweight$", ".weight", codes_name))
    expect("onnx_quantised", case, plain, {name: multiplied(lone, arrays)})


def bits_cases():
    bits_case("nbits_4", 4, 32, None)
    bits_case("nbits_4_zeros", 4, 16, "packed")
    bits_case("nbits_4_ragged", 4, 32, "packed", k=73)
    bits_case("nbits_4_f16", 4, 32, "packed", scale="f2")
    bits_case("nbits_4_float_zeros", 4, 32, "floats")
    bits_case("nbits_4_index", 4, 32, None, index=True)
    bits_case("nbits_4_bias", 4, 32, None, bias=True)
    bits_case("nbits_8", 8, 32, None)
    bits_case("nbits_8_zeros", 8, 32, "packed")
    bits_case("nbits_2", 2, 16, None)
    bits_case("nbits_2_zeros", 2, 16, "packed", k=80)
    bits_case("nbits_names", 4, 32, "packed", names=["f.qweight", "f.scales", "f.qzeros"])


def gather_case(case, codes, scale, zero, block, bits=None):
    arrays = {"e.weight_Q4": codes, "e.weight_scales": scale}
    if zero is not None:
        arrays["e.weight_zero_points"] = zero
    first, *others = arrays
    settings = {"gather_axis": 0, "quantize_axis": 1, "block_size": block}
    settings |= {"bits": bits} if bits else {}
    node = helper.make_node(
        "GatherBlockQuantized", [first, "ids", *others], ["y"], domain=CONTRIBUTED, **settings
    )
    built = model(
        [node],
        [tensor(array, name) for name, array in arrays.items()],
        inputs=[("ids", TensorProto.INT64, ["n"])],
        outputs=[("y", TensorProto.FLOAT, None)],
        opset=21,
    )
    values = run(built, {"ids": np.arange(len(codes))})[0]
    write("onnx_quantised", case, built)
    expect("onnx_quantised", case, {}, {"e.weight": values})


def gather_cases():
    rows, columns = 9, 64
    begin("gather")
    codes = integers(-8, 8, (rows, columns), ml_dtypes.int4)
    gather_case("gather_i4", codes, scales(rows, 2), None, 32)
    codes = integers(0, 16, (rows, columns), ml_dtypes.uint4)
    zeros = integers(0, 16, (rows, 4), ml_dtypes.uint4)
    gather_case("gather_u4", codes, scales(rows, 4), zeros, 16)
    codes, zeros = integers(0, 256, (rows, 32), "u1"), integers(0, 256, (rows, 1), "u1")
    gather_case("gather_packed", codes, scales(rows, 2), zeros, 32, 4)
    gather_case("gather_bytes", integers(0, 256, (rows, columns), "u1"), scales(rows, 2), None, 32, 8)


def main():
    plain_cases()
    linear_cases()
    activation_case()
    fused_cases()
    tool_cases()
    bits_cases()
    gather_cases()


if __name__ == "__main__":
    main()
