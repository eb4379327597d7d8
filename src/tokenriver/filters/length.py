"""Documents by their length: in characters (code points of Unicode) or in ids (framing included). Bounds are
inclusive; each bound counts what it drops by itself.
"""

from functools import partial

import numpy as np

from tokenriver.errors import InputError
from tokenriver.filterrules import FilterRule, Parameters
from tokenriver.types import Bools, Int64

BOUNDS = ("min_chars", "max_chars", "min_ids", "max_ids")


def rules(parameters: Parameters) -> list[FilterRule]:
    """One rule a bound, in the order of BOUNDS; InputError for bounds that cannot be meant."""
    _check(parameters)
    out = []
    for name in BOUNDS:
        if name in parameters:
            what, bound = name.partition("_")[::2], int(parameters[name])
            if what[1] == "chars":
                out.append(FilterRule(name, keep_texts=partial(_texts, what[0], bound)))
            else:
                out.append(FilterRule(name, keep_lengths=partial(_within, what[0], bound)))
    return out


def _check(parameters: Parameters) -> None:
    unknown = sorted(set(parameters) - set(BOUNDS))
    if unknown or not parameters:
        got = ", ".join(unknown) or "no bound"
        raise InputError(
            f"filter length: got {got}, expected one or more of {', '.join(BOUNDS)}, as in length:max_ids=9"
        )
    for name, value in parameters.items():
        if type(value) is not int or value < 1:
            raise InputError(f"filter length: {name}: got {value!r}, expected a whole number of at least 1")
    for what in ("chars", "ids"):
        low, high = (parameters.get(f"{side}_{what}") for side in ("min", "max"))
        if low is not None and high is not None and int(low) > int(high):
            raise InputError(f"filter length: got min_{what} {low} above max_{what} {high}, so that nothing would stay")


def _within(side: str, bound: int, lengths: Int64) -> Bools:
    return lengths >= bound if side == "min" else lengths <= bound


def _texts(side: str, bound: int, texts: list[bytes]) -> Bools:
    return _within(side, bound, num_chars(texts))


def num_chars(texts: list[bytes]) -> Int64:
    """(k,) int64: the characters of each text, none empty; bytes that go on with a character are not counted."""
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    joined = b"".join(texts)
    if joined.isascii():
        return sizes
    begins = (np.frombuffer(joined, np.uint8) & 0xC0) != 0x80
    return np.add.reduceat(begins, np.cumsum(sizes) - sizes, dtype=np.int64)
