"""The order, written again from its description alone: one row at a time, Python integers, no numpy."""

import hashlib
from functools import lru_cache
from math import isqrt

MASK = (1 << 64) - 1


def keys(seed: int, epoch: int, source: str = "") -> list[int]:
    digest = hashlib.sha512(f"tokenriver order 1\0{seed}\0{epoch}\0{source}".encode()).digest()
    return [int.from_bytes(digest[i : i + 8], "little") for i in range(0, 64, 8)]


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


@lru_cache(maxsize=1 << 12)
def sort(size: int, key: int) -> tuple[int, ...]:
    """An epoch of fewer than 65,536 rows."""
    golden = 0x9E3779B97F4A7C15
    return tuple(sorted(range(size), key=lambda i: mix((i * golden + key) & MASK)))


def row(g: int, size: int, seed: int, source: str = "") -> int:
    epoch, place = divmod(g, size)
    ks = keys(seed, epoch, source)
    if size < 65536:
        return sort(size, ks[0])[place]
    a = isqrt(size - 1) + 1
    b = -(-size // a)
    while True:
        left, right = divmod(place, b)
        for number, key in enumerate(ks):
            if number % 2 == 0:
                left = (left + scale(mix((right + key) & MASK), a, size)) % a
            else:
                right = (right + scale(mix((left + key) & MASK), b, size)) % b
        place = left * b + right
        if place < size:
            return place


def scale(hashed: int, radix: int, size: int) -> int:
    return (hashed * radix) >> 64 if size >= 1 << 48 else ((hashed >> 32) * radix) >> 32


def dealt(first: int, batch: int, ranks: tuple[int, int], micro: int | None, end: int | None) -> list[list[int]]:
    """The row numbers of a step that begins with row number `first`, as the micro-batches of rank r of W, `ranks`; -1
    is filler, as is what lies behind the end of the run. micro: rows of one, or None for a rank's whole share."""
    rank, world = ranks
    numbers = range(first + rank * batch // world, first + (rank + 1) * batch // world)
    share = -(-batch // world)
    micro = micro or share
    cells = [g for g in numbers if end is None or g < end]
    cells += [-1] * (-(-share // micro) * micro - len(cells))
    return [cells[at : at + micro] for at in range(0, len(cells), micro)]
