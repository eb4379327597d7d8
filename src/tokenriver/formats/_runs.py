"""Runs of bytes moved together: small heads put between long runs, or runs taken out of what lies between them.

Long runs are copied one by one; short ones all at once by a mask, which costs about as much per byte as a copy per run
costs for runs of LONG bytes. Everything here works on uint8 arrays of a few megabytes.
"""

import numpy as np
from numpy.typing import NDArray

from tokenriver.types import Int64

Bytes = NDArray[np.uint8]
LONG = 512


def insert(data: Bytes, at: Int64, heads: Bytes, sizes: Int64) -> Bytes:
    """`data` with k heads in it: head i, the next sizes[i] bytes of `heads`, stands before data[at[i]]; `at` never
    falls, and is at most len(data)."""
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    out = np.empty(len(data) + total, np.uint8)
    places = np.repeat(at, sizes) + np.arange(total)
    out[places] = heads
    if len(data) >= LONG * len(at):
        begins, stops = [0, *at.tolist()], [*at.tolist(), len(data)]
        to, source = out.data, data.data
        for begin, stop, shift in zip(begins, stops, [0, *ends.tolist()], strict=True):
            to[begin + shift : stop + shift] = source[begin:stop]
    else:
        kept = np.ones(len(out), bool)
        kept[places] = False
        out[kept] = data
    return out


def take(data: Bytes, at: Int64, sizes: Int64) -> Bytes:
    """The runs [at[i], at[i] + sizes[i]) of data, one after another; they do not overlap and stand in order."""
    total = int(sizes.sum())
    if total >= LONG * len(at):
        out = np.empty(total, np.uint8)
        to, source, done = out.data, data.data, 0
        for begin, size in zip(at.tolist(), sizes.tolist(), strict=True):
            to[done : done + size] = source[begin : begin + size]
            done += size
        return out
    gaps = np.diff(np.append(at, len(data)), prepend=0)
    gaps[1:] -= sizes
    lengths = np.zeros(2 * len(at) + 1, np.int64)
    lengths[::2], lengths[1::2] = gaps, sizes
    pattern = np.arange(len(lengths)) % 2 == 1
    taken: Bytes = data[np.repeat(pattern, lengths)]
    return taken
