"""The order, written again from its description alone: one row at a time, Python integers, no numpy."""

import hashlib
from math import isqrt

MASK = (1 << 64) - 1


def keys(seed: int, epoch: int, source: str = "") -> list[int]:
    digest = hashlib.sha512(f"tokenriver order 1\0{seed}\0{epoch}\0{source}".encode()).digest()
    return [int.from_bytes(digest[i : i + 8], "little") for i in range(0, 64, 8)]


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def row(g: int, size: int, seed: int, source: str = "") -> int:
    epoch, place = divmod(g, size)
    ks = keys(seed, epoch, source)
    if size < 65536:
        golden = 0x9E3779B97F4A7C15
        return sorted(range(size), key=lambda i: mix((i * golden + ks[0]) & MASK))[place]
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
