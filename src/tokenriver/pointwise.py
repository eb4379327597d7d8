"""The keyed permutation of `sampler.py` for a few points, in plain integers.

A look-up of one document asks for the places of two or three rows. On arrays that is some hundred operations of about
a microsecond each, however short they are; here a point is eight rounds of a dozen integer operations.
"""

from collections.abc import Sequence
from math import isqrt

from tokenriver.splitmix import MASK, finished

WIDE_FROM = 1 << 48
"""From this many rows on, 32 bits of a hash are too coarse to choose a digit: 64 are used."""


def grid(size: int) -> tuple[int, int]:
    """(a, b), as nearly equal as can be, with a * b >= size: the points that the network permutes."""
    rows = isqrt(size - 1) + 1
    return rows, -(-size // rows)


def walked(points: Sequence[int], size: int, keys: Sequence[int], *, backwards: bool) -> list[int]:
    """Where points of [0, size) go, or come from; those that land past `size` go round again."""
    found = []
    for point in points:
        point = _feistel(point, size, keys, backwards)
        while point >= size:
            point = _feistel(point, size, keys, backwards)
        found.append(point)
    return found


def _feistel(point: int, size: int, keys: Sequence[int], backwards: bool) -> int:
    a, b = grid(size)
    left, right = divmod(point, b)
    shift = 0 if size >= WIDE_FROM else 32
    sign = -1 if backwards else 1
    for number in range(len(keys))[::sign]:
        odd = number & 1
        word = finished(((left if odd else right) + keys[number]) & MASK) >> shift
        if odd:
            right = (right + sign * (word * b >> (64 - shift))) % b
        else:
            left = (left + sign * (word * a >> (64 - shift))) % a
    return left * b + right
