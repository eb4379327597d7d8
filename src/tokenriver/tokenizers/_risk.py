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
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenriver.types import Bools, Int64

# No supported pattern has a match that goes on from an ASCII letter to a space, none looks behind, and what looks ahead
# (a run of white space, for the character after it) has the letter after it on the left side of the cut.
_CUT = re.compile(rb"[A-Za-z](?= )")


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
    words = resources.files(__package__).joinpath("data/unassigned-14.txt").read_text("ascii").split()
    bounds = np.array([int(word, 16) for word in words], dtype=np.int64).reshape(-1, 2)
    steps = np.zeros(0x110001, dtype=np.int8)
    steps[bounds[:, 0]] += 1
    steps[bounds[:, 1] + 1] -= 1
    points = np.cumsum(steps[:-1], dtype=np.int8).astype(np.bool_)
    pairs = np.zeros(65536, dtype=np.bool_)
    risky = np.flatnonzero(points)
    for low, high, first, shift in ((0x80, 0x800, 0xC0, 6), (0x800, 0x10000, 0xE0, 12), (0x10000, 0x110000, 0xF0, 18)):
        part = risky[(risky >= low) & (risky < high)]
        pairs[(first | part >> shift) << 8 | 0x80 | (part >> (shift - 6)) & 0x3F] = True
    return Tables(_runs(np.unique(np.flatnonzero(pairs) >> 8)), pairs, points)


def _runs(leads: Int64) -> tuple[tuple[int, int], ...]:
    """Ranges that cover ascending bytes; gaps of up to three are covered too, since each range costs two passes."""
    edges = np.flatnonzero(np.diff(leads) > 4)
    firsts, lasts = leads[np.r_[0, edges + 1]], leads[np.r_[edges, len(leads) - 1]]
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))


def find(blob: bytes) -> Int64:
    """Byte offsets of the risky characters in valid UTF-8, ascending."""
    runs, pairs, points = tables()
    data = np.frombuffer(blob + bytes(3), dtype=np.uint8)
    mask = np.zeros(len(data), dtype=np.bool_)
    for first, last in runs:
        mask |= data - np.uint8(first) <= last - first
    spots = np.flatnonzero(mask)
    spots = spots[pairs[data[spots].astype(np.int64) << 8 | data[spots + 1]]]
    found: Int64 = spots[points[_code_points(data, spots)]]
    return found


def _code_points(data: NDArray[np.uint8], spots: Int64) -> Int64:
    """The code points of the two, three and four byte characters at `spots`."""
    a, b, c, d = (data[spots + i].astype(np.int64) for i in range(4))
    two = (a & 0x1F) << 6 | b & 0x3F
    three = (a & 0x0F) << 12 | (b & 0x3F) << 6 | c & 0x3F
    four = (a & 0x07) << 18 | (b & 0x3F) << 12 | (c & 0x3F) << 6 | d & 0x3F
    points: Int64 = np.where(a < 0xE0, two, np.where(a < 0xF0, three, four)) % 0x110000
    return points


def windows(text: bytes, spots: list[int]) -> list[tuple[int, int]]:
    """Disjoint ranges [start, stop) of one text around its risky characters (ascending offsets), cut where every
    supported pattern has a boundary; linear in the text, however many characters there are."""
    found: list[tuple[int, int]] = []
    done = 0
    for spot in spots:
        if spot < done:
            continue
        start = _boundary_before(text, done, spot)
        match = _CUT.search(text, spot)
        stop = match.end() if match else len(text)
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, stop))
        done = stop
    return found


def _boundary_before(text: bytes, low: int, spot: int) -> int:
    """The last sure boundary in [low, spot], low itself being one."""
    place = text.rfind(b" ", low, spot)
    while place > low and not text[place - 1 : place].isalpha():
        place = text.rfind(b" ", low, place)
    return max(place, low)
