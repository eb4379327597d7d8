"""Many ranges of numbers as columns."""

import numpy as np

from tokenriver.types import Int64


def expand(firsts: Int64, counts: Int64) -> tuple[Int64, Int64]:
    """(which, numbers): firsts[i], firsts[i] + 1, ... (counts[i] of them) for each i, (m,) int64 both."""
    which = np.repeat(np.arange(len(firsts), dtype=np.int64), counts)
    return which, np.arange(len(which), dtype=np.int64) + np.repeat(firsts - np.cumsum(counts) + counts, counts)
