"""``python -m anamnesis`` and ``amn``: the command line."""

import sys

from ._anamnesis import main as _main


def main() -> None:
    """Does what the command line asks for, and ends with its exit code."""
    sys.exit(_main(["amn", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
