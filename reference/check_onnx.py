"""Compares the tensors that `amn remember` writes for ONNX models with those that onnx reads.

usage: check_onnx.py AMN MODEL.onnx...

Models lie in several wheels on PyPI: silero-vad, rapidocr-onnxruntime, magika, faster-whisper.
Initialisers and constants of all graphs are compared byte for byte, by their own names or by the
names that end in `/ATTRIBUTE/NAME`. Quantised weights are decoded and not compared here.
"""

import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors import safe_open


def tensors(graph, path=()):
    """The tensors of a graph and of those in its attributes, with node and attribute."""
    for item in graph.initializer:
        yield path, item.name, item
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                yield path, node.output[0], attribute.t
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from tensors(inner, (node.name or node.output[0], attribute.name))


def main():
    amn, *paths = sys.argv[1:]
    failed = 0
    for path in paths:
        wanted = list(tensors(onnx.load(path).graph))
        with tempfile.TemporaryDirectory() as folder:
            output = f"{folder}/out.safetensors"
            command = [amn, "remember", path, "--to", "f32", "-o", output, "--skip-unsupported"]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode:
                print(f"{path}: {result.stderr.strip()}")
                failed += 1
                continue
            with safe_open(output, "numpy") as found:
                names, equal, other = set(found.keys()), 0, []
                for place, name, item in wanted:
                    array = numpy_helper.to_array(item)
                    qualified = "/".join((*place, name))
                    name = qualified if qualified in names else name
                    is_equal = name in names and array.dtype.kind not in "OSU"
                    is_equal = is_equal and np.array_equal(
                        found.get_tensor(name).reshape(-1).view("u1"),
                        np.ascontiguousarray(array).reshape(-1).view("u1"),
                    )
                    equal += is_equal
                    other += [] if is_equal else [name]
        print(f"{path}: {equal} of {len(wanted)} equal", *other[:5])
        failed += bool(other)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
