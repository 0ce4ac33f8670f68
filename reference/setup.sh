#!/bin/bash
# Makes $REF (default: .reference beside this script, about 3 GB): a Python environment with
# the canonical libraries, on CPU only. Needs python3.11, pip, gcc and binutils.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
REF=$(realpath -m "${REF:-$here/.reference}")
gptqmodel=gptqmodel-7.7.0

mkdir -p "$REF/src"
if [ ! -x "$REF/venv/bin/python" ]; then
    python3 -m venv "$REF/venv"
fi
pip() {
    "$REF/venv/bin/pip" -q --disable-pip-version-check "$@"
}

pip install -U pip setuptools wheel
pip install --no-deps torch==2.13.0 'nvidia-cuda-runtime==13.0.*'
pip install --no-deps -r "$here/requirements.txt"
"$REF/venv/bin/python" "$here/make_torch_stubs.py"

# An old version whose files differ from those of the current one.
pip install --no-deps --target "$REF/ct_old" compressed-tensors==0.11.0

# One file of it is used, which packs; the rest would want a GPU.
pip install --no-deps --target "$REF/auto_gptq" auto-gptq==0.7.1

# Libraries of single formats.
pip install --no-deps --target "$REF/dialects" comfy-kitchen==0.2.40 convert_to_quant==1.3.4 aqlm==1.1.7 \
    vptq==0.0.5.post1 sinq==0.2.0 pytorch-lightning==2.6.6 lightning-utilities==0.15.3 torchmetrics==1.9.0

# Quark compiles a part of itself when it is first used.
pip install --no-deps --target "$REF/quark" amd-quark==0.13 onnx==1.21.0 onnxslim==0.1.98 joblib==1.6.0

# GPTQModel is used from its source package, without installing it.
if [ ! -d "$REF/src/$gptqmodel" ]; then
    if [ ! -f "$REF/src/$gptqmodel.tar.gz" ]; then
        pip download --no-deps --no-binary :all: --no-build-isolation \
            -d "$REF/src" "${gptqmodel/-/==}" || true
    fi
    tar xzf "$REF/src/$gptqmodel.tar.gz" -C "$REF/src"
fi

"$here/build_ggml.sh"

"$REF/venv/bin/python" -c '
import awq, bitsandbytes, compressed_tensors, modelopt, torch
print("reference ready: torch", torch.__version__)
'
