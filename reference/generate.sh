#!/bin/bash
# Writes the fixtures of every family, or of the families named: generate.sh [codes fp8 ...].
# REF is the environment setup.sh made, FIXTURES the directory to write to, SEED draws other numbers.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
REF=$(realpath -m "${REF:-$here/.reference}")
export REF PYTHONDONTWRITEBYTECODE=1
# quanto builds a part of itself when it is first used, with tools of the environment.
export PATH="$REF/venv/bin:$PATH"

if [ $# -eq 0 ]; then
    set -- \
        codes fp8 gptq awq marlin autoround bnb bnb_encode bnb_models classes encode hqq quanto torchao bitnet mlx \
        compressed_tensors compressed_tensors_old compressed_tensors_more \
        modelopt modelopt_models quark mxfp4 \
        comfy comfy_encode gemma aqlm vptq sinq \
        gguf ggml_encode npz pth lightning onnx dcp whisper \
        vocabularies architectures adapters projectors \
        splits end_to_end measure
fi
export PYTHONPATH="$REF/dialects${PYTHONPATH:+:$PYTHONPATH}"
for family in "$@"; do
    "$REF/venv/bin/python" "$here/gen_$family.py"
done
