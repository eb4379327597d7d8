"""What may be asked of buckets: widths or their number, and how many positions a step may have."""

from collections.abc import Sequence

import numpy as np

from tokenriver.errors import InputError
from tokenriver.types import Buckets

BUCKETS = 8
"""So many widths are chosen where only a budget of tokens is given."""


def read_buckets(buckets: int | Sequence[int] | None, max_tokens: int | None, seq_len: int) -> Buckets | None:
    """The options of a packing as they are meant, or None for neither; InputError for what cannot be meant. seq_len is
    the widest of given widths, named or not."""
    if buckets is None and max_tokens is None:
        return None
    if max_tokens is not None and (not _is_whole(max_tokens) or max_tokens < 1):
        raise InputError(f"max_tokens_per_batch: got {max_tokens!r}, expected an integer from 1; give one")
    budget = None if max_tokens is None else int(max_tokens)
    if buckets is None or isinstance(buckets, int | np.integer):
        number = BUCKETS if buckets is None else buckets
        if not _is_whole(number) or number < 1:
            raise InputError(f"buckets: got {buckets!r}, expected an integer from 1, or a list of widths; give one")
        return Buckets(int(number), budget)
    return Buckets(_read_widths(buckets, seq_len), budget)


def _read_widths(given: Sequence[int], seq_len: int) -> tuple[int, ...]:
    listed = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes)
    if not listed or not len(given) or not all(map(_is_whole, given)):
        raise InputError(f"buckets: got {given!r:.80}, expected their number, or a list of widths; give one of them")
    widths = [int(width) for width in given]
    for width, before in zip(widths, [0, *widths], strict=False):
        if width <= before:
            raise InputError(f"buckets: got {width} behind {before}, expected widths from 1 that rise; sort them")
        if width > seq_len:
            raise InputError(
                f"buckets: got {width}, expected at most seq_len {seq_len}, the widest that a row can be; leave it out "
                "or take a larger seq_len"
            )
    return tuple(widths) if widths[-1:] == [seq_len] else (*widths, seq_len)


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
