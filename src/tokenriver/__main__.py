"""`python -m tokenriver` is the command `tokenriver`."""

import importlib
import sys

from tokenriver.commands import _early


def main() -> None:
    """Run the command line of this process."""
    with _early.begin(sys.argv[1:]) as workers:
        importlib.import_module("tokenriver.cli").main(workers=workers)


if __name__ == "__main__":
    main()
