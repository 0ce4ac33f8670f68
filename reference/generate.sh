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
    set -- codes fp8 gptq awq marlin autoround bnb bnb_encode bnb_models classes encode compressed_tensors compressed_tensors_old hqq quanto torchao \
        bitnet mlx modelopt quark mxfp4 comfy comfy_encode gemma aqlm vptq sinq compressed_tensors_more gguf whisper ggml_encode npz pth vocabularies architectures adapters splits end_to_end measure
fi
export PYTHONPATH="$REF/dialects${PYTHONPATH:+:$PYTHONPATH}"
for family in "$@"; do
    "$REF/venv/bin/python" "$here/gen_$family.py"
done
