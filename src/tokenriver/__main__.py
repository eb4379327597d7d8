"""`python -m tokenriver` is the command `tokenriver`."""

import gc
import importlib
import sys

from tokenriver.commands import _early

IMPORTS = 100_000
"""Objects between two searches for garbage: what is imported is none, and looking through it costs a third more."""


def main() -> None:
    """Run the command line of this process."""
    gc.set_threshold(IMPORTS)
    with _early.begin(sys.argv[1:]) as workers:
        importlib.import_module("tokenriver.cli").main(workers=workers)


if __name__ == "__main__":
    main()
