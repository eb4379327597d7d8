"""Where two encoders may read a text differently: characters younger than one of their Unicode tables.

Encoders split text by character classes, and each carries the classes of the Unicode version it was built with: a
code point that one knows as a letter is unassigned to the other. So every code point that Unicode 14 (the oldest table
we support) leaves unassigned is risky, whatever the versions at hand: the rule needs no list per version. A test
encodes all code points with the installed encoders and finds no difference outside this set. The noncharacters are
in it for ever, which is what lets `_fast` use two of them as a marker.

A text with a risky character is not given up whole: it is cut around the character, at places where every supported
split pattern has a boundary for sure, and only the piece between the cuts goes to the reference encoder.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenriver.types import Bools, Int32, Int64

# No supported pattern has a match that goes on from an ASCII letter to an ASCII character that is neither a letter nor
# an apostrophe, none looks behind, and what looks ahead (a run of white space, for the character after it) has the
# letter after it on the left side of the cut.
_CUT = re.compile(rb"[A-Za-z](?=[\x00-&(-@\[-`{-\x7f])")
RANGES = Path(__file__).with_name("data") / "unassigned-14.txt"
_STRETCH = 1 << 17
_NEAR = 32


class Tables(NamedTuple):
    """What the UTF-8 of the risky code points looks like, from coarse to exact."""

    runs: tuple[tuple[int, int], ...]
    """First and last of a few ranges of bytes that hold the first byte of every risky character."""
    pairs: Bools
    """(65536,) by first byte * 256 + second byte."""
    points: Bools
    """(0x110000,) by code point."""


@cache
def tables() -> Tables:
    """The tables of the code points unassigned in Unicode 14, made once from the shipped ranges."""
    points = np.zeros(0x110000, dtype=np.bool_)
    for line in RANGES.read_text("ascii").splitlines():
        first, last = line.split()
        points[int(first, 16) : int(last, 16) + 1] = True
    short = np.flatnonzero(points[:0x800])
    blocks = np.flatnonzero(points.reshape(-1, 64).any(axis=1))
    three, four = blocks[(blocks >= 32) & (blocks < 1024)], blocks[blocks >= 1024] >> 6
    pairs = np.zeros(65536, dtype=np.bool_)
    pairs[(0xC0 | short >> 6) << 8 | 0x80 | short & 0x3F] = True
    pairs[(0xE0 | three >> 6) << 8 | 0x80 | three & 0x3F] = True
    pairs[(0xF0 | four >> 6) << 8 | 0x80 | four & 0x3F] = True
    return Tables(_runs(np.flatnonzero(pairs.reshape(256, 256).any(axis=1))), pairs, points)


def _runs(leads: Int64) -> tuple[tuple[int, int], ...]:
    """Ranges that cover ascending bytes; gaps of up to three are covered too, since each range costs two passes."""
    edges = np.flatnonzero(np.diff(leads) > 4)
    firsts, lasts = leads[np.r_[0, edges + 1]], leads[np.r_[edges, len(leads) - 1]]
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))


def find(blob: bytes) -> Int64:
    """Byte offsets of the risky characters in valid UTF-8, ascending."""
    data = np.frombuffer(blob + bytes(3), dtype=np.uint8)
    # in stretches that stay in the cache, with temporary arrays too small to come fresh from the system each time
    found = [_find(data[start : start + _STRETCH + 3]) + start for start in range(0, len(blob), _STRETCH)]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _find(data: NDArray[np.uint8]) -> Int64:
    """Offsets of risky characters that start before the last three bytes of data."""
    runs, pairs, points = tables()
    inner = data[:-3]
    mask = np.zeros(len(inner), dtype=np.bool_)
    for first, last in runs:
        mask |= inner - np.uint8(first) <= last - first
    spots = np.flatnonzero(mask)
    spots = spots[pairs[data[spots].astype(np.int64) << 8 | data[spots + 1]]]
    found: Int64 = spots[points[_code_points(data, spots)]]
    return found


def _code_points(data: NDArray[np.uint8], spots: Int64) -> Int32:
    """The code points of the two, three and four byte characters at `spots`."""
    a, b, c, d = (data[spots + i].astype(np.int32) for i in range(4))
    two = (a & 0x1F) << 6 | b & 0x3F
    three = (a & 0x0F) << 12 | (b & 0x3F) << 6 | c & 0x3F
    four = (a & 0x07) << 18 | (b & 0x3F) << 12 | (c & 0x3F) << 6 | d & 0x3F
    points: Int32 = np.minimum(np.where(a < 0xE0, two, np.where(a < 0xF0, three, four)), 0x10FFFF)
    return points


def windows(text: bytes, spots: list[int]) -> list[tuple[int, int]]:
    """Disjoint ranges [start, stop) of one text around its risky characters (ascending offsets), cut where every
    supported pattern has a boundary; linear in the text, however many characters there are. Near ones are one, since
    every window costs the reference a call, as much as so many bytes."""
    found: list[tuple[int, int]] = []
    done = 0
    for spot in spots:
        if spot < done:
            continue
        start = _boundary_before(text, done, spot)
        match = _CUT.search(text, spot)
        stop = match.end() if match else len(text)
        if found and start - found[-1][1] < _NEAR:
            start = found.pop()[0]
        found.append((start, stop))
        done = stop
    return found


def _boundary_before(text: bytes, low: int, spot: int) -> int:
    """The last sure boundary in [low, spot], low itself being one; looked for in ever longer stretches before it."""
    reach = _NEAR
    while True:
        start = max(low, spot - reach)
        places = [match.end() for match in _CUT.finditer(text, start, spot)]
        if places or start == low:
            return places[-1] if places else low
        reach *= 4
