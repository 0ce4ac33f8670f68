"""Compare `amn convert` with llama.cpp's converter, both run with the same options, over directories of tiny checkpoints.

usage: check_options.py --amn AMN --cases DIR [--only NAME] [--outtype TYPE] [--hook raw_config] [--byteswap] [-- OPTION...]

DIR has a checkpoint per folder and `cases.json` with the pre-tokenizer of each, as a vocabulary this small cannot have the
hash by which the converter knows how text is cut. The converter is that of the tree at `$LLAMA`. Each case is converted in
a child process, as the converter keeps state in its classes. With `--byteswap` the expected file is the converter's, with
its bytes swapped by llama.cpp's `gguf_convert_endian.py`, which unlike the converter swaps BF16 and the scales of blocks.
"""

import argparse
import builtins
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile


def convert(tree, source, output, outtype, pre, options, swapped):
    """Run the converter in this process."""
    silent = open(os.devnull, "w")
    os.dup2(silent.fileno(), 1)
    log = open(f"{output}.log", "w")
    os.dup2(log.fileno(), 2)
    import convert_hf_to_gguf
    from conversion.base import TextModel

    if pre:
        TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    sys.argv = ["convert_hf_to_gguf.py", source, "--outfile", output, "--outtype", outtype, *options]
    convert_hf_to_gguf.main()
    if swapped:
        import gguf
        from gguf.scripts import gguf_convert_endian

        builtins.input = lambda prompt: "YES"
        reader = gguf.GGUFReader(output, "r+")
        gguf_convert_endian.convert_byteorder(reader, argparse.Namespace(order="big", dry_run=False))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--amn", required=True)
    parser.add_argument("--cases", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--outtype")
    parser.add_argument("--byteswap", action="store_true")
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    tree = os.environ["LLAMA"]
    sys.path.insert(0, tree)
    sys.path.insert(0, f"{tree}/gguf-py")
    import convert_hf_to_gguf  # noqa: F401, for all children
    import conversion

    conversion.load_all_models()
    cases = json.loads((given.cases / "cases.json").read_text())
    counts = {"equal": 0, "different": 0, "refused": 0, "no oracle": 0}
    for name, case in cases.items():
        if given.only not in name:
            continue
        source, outtype = str(given.cases / name), given.outtype or case["types"][0]
        with tempfile.TemporaryDirectory() as folder:
            expected, found = f"{folder}/expected.gguf", f"{folder}/found.gguf"
            own = [text.replace("{d}", source) for text in case.get("args", []) if text != "--no-mtp" or "--mtp" not in given.options]
            options = [*own, *given.options]
            work = (tree, source, expected, outtype, case["pre"], options, given.byteswap)
            child = multiprocessing.get_context("fork").Process(target=convert, args=work)
            child.start()
            child.join()
            asked = [*options, *(["--bigendian"] if given.byteswap else [])]
            command = [given.amn, "convert", source, "--to", "gguf", "--out-dtype", outtype, "-o", found, "--force"]
            run = subprocess.run([*command, *(text for text in asked if text != "--no-lazy")], capture_output=True, text=True)
            refusal = run.stderr.strip().splitlines()[-1:] if run.returncode else None
            if child.exitcode or not os.path.exists(expected):
                why = pathlib.Path(f"{expected}.log").read_text().strip().splitlines()[-1:]
                outcome, detail = "no oracle", f"{why}; amn: {refusal or 'converts'}"
            elif refusal is not None:
                outcome, detail = "refused", refusal
            else:
                a, b = pathlib.Path(expected).read_bytes(), pathlib.Path(found).read_bytes()
                place = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                outcome = "equal" if a == b else "different"
                detail = "" if a == b else f"{len(b)} bytes instead of {len(a)}, from byte {place} on: {b[place - 40:place + 40]} not {a[place - 40:place + 40]}"
                if os.environ.get("KEEP") and a != b:
                    os.replace(expected, f"{os.environ['KEEP']}/{name}.expected.gguf")
                    os.replace(found, f"{os.environ['KEEP']}/{name}.found.gguf")
            counts[outcome] += 1
            if outcome != "equal":
                print(f"{outcome}: {name}: {detail}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return counts["different"] + counts["refused"] > 0


if __name__ == "__main__":
    sys.exit(main())
