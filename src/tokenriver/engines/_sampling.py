"""Some of a unit's documents as they were encoded, which the gate compares with the reference encoder."""

import re
from dataclasses import dataclass

import numpy as np

from tokenriver.types import Ids, Int64

SAMPLE_TEXT_BYTES = 256 << 10
SAMPLE_RUN_BYTES = 8 << 10
"""A longer text with a long run without spaces is no sample: reference encoders are quadratic on those."""
LONG_RUN = re.compile(rb"\S{1024}")


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of a unit's documents as they were encoded, for the gate."""

    texts: list[bytes]
    ids: Int64
    lengths: Int64


def no_sample() -> Sample:
    return Sample([], np.empty(0, np.int64), np.empty(0, np.int64))


def take_sample(
    old: Sample, texts: list[bytes], encoded: tuple[Ids, Int64], wanted: int, framing: tuple[bool, bool]
) -> Sample:
    """The sample with some short documents of a batch, evenly spread over it, and the ids that they were given (framing
    removed), up to `wanted` bytes of text."""
    left = wanted - sum(map(len, old.texts))
    if left <= 0:
        return old
    ids, lengths = encoded
    ends = np.cumsum(lengths)
    front, back = map(int, framing)
    chosen: list[int] = []
    step = max(1, sum(map(len, texts)) // left)
    for i in range(0, len(texts), step):
        if len(texts[i]) <= left and _is_sample(texts[i]):
            chosen.append(i)
            left -= len(texts[i])
    taken = [ids[ends[i] - lengths[i] + front : ends[i] - back] for i in chosen]
    return Sample(
        [*old.texts, *(texts[i] for i in chosen)],
        np.concatenate([old.ids, *taken]).astype(np.int64),
        np.concatenate([old.lengths, lengths[chosen] - front - back]),
    )


def _is_sample(text: bytes) -> bool:
    return len(text) <= SAMPLE_RUN_BYTES or (len(text) <= SAMPLE_TEXT_BYTES and LONG_RUN.search(text) is None)
