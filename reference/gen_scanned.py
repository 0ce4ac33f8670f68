"""Writes `crates/anamnesis/tests/fixtures/scanned/malicious.txt`: the files that other scanners test themselves with, one
per line, as a name and hexadecimal digits.

The names of files and of globals are those of the tests of picklescan 1.0.5 and modelscan 0.8.8. Each file is written
here, opcode by opcode: nothing is imported, and nothing is loaded. With a folder as argument, the files are also written
there under their names (`check_scanners.py` compares scanners on them).

    python reference/gen_scanned.py [FOLDER]
"""

import io
import json
import os
import pathlib
import pickle
import struct
import sys
import zipfile

import h5py

FIXTURES = pathlib.Path(__file__).parent.parent / "crates/anamnesis/tests/fixtures"
FIXTURE = pathlib.Path(os.environ.get("FIXTURES", FIXTURES)) / "scanned/malicious.txt"
COMMAND = "echo harmless"

# Files of picklescan's tests that call one name, by module.
CALLS = {
    "picklescan/malicious3": "httplib HTTPSConnection",
    "picklescan/malicious4": "requests.api get",
    "picklescan/malicious5": "aiohttp.client ClientSession",
    "picklescan/malicious7": "socket create_connection",
    "picklescan/malicious8": "subprocess run",
    "picklescan/malicious9": "sys exit",
    "picklescan/malicious13a": "cPickle loads",
    "picklescan/malicious13b": "_pickle loads",
    "picklescan/malicious14": "runpy _run_code",
    "picklescan/malicious15": "bdb Bdb.run",
    "picklescan/malicious16": "pip main",
    "picklescan/malicious17": "torch._inductor.codecache compile_file",
    "picklescan/malicious18": "pydoc pipepager",
    "picklescan/malicious19": "functools partial",
    "picklescan/malicious20": "venv create",
    "picklescan/malicious21": "timeit timeit",
    "picklescan/malicious22": "numpy.testing._private.utils runstring",
    "picklescan/GHSA-4r9r-ch6f-vxmx": "torch.utils.bottleneck.__main__ run_cprofile",
    "picklescan/GHSA-86cj-95qr-2p4f": "torch._dynamo.guards GuardBuilder.get",
    "picklescan/GHSA-f4x7-rfwp-v3xw": "torch.fx.experimental.symbolic_shapes ShapeEnv.evaluate_guards_expression",
    "picklescan/GHSA-f745-w6jp-hpxx": "torch.utils.collect_env run",
    "picklescan/GHSA-jhph-76pp-mggw": "torch.utils.collect_env run_and_read_all",
    "picklescan/GHSA-h3qp-7fh3-f8h4": "torch.utils.data.datapipes.utils.decoder basichandlers",
    "picklescan/GHSA-vr7h-p6mm-wpmh": "torch.jit.unsupported_tensor_ops execWrapper",
    "picklescan/GHSA-vv6j-3g6g-2pvj": "torch.utils._config_module ConfigModule.load_config",
    "picklescan/GHSA-5qwp-399c-mjwf": "trace Trace.run",
    "picklescan/GHSA-g344-hcph-8vgg": "trace Trace.runctx",
    "picklescan/GHSA-x696-vm39-cp64": "profile Profile.run",
    "picklescan/GHSA-6vqj-c2q5-j97w": "profile Profile.runctx",
    "picklescan/GHSA-f54q-57x4-jg88": "lib2to3.pgen2.grammar Grammar.loads",
    "picklescan/GHSA-3vg9-h568-4w9m": "idlelib.debugobj ObjectTreeItem.SetText",
    "picklescan/GHSA-6w4w-5w54-rjvr": "idlelib.autocomplete AutoComplete.get_entity",
    "picklescan/GHSA-7cq8-mj8x-j263": "idlelib.autocomplete AutoComplete.fetch_completions",
    "picklescan/GHSA-cj3c-v495-4xqh": "code InteractiveInterpreter.runcode",
    "picklescan/GHSA-8r4j-24qv-fmq9": "idlelib.calltip Calltip.fetch_tip",
    "picklescan/GHSA-9xph-j2h6-g47v": "idlelib.calltip get_entity",
    "picklescan/GHSA-4whj-rm5r-c2v8": "torch.utils.bottleneck.__main__ run_autograd_prof",
    "picklescan/GHSA-xp4f-hrf8-rxw7": "ensurepip _run_pip",
    "picklescan/GHSA-p9w7-82w4-7q8m": "lib2to3.pgen2.pgen ParserGenerator.make_label",
    "picklescan/GHSA-m869-42cg-3xwr": "idlelib.run Executive.runcode",
    "picklescan/GHSA-j343-8v2j-ff7w": "idlelib.pyshell ModifiedInterpreter.runcommand",
    "picklescan/GHSA-3gf5-cxq9-w223": "idlelib.pyshell ModifiedInterpreter.runcode",
    "picklescan/GHSA-fqq6-7vqf-w3fg": "doctest debug_script",
    "picklescan/GHSA-9w88-8rmg-7g2p": "cProfile runctx",
    "picklescan/GHSA-49gj-c84q-6qm9": "cProfile run",
    "picklescan/GHSA-q77w-mwjj-7mqx": "asyncio.unix_events _UnixSubprocessTransport._start",
    "picklescan/GHSA-m273-6v24-x4m4": "distutils.file_util write_file",
    "picklescan/GHSA-4675-36f9-wf6r": "ctypes CDLL",
    "picklescan/GHSA-vqmv-47xg-9wpr": "pty spawn",
    "picklescan/GHSA-r8g5-cgf2-4m4m": "numpy.f2py.crackfortran getlincoef",
    "picklescan/GHSA-7wx9-6375-f5wh": "profile run",
    "picklescan/GHSA-jgw4-cr84-mqxg": "asyncio.unix_events _UnixSubprocessTransport._start",
    "picklescan/GHSA-vvpj-8cmc-gx39": "pkgutil resolve_name",
    "picklescan/GHSA-g38g-8gr9-h9xp-uuid": "uuid _get_command_stdout",
    "picklescan/GHSA-g38g-8gr9-h9xp-osx-support": "_osx_support _read_output",
    "picklescan/GHSA-g38g-8gr9-h9xp-aix-support": "_aix_support _read_cmd_output",
    "picklescan/GHSA-g38g-8gr9-h9xp-imaplib": "imaplib IMAP4_stream",
    "picklescan/GHSA-g38g-8gr9-h9xp-pyrepl-pager": "_pyrepl.pager pipe_pager",
    "picklescan/GHSA-g38g-8gr9-h9xp-test": "test.support.script_helper assert_python_ok",
    "picklescan/io_FileIO": "_io FileIO",
    "picklescan/urllib_request_urlopen": "urllib.request urlopen",
    "picklescan/types_CodeType": "types CodeType",
    "picklescan/marshal_bypass": "marshal loads",
    "picklescan/importlib_bypass": "importlib import_module",
    "picklescan/logging_FileHandler": "logging FileHandler",
    "picklescan/cloudpickle_codeinjection": "cloudpickle.cloudpickle _make_function",
    "picklescan/dns_exfiltration": "ssl get_server_certificate",
    "modelscan/malicious15": "bdb Bdb.run",
}


