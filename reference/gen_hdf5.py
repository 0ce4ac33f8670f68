"""HDF5 files of h5py and Keras, read back by h5py. Writes hdf5/ among the fixtures."""

import io
import os
import shutil
import zipfile

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import h5py
import keras
import ml_dtypes
import numpy as np

from containers import SEED, directory, expected, floats, rng


def numbers(source):
    """The datasets of numbers in a file, by every path of hard links."""
    found = {}

    def visit(group, prefix):
        for name in group:
            is_hard = isinstance(group.get(name, getlink=True), h5py.HardLink)
            item = group[name] if is_hard else None
            if isinstance(item, h5py.Group):
                visit(item, f"{prefix}{name}/")
            elif item is not None and item.dtype.kind in "fiub" and item.shape is not None:
                found[f"{prefix}{name}"] = item[()]

    with h5py.File(source, "r") as file:
        visit(file, "")
    return found


def write(case, fill, **options):
    path = directory("hdf5") / f"{case}.h5"
    with h5py.File(path, "w", **options) as file:
        fill(file)
    expected("hdf5", case, numbers(path))


def types(file):
    for kind in "<f4 >f4 <f8 >f8 <f2 |i1 |u1 <i2 >i2 <i4 <u4 <i8 >i8 <u8 <u2".split():
        order = "big" if kind[0] == ">" else "little"
        file[f"{order}/{kind[1:]}"] = (np.abs(floats(3, 4)) * 20).astype(kind)
    file["bool"], file["scalar"] = floats(3, 4) > 0, np.float32(2.5)
    file["empty"], file["null"] = np.zeros((0, 3), "f4"), h5py.Empty("f4")
    file["text"], file["fixed"] = "hello", np.array([b"ab", b"c"])
    file["hard"], file["soft"] = file["scalar"], h5py.SoftLink("/scalar")
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((4, 5))
    compact = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F32LE, space, plist)
    compact.write(h5py.h5s.ALL, h5py.h5s.ALL, floats(4, 5))


def chunks(file):
    def add(name, array, shape, **options):
        file.create_dataset(name, data=array, chunks=shape, **options)

    small = lambda *shape: rng.integers(-99, 99, shape).astype("i2")
    add("plain", small(10, 7), (4, 3))
    add("deflate", small(33, 20), (8, 20), compression="gzip")
    add("all", small(33, 20), (16, 8), compression="gzip", shuffle=True, fletcher32=True)
    add("big", small(9, 9).astype(">i4"), (5, 5), fletcher32=True)
    add("one", small(4, 4), (4, 4), compression="gzip")
    add("growing", small(40, 5), (1, 5), maxshape=(None, 5), compression="gzip")
    add("growing_second", small(3, 30), (2, 1), maxshape=(3, None))
    add("unlimited", small(9, 6), (2, 2), maxshape=(None, None))
    add("cube", small(5, 6, 7), (2, 3, 4), shuffle=True)
    holes = file.create_dataset("holes", (10, 10), "f4", chunks=(3, 3), fillvalue=-1.5)
    holes[2:4, 5:9] = 7
    file.create_dataset("never_written", (3, 3), ">f4", fillvalue=2.0)


def links(file):
    for number in range(60):
        file[f"layer_{number:03}/w"] = np.int16(number)


write("types", types)
write("types_latest", types, libver="latest", userblock_size=512)
write("chunks", chunks)
write("chunks_latest", chunks, libver="latest")
write("links", links)
write("links_latest", links, libver="latest")

keras.utils.set_random_seed(SEED)


def model():
    layers = [keras.Input((4,)), keras.layers.Dense(3, name="first"), keras.layers.Dense(2)]
    return keras.Sequential(layers)


home = directory("hdf5")
model().save(home / "archive.keras")
weights = zipfile.ZipFile(home / "archive.keras").read("model.weights.h5")
expected("hdf5", "archive", numbers(io.BytesIO(weights)))

keras.config.set_dtype_policy("bfloat16")
path = home / "bfloat16.weights.h5"
model().save_weights(path)
keras.config.set_dtype_policy("float32")
found = {}
with h5py.File(path, "r") as file:
    # h5py reads opaque bytes; the attribute has their type.
    def visit(name, item):
        if isinstance(item, h5py.Dataset) and item.attrs.get("dtype") == "bfloat16":
            found[name] = np.frombuffer(item[()].tobytes(), ml_dtypes.bfloat16).reshape(item.shape)

    file.visititems(visit)
expected("hdf5", "bfloat16", found)

shutil.rmtree(home / "sharded", ignore_errors=True)
(home / "sharded").mkdir()
model().save_weights(home / "sharded" / "model.weights.json", max_shard_size=5e-8)
shards = sorted((home / "sharded").glob("*.h5"))
expected("hdf5", "sharded", {k: v for shard in shards for k, v in numbers(shard).items()})
