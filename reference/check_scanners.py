"""Compares scanners on files, for `docs/trust.md`: whether each finds something in a file, as Markdown.

picklescan, modelscan and fickling are those next to the interpreter; AMN is the path of `amn`. No file is
loaded.

    AMN=target/release/amn python reference/check_scanners.py FOLDER
"""

import collections
import os
import pathlib
import subprocess
import sys

BIN = pathlib.Path(sys.executable).parent
AMN = os.path.abspath(os.environ.get("AMN", "amn"))


def run(*command) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, errors="replace")


def picklescan(path) -> bool:
    return run(BIN / "picklescan", "--path", path).returncode == 1


def modelscan(path) -> bool:
    return run(BIN / "modelscan", "-p", path).returncode == 1


def fickling(path) -> bool:
    """It reads pickles: everything that it does not call safe is found, a file that is no pickle is not."""
    done = run(BIN / "fickling", "--check-safety", "--json-output", os.devnull, path)
    return done.returncode == 1


def amn(path) -> bool:
    return run(AMN, "scan", path).returncode == 1


SCANNERS = [amn, picklescan, modelscan, fickling]


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    found, missed = collections.Counter(), collections.defaultdict(list)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    corpora = collections.Counter(path.relative_to(folder).parts[0] for path in files)
    for path in files:
        corpus = path.relative_to(folder).parts[0]
        for scanner in SCANNERS:
            if scanner(path):
                found[corpus, scanner] += 1
            else:
                missed[corpus, scanner].append(str(path.relative_to(folder / corpus)))
    print("| files |", " | ".join(scanner.__name__ for scanner in SCANNERS), "|")
    print("|---|" + "---|" * len(SCANNERS))
    for corpus, count in sorted(corpora.items()):
        print(f"| {corpus}: {count} |", " | ".join(str(found[corpus, scanner]) for scanner in SCANNERS), "|")
    for (corpus, scanner), names in sorted(missed.items(), key=lambda item: (item[0][0], item[0][1].__name__)):
        print(f"\n{scanner.__name__} on {corpus} misses {len(names)}:", ", ".join(names))


if __name__ == "__main__":
    main()
