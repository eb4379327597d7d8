"""Changes to a set of files: bits, numbers of every width, blocks, lengths, words of JSON, parts of another set."""

import gzip
import random
import re
import zlib
from collections.abc import Callable
from contextlib import suppress

import zstandard

Files = dict[str, bytes]

_NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    127,
    128,
    255,
    256,
    1 << 15,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    1 << 62,
)
_WORDS = (
    *(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"1e308", b"NaN", b"99999999999999999999", b"1.5", b"\x00"),
    *(
        b'"../x"',
        b'"/etc/passwd"',
        b'"."',
        b'"a\\u0000b"',
        b'"\\ud800"',
        b"[[[[[[[[",
        b'"uint16"',
        b'"int64"',
        b'"pkl"',
        b"\xff\xfe",
    ),
)
_DIGITS = re.compile(rb"\d+")
_LARGEST = 1 << 18
"""A file grows no further."""


def _flip_bit(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set_byte(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def _set_number(data: bytearray, chance: random.Random) -> None:
    width = chance.choice((1, 2, 4, 8))
    at = chance.randrange(max(1, len(data) - width + 1))
    old = int.from_bytes(data[at : at + width], "little")
    near = (old + 1, old - 1, old * 2, old ^ 0x80, len(data), len(data) - at, len(data) + 1, -1, -2)
    value = chance.choice(near if chance.random() < 0.6 else _NUMBERS) % (1 << 8 * width)
    data[at : at + width] = value.to_bytes(width, chance.choice(("little", "little", "little", "big")))


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def _delete(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.choice((1, 2, 4, 8, 16, 64))]


def _repeat(data: bytearray, chance: random.Random) -> None:
    at, size = chance.randrange(len(data)), chance.choice((1, 2, 4, 8, 16, 64, 1024))
    data[at:at] = data[at : at + size] * chance.choice((1, 1, 2, 64))


def _swap(data: bytearray, chance: random.Random) -> None:
    size = chance.choice((1, 2, 4, 8, 16))
    a, b = (chance.randrange(max(1, len(data) - size)) for _ in range(2))
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def _append(data: bytearray, chance: random.Random) -> None:
    data += bytes(chance.choice((1, 2, 4, 512))) if chance.random() < 0.5 else chance.randbytes(4)


def _put_word(data: bytearray, chance: random.Random) -> None:
    """Where a number stands in a text, another number or another word."""
    found = list(_DIGITS.finditer(data))
    start, stop = chance.choice(found).span() if found else (0, chance.randrange(len(data)))
    new = str(chance.choice(_NUMBERS)).encode() if chance.random() < 0.5 else chance.choice(_WORDS)
    data[start:stop] = new


def _put_between(data: bytearray, chance: random.Random) -> None:
    """Where something begins or ends in a text, a word."""
    places = [at for at, byte in enumerate(data) if byte in b',:[]{}"\n']
    at = chance.choice(places) if places else chance.randrange(len(data))
    data[at : at + chance.randrange(2)] = chance.choice(_WORDS)


_CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(_flip_bit, _set_byte, _set_number, _set_number, _set_number, _cut, _delete, _repeat, _swap, _append),
    *(_put_word, _put_between),
)


def _change(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        if changed:
            chance.choice(_CHANGES)(changed, chance)
    return bytes(changed[:_LARGEST])


def _change_inside(name: str, data: bytes, chance: random.Random) -> bytes:
    """Change what is compressed and compress it anew: a checksum would hide whatever lies behind it."""
    with suppress(OSError, EOFError, zlib.error, zstandard.ZstdError):
        if name.endswith(".gz"):
            return gzip.compress(_change(gzip.decompress(data), chance), mtime=0)
        if name.endswith((".zst", ".zstd")):
            inside = zstandard.ZstdDecompressor().decompress(data, max_output_size=_LARGEST)
            return zstandard.ZstdCompressor().compress(_change(inside, chance))
    return _change(data, chance)


def mutate(files: Files, other: Files, chance: random.Random) -> Files:
    """A changed copy of a set; `other` is one whose parts may be taken over."""
    changed = dict(files)
    name = chance.choice(sorted(changed))
    kind = chance.random()
    if kind < 0.02 and len(changed) > 1:
        del changed[name]
    elif kind < 0.05:
        changed[name] = chance.choice(list(other.values()))
    elif kind < 0.1:
        mine, theirs = changed[name], other.get(name, chance.choice(list(other.values())))
        changed[name] = mine[: chance.randrange(len(mine) + 1)] + theirs[chance.randrange(len(theirs) + 1) :]
    elif kind < 0.8:
        changed[name] = _change_inside(name, changed[name], chance)
    else:
        changed[name] = _change(changed[name], chance)
    return changed
