#!/usr/bin/env python3
"""Let a CUDA build of torch be imported on a machine without CUDA.

For every CUDA library that torch links to and that is not installed, this compiles a stub
with the symbols torch asks for. Only the CUDA runtime must be the real one, because static
initialisers register code with it. Run it with the Python of the environment that holds
torch; it needs gcc, nm and readelf.
"""

import collections
import glob
import os
import re
import subprocess
import sysconfig
import tempfile

SYSTEM_LIBRARY = re.compile(
    r"^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux.*|libgomp|libgfortran)\."
)

# The prefix of a symbol identifies its library.
LIBRARY_OF_PREFIX = {
    "cublasLt": "libcublasLt",
    "cublas": "libcublas",
    "cusparseLt": "libcusparseLt",
    "cusparse": "libcusparse",
    "cufft": "libcufft",
    "cuFile": "libcufile",
    "cufile": "libcufile",
    "nccl": "libnccl",
    "pnccl": "libnccl",
    "curand": "libcurand",
    "cudnn": "libcudnn",
    "nvrtc": "libnvrtc",
    "cusolver": "libcusolver",
    "cupti": "libcupti",
    "nvshmem": "libnvshmem_host",
}


def output_of(*command):
    """The output of a command."""
    return subprocess.run(command, capture_output=True, text=True).stdout


def needed_by(library):
    """The names of the libraries that `library` links to."""
    return re.findall(r"\(NEEDED\).*\[(.+?)\]", output_of("readelf", "-d", "-W", library))


def undefined_symbols(library):
    """Name and version of every symbol that `library` expects from elsewhere."""
    for line in output_of("nm", "-D", "--undefined-only", library).splitlines():
        name, _, version = line.split()[-1].replace("@@", "@").partition("@")
        yield name, version


def origin_of(name, version):
    """The missing library a symbol belongs to, or None."""
    for prefix in sorted(LIBRARY_OF_PREFIX, key=len, reverse=True):
        library = LIBRARY_OF_PREFIX[prefix]
        mangled = prefix == "nvshmem" and name.startswith("_Z") and prefix in name
        if name.startswith(prefix) or mangled or version.startswith(library + "."):
            return library
    return None


def build_stub(path, symbols, directory):
    """Compile a shared library that defines `symbols` with their versions."""
    source = os.path.join(directory, "stub.c")
    script = os.path.join(directory, "stub.map")
    by_version = collections.defaultdict(list)
    with open(source, "w") as file:
        for name, version in symbols.items():
            file.write(f"long {name}(void) {{ return 1; }}\n")
            if version:
                by_version[version].append(name)
    with open(script, "w") as file:
        for version, names in by_version.items():
            file.write(f"{version} {{ global: {'; '.join(names)}; }};\n")
    command = ["gcc", "-shared", "-fPIC", "-w", "-O1", "-o", path, source]
    command.append(f"-Wl,-soname,{os.path.basename(path)}")
    if by_version:
        command.append(f"-Wl,--version-script,{script}")
    subprocess.check_call(command)


def main():
    packages = sysconfig.get_paths()["purelib"]
    torch_lib = os.path.join(packages, "torch", "lib")
    present = glob.glob(packages + "/nvidia/**/*.so*", recursive=True)
    installed = {os.path.basename(path) for path in present}
    all_libraries = sorted(glob.glob(torch_lib + "/*.so*"))
    installed.update(os.path.basename(path) for path in all_libraries)
    libraries = [path for path in all_libraries if "caffe2_nvrtc" not in path]

    needed = {name for path in libraries for name in needed_by(path)}
    missing = sorted(
        name for name in needed if name not in installed and not SYSTEM_LIBRARY.match(name)
    )
    symbols = collections.defaultdict(dict)
    for path in libraries:
        for name, version in undefined_symbols(path):
            library = origin_of(name, version)
            if library:
                symbols[library][name] = version

    with tempfile.TemporaryDirectory() as directory:
        for name in missing:
            wanted = symbols.get(name.split(".so")[0], {})
            build_stub(os.path.join(torch_lib, name), wanted, directory)
            print(f"stub {name}: {len(wanted)} symbols")


if __name__ == "__main__":
    main()
