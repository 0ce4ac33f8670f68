#!/bin/bash
# Builds $REF/libggmlref.so, ggml's own C quantisers and dequantisers, from the source package of llama-cpp-python.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
REF=$(realpath -m "${REF:-$here/.reference}")
version=0.3.36
build=$REF/src/lcpp
mkdir -p "$build/inc"

if [ ! -d "$build/llama_cpp_python-$version" ]; then
    "$REF/venv/bin/pip" download -q --no-deps --no-binary llama-cpp-python -d "$build" "llama-cpp-python==$version"
    tar xzf "$build/llama_cpp_python-$version.tar.gz" -C "$build" --wildcards '*/vendor/llama.cpp/ggml/*' '*/vendor/llama.cpp/models/*.gguf'
fi
ggml=$build/llama_cpp_python-$version/vendor/llama.cpp/ggml
sed -e 's/@[A-Z_]*@/x/g' "$ggml/src/ggml-version.h.in" > "$build/inc/ggml-version.h"

# Nothing is fused, so that every machine computes the same bits.
flags=(-fPIC -D_GNU_SOURCE -ffp-contract=off '-DGGML_VERSION="x"' '-DGGML_COMMIT="x"')
flags+=("-I$build/inc" "-I$ggml/include" "-I$ggml/src")
gcc -O2 "${flags[@]}" -c "$ggml/src/ggml-quants.c" -o "$build/quants.o"
gcc -O1 "${flags[@]}" -c "$ggml/src/ggml.c" -o "$build/ggml.o"
g++ -O1 -std=c++17 "${flags[@]}" -c "$ggml/src/ggml-threading.cpp" -o "$build/threading.o"
g++ -O1 -std=c++17 "${flags[@]}" -c "$ggml/src/ggml.cpp" -o "$build/cpp.o"
g++ -shared -o "$REF/libggmlref.so" "$build"/{quants,ggml,threading,cpp}.o -lm -lpthread \
    -Wl,-z,lazy -Wl,--unresolved-symbols=ignore-all
