"""Checkpoints of TensorFlow and models of TensorFlow Lite.

Writes tensorflow/ and tflite/ among the fixtures. Checkpoints are read back by
`tf.train.load_checkpoint`; constants by the interpreter of TensorFlow Lite, quantised ones through
its DEQUANTIZE operator (32-bit biases, which it does not take, by the definition).
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import glob
import shutil

import flatbuffers
import ml_dtypes
import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from containers import directory, expected, floats, rng

Type = schema.TensorType
NUMBERS = {
    "float32": Type.FLOAT32, "float16": Type.FLOAT16, "float64": Type.FLOAT64, "int8": Type.INT8,
    "uint8": Type.UINT8, "int16": Type.INT16, "uint16": Type.UINT16, "int32": Type.INT32,
    "uint32": Type.UINT32, "int64": Type.INT64, "uint64": Type.UINT64, "bool": Type.BOOL,
    "complex64": Type.COMPLEX64, "int4": Type.INT4,
}  # fmt: skip


def checkpoint(case, write):
    """Write a checkpoint in a directory of its own; `write` returns the prefix of its files."""
    home = directory("tensorflow") / case
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    before = os.getcwd()
    os.chdir(home)
    prefix = write()
    os.chdir(before)
    reader = tf.train.load_checkpoint(str(home / prefix))
    types = reader.get_variable_to_dtype_map()
    names = [name for name, kind in types.items() if kind not in (tf.string, tf.complex128)]
    expected("tensorflow", case, {name: reader.get_tensor(name) for name in sorted(names)})


def save(prefix, arrays, slices=None):
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(arrays),
        shape_and_slices=slices or [""] * len(arrays),
        tensors=[tf.constant(array) for array in arrays.values()],
    )
    return prefix


def types():
    kinds = [*(kind for kind in NUMBERS if kind != "int4"), ml_dtypes.bfloat16]
    kinds += [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
    arrays = {np.dtype(kind).name: (np.abs(floats(3, 4)) * 9).astype(kind) for kind in kinds}
    arrays |= {"scalar": np.float32(2), "empty": np.zeros((0, 3), "f4"), "text": np.array([b"ab"])}
    return save("types", arrays)


def partitioned():
    """Slices in a grid, some of whose starts and sizes take two bytes in their keys."""
    whole = floats(200, 70)
    rows, columns = [(0, 63), (63, 1), (64, 136)], [(0, 65), (65, 5)]
    parts = []
    for row, height in rows:
        for column, width in columns:
            spec = f"200 70 {row},{height}:{column},{width}"
            prefix = f"part{len(parts)}"
            save(prefix, {"table": whole[row:][:height, column:][:, :width]}, [spec])
            parts.append(prefix)
    parts.append(save("other", {"bias": floats(3)}))
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix="model.ckpt", delete_old_dirs=False
    )
    for name in glob.glob("part*") + glob.glob("other*"):
        os.remove(name)
    return "model.ckpt"


def saved_model():
    module = tf.Module()
    module.w = tf.Variable(floats(3, 4), name="w")
    tf.saved_model.save(module, ".")
    for name in ("fingerprint.pb",):
        os.remove(name)
    return "variables/variables"


checkpoint("types", types)
checkpoint("partitioned", partitioned)
checkpoint("saved_model", saved_model)


def packed(array):
    """The bytes of an array; four-bit integers two in a byte, the first in its low half."""
    if array.dtype.name != "int4":
        return np.ascontiguousarray(array).tobytes()
    codes = array.reshape(-1).view("u1") & 15
    codes = np.append(codes, np.zeros(codes.size % 2, "u1"))
    return (codes[0::2] | codes[1::2] << 4).astype("u1").tobytes()


def tensor(model, name, array, scales=None):
    """A constant; `scales` are scales, zero points and their dimension."""
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(packed(array), "u1")
    model.buffers.append(buffer)
    made = schema.TensorT()
    made.name, made.shape = name.encode(), list(array.shape)
    made.type, made.buffer = NUMBERS[array.dtype.name], len(model.buffers) - 1
    if scales:
        made.quantization = schema.QuantizationParametersT()
        made.quantization.scale = [float(scale) for scale in scales[0]]
        made.quantization.zeroPoint = [int(zero) for zero in scales[1]]
        made.quantization.quantizedDimension = scales[2]
    return made


def graph(name, tensors):
    made = schema.SubGraphT()
    made.name, made.tensors, made.operators = name, tensors, []
    made.inputs, made.outputs = [], list(range(len(tensors)))
    return made


def empty():
    model = schema.ModelT()
    model.version, model.description = 3, b"a fixture"
    model.operatorCodes, model.buffers, model.subgraphs = [], [schema.BufferT()], []
    return model


def finished(model):
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def interpreter(content):
    reference = tf.lite.experimental.OpResolverType.BUILTIN_REF
    made = tf.lite.Interpreter(model_content=content, experimental_op_resolver_type=reference)
    made.allocate_tensors()
    return made


def dequantised(array, scales):
    """The values of a constant by the interpreter's own operator."""
    if array.dtype.name == "int32":
        shape = [-1 if axis == scales[2] else 1 for axis in range(array.ndim)]
        zeros = np.array(scales[1], "i8").reshape(shape)
        return (array - zeros).astype("f4") * np.array(scales[0], "f4").reshape(shape)
    model = empty()
    code, operator, result = schema.OperatorCodeT(), schema.OperatorT(), schema.TensorT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.DEQUANTIZE
    code.version = 5
    model.operatorCodes = [code]
    source = tensor(model, "codes", array, scales)
    result.name, result.shape, result.type = b"values", list(array.shape), Type.FLOAT32
    operator.inputs, operator.outputs = [0], [1]
    made = graph(b"main", [source, result])
    made.operators, made.outputs = [operator], [1]
    model.subgraphs = [made]
    run = interpreter(finished(model))
    run.invoke()
    return run.get_tensor(1)


