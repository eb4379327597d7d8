"""Many ranges of numbers as columns, and the different ones of many numbers."""

import numpy as np

from tokenriver.types import Int32, Int64


def expand(firsts: Int64, counts: Int64) -> tuple[Int64, Int64]:
    """(which, numbers): firsts[i], firsts[i] + 1, ... (counts[i] of them) for each i, (m,) int64 both."""
    which = np.repeat(np.arange(len(firsts), dtype=np.int64), counts)
    return which, np.arange(len(which), dtype=np.int64) + np.repeat(firsts - np.cumsum(counts) + counts, counts)


def distinct(values: Int64 | Int32) -> list[int]:
    """The different ones of some values of any shape, ascending. (np.unique imports masked arrays when it is first
    called, 0.05 s in the middle of a run.)"""
    ordered = np.sort(values, axis=None)
    found: list[int] = ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))].tolist()
    return found