def text(value: str) -> bytes:
    encoded = value.encode()
    return pickle.SHORT_BINUNICODE + bytes([len(encoded)]) + encoded


def name(module: str, qualified: str, protocol: int) -> bytes:
    if protocol >= 4:
        return text(module) + text(qualified) + pickle.STACK_GLOBAL
    return pickle.GLOBAL + f"{module}\n{qualified}\n".encode()


def call(module: str, qualified: str, protocol: int, argument: str = COMMAND) -> bytes:
    """A pickle that calls a function with one text."""
    head = pickle.PROTO + bytes([protocol]) if protocol >= 2 else b""
    if protocol == 0:
        arguments = pickle.MARK + pickle.STRING + f"{argument!r}\n".encode() + pickle.TUPLE
    else:
        arguments = pickle.BINUNICODE + struct.pack("<I", len(argument)) + argument.encode() + pickle.TUPLE1
    return head + name(module, qualified, protocol) + arguments + pickle.REDUCE + pickle.STOP


def archive(entries: dict, method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as opened:
        for entry, content in entries.items():
            opened.writestr(zipfile.ZipInfo(entry), content, method)
    return buffer.getvalue()


def changed_flags(data: bytes, bit: int) -> bytes:
    """An archive whose local headers and directory have a flag."""
    out = bytearray(data)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = out.find(signature)
        out[at + offset] |= bit
    return bytes(out)


def memo_attack(end: bytes = b"") -> bytes:
    """`os.system` by way of the memo, behind names that are harmless."""
    put = lambda value, at: pickle.UNICODE + value + b"\n" + pickle.PUT + at + b"\n" + pickle.POP
    values = put(b"os", b"2") + put(b"system", b"3") + put(b"torch", b"0") + put(b"LongStorage", b"1")
    get = pickle.GET + b"2\n" + pickle.GET + b"3\n" + pickle.STACK_GLOBAL
    arguments = pickle.MARK + pickle.UNICODE + COMMAND.encode() + b"\n" + pickle.TUPLE
    return values + get + arguments + pickle.REDUCE + pickle.STOP + end


def broken_behind(rest: bytes) -> bytes:
    """A call, then instructions at which a scanner may give up."""
    head = pickle.PROTO + b"\x04" + pickle.GLOBAL + b"os\nsystem\n"
    return head + pickle.UNICODE + COMMAND.encode() + b"\n" + pickle.TUPLE1 + pickle.REDUCE + pickle.POP + rest


def npy(content: bytes) -> bytes:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def legacy(magic: bytes, content: bytes) -> bytes:
    """PyTorch's older format: the magic number, the version, the system, the object, the keys."""
    plain = lambda value: pickle.dumps(value, 2)
    return magic + plain(1001) + plain({"little_endian": True}) + content + plain([])


def structures() -> dict:
    files = {}
    for protocol in (0, 3, 4):
        builtins = "__builtin__" if protocol < 3 else "builtins"
        files[f"picklescan/malicious1_v{protocol}.pkl"] = call(builtins, "eval", protocol)
        files[f"picklescan/malicious2_v{protocol}.pkl"] = call("posix", "system", protocol)
        files[f"modelscan/malicious1_v{protocol}.dill"] = call(builtins, "eval", protocol)
    evil = files["picklescan/malicious1_v4.pkl"]
    system = call("posix", "system", 2)
    plain = pickle.dumps(["a", "b", "c"], 4)
    files["picklescan/malicious0.pkl"] = (
        b"c__builtin__\nglobals\n(tRp100\n0c__builtin__\ncompile\n(S'pass'\nS''\nS'exec'\ntRp101\n0"
        b"c__builtin__\neval\n(g101\ng100\ntRp102\n0c__builtin__\ngetattr\n(c__builtin__\ndict\nS'get'\ntRp103\n0"
        b"c__builtin__\napply\n(g103\n(g100\nS'x'\nltRp104\n0g104\n."
    )
    files["picklescan/malicious6.pkl"] = plain + call("requests.api", "get", 4)
    files["picklescan/malicious10.pkl"] = b"(S'pass'\ni__builtin__\nexec\n."
    files["picklescan/malicious11.pkl"] = memo_attack()
    files["picklescan/malicious-invalid-bytes.pkl"] = memo_attack(b"\n\n\t\t")
    imported = name("builtins", "__import__", 4) + text("os") + pickle.TUPLE1 + pickle.REDUCE
    called = pickle.TUPLE1 + pickle.REDUCE + text(COMMAND) + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP
    for file, module in (("malicious12", "operator"), ("GHSA-46h3-79wf-xr6c", "_operator")):
        getter = name(module, "attrgetter", 4) + text("system") + pickle.TUPLE1 + pickle.REDUCE
        files[f"picklescan/{file}.pkl"] = pickle.PROTO + b"\x04" + getter + imported + called
    files["picklescan/malicious23.pkl"] = (
        b"S'os'\nS'system'\n" + pickle.STACK_GLOBAL + b"S'ls'\n" + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP
    )
    located = name("pydoc", "locate", 4) + text("os") + pickle.TUPLE1 + pickle.REDUCE
    caller = name("operator", "methodcaller", 4) + text("system") + text(COMMAND) + pickle.TUPLE2 + pickle.REDUCE
    files["picklescan/GHSA-84r2-jw7c-4r5q.pkl"] = (
        pickle.PROTO + b"\x04" + caller + located + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP
    )
    caller = name("_operator", "methodcaller", 4) + text("system") + text(COMMAND) + pickle.TUPLE2 + pickle.REDUCE
    files["picklescan/GHSA-955r-x9j8-7rhh.pkl"] = (
        pickle.PROTO + b"\x04" + caller + imported + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP
    )
    missing = text("os") + pickle.MEMOIZE + pickle.BINGET + b"\x03" + pickle.BINGET + b"\x00" + pickle.STACK_GLOBAL
    files["picklescan/keyerror-exploit.pkl"] = broken_behind(missing + pickle.BININT1 + b"\x42" + pickle.STOP)
    confused = pickle.BININT + b"\x2a\0\0\0" + pickle.MEMOIZE + text("os") + pickle.MEMOIZE
    confused += pickle.BINGET + b"\x00" + pickle.BINGET + b"\x01" + pickle.STACK_GLOBAL
    files["picklescan/type-confusion-exploit.pkl"] = broken_behind(confused + pickle.BININT1 + b"\x42" + pickle.STOP)
    files["picklescan/broken_model.pkl"] = b"cbuiltins\nexec\n(X>\npasstRX."
    files["picklescan/sys_module_override_sploit.pkl"] = (
        b"csys\nmodules\np0\n0S'sys'\nq\x01g0\nscos\nsystem\n(S'ls'\ntR."
    )
    magic = 0x1950A86A20F9469CFC6C
    files["picklescan/pytorch_magic_bypass.pt"] = legacy(call("__builtin__", "eval", 2, hex(magic)), system)
    files["modelscan/unsafe_old_format_pytorch.pt"] = legacy(pickle.dumps(magic, 2), system)
    files["picklescan/malicious1.zip"] = archive({"data.pkl": evil})
    files["picklescan/malicious1_deflated.zip"] = archive({"data.pkl": evil}, zipfile.ZIP_DEFLATED)
    files["picklescan/malicious1_wrong_ext.zip"] = archive({"data.txt": evil})
    files["picklescan/malicious1_central_directory.zip"] = archive({"data.pkl": evil}).replace(b"data.pkl", b"datap.kl", 1)
    files["picklescan/malicious1_crc.zip"] = archive({"data.pkl": evil}).replace(b"harmless", b"harmfull", 1)
    for bit in (0x1, 0x20, 0x40):
        files[f"picklescan/malicious1_{bit:#x}.zip"] = changed_flags(archive({"data.pkl": evil}), bit)
    files["picklescan/dns_exfiltration.npy"] = npy(call("ssl", "get_server_certificate", 4))
    files["picklescan/object_arrays.npz"] = archive({"a.npy": npy(evil), "b.npy": npy(plain)})
    files["picklescan/object_arrays_compressed.npz"] = archive({"a.npy": npy(evil)}, zipfile.ZIP_DEFLATED)
    files["modelscan/unsafe_zip_pytorch.pt"] = archive(
        {"archive/data.pkl": system, "archive/version": b"3\n", "archive/data/0": b"\0" * 16}
    )
    nested = call("os", "system", 2)
    files["modelscan/malicious12.pkl"] = (
        pickle.PROTO + b"\x05" + pickle.GLOBAL + b"pickle\nloads\n" + pickle.BINBYTES + struct.pack("<I", len(nested))
        + nested + pickle.TUPLE1 + pickle.REDUCE + pickle.POP + pickle.NONE + pickle.STOP
    )
    files["modelscan/malicious13.pkl"] = (
        pickle.PROTO + b"\x05" + pickle.GLOBAL + b"builtins\neval.__call__\n" + pickle.UNICODE + b"1\n"
        + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP
    )
    files["modelscan/unsafe_numpy.npy"] = call("builtins", "exec", 4)
    files["modelscan/unsafe.keras"] = archive({"metadata.json": b"{}", "config.json": keras_config("Lambda")})
    files["modelscan/unsafe_nested.keras"] = archive({"config.json": keras_config("__lambda__")})
    files["modelscan/unsafe_module.keras"] = archive({"config.json": keras_config("function", "builtins", "exec")})
    files["modelscan/saved_model_unsafe/saved_model.pb"] = saved_model(["Const", "ReadFile", "WriteFile"])
    files["modelscan/saved_model_function/saved_model.pb"] = saved_model(["Const"], ["MatMul", "WriteFile"])
    files["modelscan/saved_model_lambda/keras_metadata.pb"] = field(1, field(5, keras_config("Lambda")))
    files["modelscan/unsafe.h5"] = hdf5_model(keras_config("Lambda").decode())
    files.update(polyglots(system))
    return files


def keras_config(layer: str, module: str = "keras.layers", config: object = None) -> bytes:
    inner = {"module": module, "class_name": layer, "config": config or {"function": ["4wE=", None, None]}}
    layers = [{"module": "keras.layers", "class_name": "Dense", "config": {"units": 1, "activation": inner}}]
    document = {"module": "keras.src.models.functional", "class_name": "Functional", "config": {"layers": layers}}
    return json.dumps(document).encode()


def hdf5_model(config: str) -> bytes:
    """A file of h5py with the description of a model."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as opened:
        opened.attrs["model_config"] = config
    return buffer.getvalue()


def field(number: int, content: bytes) -> bytes:
    length, size = len(content), b""
    while True:
        size += bytes([length & 0x7F | (0x80 if length > 0x7F else 0)])
        length >>= 7
        if not length:
            return bytes([number << 3 | 2]) + size + content


def saved_model(operations: list, inside: list = ()) -> bytes:
    node = lambda operation: field(1, b"node") + field(2, operation.encode())
    graph = b"".join(field(1, node(operation)) for operation in operations)
    if inside:
        graph += field(2, field(1, b"".join(field(3, node(operation)) for operation in inside)))
    return b"\x08\x01" + field(2, field(2, graph))


def polyglots(system: bytes) -> dict:
    """Files that begin like one format and are another: Python loads each of them."""
    files = {}
    inside = b"0" + system.removeprefix(b"\x80\x02")
    # The length of the header, 0x0d58, begins with the opcode of a text of 13 bytes, which ends where the call begins.
    header = (b'{"": {"a":' + inside + b"}}").ljust(0x0D58)
    files["polyglots/safetensors_and_pickle.safetensors"] = struct.pack("<Q", len(header)) + header
    # A float of eight bytes, whatever they are; then the call.
    files["polyglots/gguf_and_pickle.gguf"] = b"GGUF\x03\0\0\0\0" + inside
    gguf = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
    tensors = struct.pack("<Q", 8) + b"{}      "
    torch = archive({"archive/data.pkl": system, "archive/version": b"3\n"})
    for kind, front in (("gguf", gguf), ("safetensors", tensors)):
        files[f"polyglots/{kind}_and_archive.{kind}"] = front + torch
        moved = io.BytesIO(front)
        with zipfile.ZipFile(moved, "a") as opened:
            opened.writestr(zipfile.ZipInfo("archive/data.pkl"), system)
        files[f"polyglots/{kind}_and_moved_archive.{kind}"] = moved.getvalue()
    files["polyglots/pickle_and_archive.pkl"] = pickle.dumps({}, 2) + torch
    return files


def main() -> None:
    files = {}
    for file, called in CALLS.items():
        module, qualified = called.split()
        files[f"{file}.pkl"] = call(module, qualified, 4)
    files.update(structures())
    FIXTURE.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{file} {content.hex()}\n" for file, content in sorted(files.items())]
    FIXTURE.write_text("".join(lines))
    for folder in sys.argv[1:]:
        for file, content in files.items():
            path = pathlib.Path(folder) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    print(f"{len(files)} files")


if __name__ == "__main__":
    main()
