#!/usr/bin/env bash
# Converts a checkpoint with Ray on this machine, kills a worker during the run, and verifies the result.
# Needs Ray from PyPI in the Python interpreter $PYTHON (default python3): try_ray.sh [MEGABYTES_PER_SHARD]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export AMN=${AMN:-$(command -v amn || echo "$here/../../target/release/amn")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/make_checkpoint.py" "$work/model" "${1:-200}"
"${PYTHON:-python3}" "$here/remember_ray.py" 8 "$work/model" -o "$work/out" --shard-size 100MB &
run=$!
# Kill the first worker that appears.
until victim=$(pgrep -f "remember $work/model" | head -n 1) && [ -n "$victim" ]; do sleep 0.05; done
sleep 0.1
kill -9 "$victim" && echo "killed worker $victim"
wait "$run"
"$AMN" verify "$work/out"
"$AMN" remember "$work/model" -o "$work/direct" --shard-size 100MB --quiet
for file in "$work"/direct/*; do cmp "$file" "$work/out/$(basename "$file")"; done
echo "the files are identical to those written without a cluster"
