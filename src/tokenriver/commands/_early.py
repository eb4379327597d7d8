"""Workers of a build that begin to load what they need before the command line itself is loaded, which takes a third as
long. What is wanted is guessed from the bare words; a wrong guess costs a process that is ended again.
"""

import importlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING

from tokenriver.defaults import SMALL_INPUT, TOKENIZER

if TYPE_CHECKING:
    from tokenriver.engines.nursery import Nursery


def begin(words: Sequence[str]) -> "AbstractContextManager[Nursery | None]":
    """The workers that these words (without the program's name) will want; a context manager, which ends them."""
    count = guess(words)
    if not count:
        return nullcontext()
    importlib.import_module("tokenriver.commands._environment").large_pages()
    nursery: Nursery = importlib.import_module("tokenriver.engines.nursery").Nursery(count, None, expected(words))
    return nursery


def guess(words: Sequence[str]) -> int:
    """How many workers the words ask for: one a core where no number is given and the files among them are large."""
    if words[:1] != ["build"] or not {"-h", "--help"}.isdisjoint(words):
        return 0
    if asked := _values(words, "--workers"):
        return int(asked[-1]) if asked[-1].isdecimal() else 0
    size = sum(os.path.getsize(word) for word in words if os.path.isfile(word))
    return (os.cpu_count() or 1) if size >= SMALL_INPUT else 0


def expected(words: Sequence[str]) -> str | None:
    """The usual tokenizer, if the words name no other; it comes with the package, so it is the same wherever it is
    looked for."""
    return TOKENIZER if (_values(words, "--tokenizer") or [TOKENIZER])[-1] == TOKENIZER else None


def _values(words: Sequence[str], option: str) -> list[str]:
    """What is given for an option, in either spelling."""
    split = [value for name, value in pairwise(words) if name == option]
    return split + [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
