"""The files that the library's own hostile tests build: an exception of the package or a result, nothing else."""

import os
import pathlib
import random

import pytest

import anamnesis
from anamnesis import errors

FOLDER = os.environ.get("AMN_KEPT_FILES")
FILES = sorted(pathlib.Path(FOLDER).iterdir()) if FOLDER else []

#: Files of one test, so that a failure names few of them.
GROUP = 64


def read(source):
    with anamnesis.open(source, limits={"memory": 1 << 28, "buffer": 1 << 26}) as model:
        model.metadata, model.weights, model.problems, model.scheme
        for tensor in model.values():
            tensor.stored, tensor.numpy(threads=1)


def attempt(function, *arguments):
    """Nothing but an exception of the package is caught: a panic or any other error fails the test."""
    try:
        function(*arguments)
    except errors.AnamnesisError as error:
        assert str(error)


@pytest.mark.skipif(not FILES, reason="AMN_KEPT_FILES names no folder of built files")
@pytest.mark.parametrize("start", range(0, len(FILES), GROUP))
def test_hostile_files_raise_or_decode(start):
    chance = random.Random(start)
    for path in FILES[start : start + GROUP]:
        data = path.read_bytes()
        for function in (read, anamnesis.inspect, anamnesis.verify, anamnesis.scan):
            attempt(function, path)
        attempt(read, data)
        attempt(read, data[: chance.randrange(len(data) + 1)])
        damaged = bytearray(data)
        for _ in range(min(len(data), 3)):
            damaged[chance.randrange(min(len(data), 4000))] = chance.randrange(256)
        attempt(read, bytes(damaged))