def write(case, model, plain, decoded):
    (directory("tflite") / f"{case}.tflite").write_bytes(finished(model))
    expected("tflite", case, plain, decoded)


def plain_types():
    model, kinds = empty(), [kind for kind in NUMBERS if kind != "int4"]
    arrays = {kind: (np.abs(floats(3, 4)) * 9).astype(kind) for kind in kinds}
    arrays |= {"scalar": np.array(2.5, "f4"), "int4": rng.integers(-8, 8, (3, 5)).astype("i1")}
    arrays["int4"] = arrays["int4"].astype(ml_dtypes.int4)
    tensors = [tensor(model, name, array) for name, array in arrays.items()]
    model.subgraphs = [graph(b"main", tensors)]
    write("types", model, arrays, {})


def positive(count):
    return np.abs(floats(count)) * 0.01 + 1e-3


def quantised():
    """Every type of codes, one scale and several, and names that repeat."""
    codes = lambda low, high, shape, kind: rng.integers(low, high, shape).astype(kind)
    four = rng.integers(-8, 8, (3, 5)).astype("i1").astype(ml_dtypes.int4)
    cases = {
        "i8": (codes(-128, 128, (4, 6), "i1"), (positive(1), [3], 0)),
        "u8": (codes(0, 256, (4, 6), "u1"), (positive(1), [117], 0)),
        "i8_rows": (codes(-128, 128, (4, 6), "i1"), (positive(4), [0] * 4, 0)),
        "i8_middle": (codes(-128, 128, (2, 3, 5), "i1"), (positive(3), [1, -2, 3], 1)),
        "i8_last": (codes(-128, 128, (1, 2, 7), "i1"), (positive(7), [0] * 7, 2)),
        "i16": (codes(-(2**15), 2**15, (4, 6), "i2"), (positive(1), [0], 0)),
        "bias": (codes(-(2**30), 2**30, 4, "i4"), (positive(4), [0] * 4, 0)),
        "i4": (four, (positive(1), [0], 0)),
        "i4_rows": (four, (positive(3), [0] * 3, 0)),
    }
    model = empty()
    tensors = [tensor(model, name, *case) for name, case in cases.items()]
    first, second, shared = floats(2), floats(3), floats(4)
    tensors.append(tensor(model, "twice", first))
    tensors.append(tensor(model, "shared", shared))
    other = [tensor(model, "twice", second), tensors[-1]]
    model.subgraphs = [graph(b"main", tensors), graph(b"body", other)]
    decoded = {name: dequantised(*case) for name, case in cases.items()}
    write("quantised", model, {"main/twice": first, "body/twice": second, "shared": shared}, decoded)


plain_types()
quantised()
