"""Blocks of rows against the rows one by one."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenriver.rowblocks import row_blocks, spread
from tokenriver.types import BadRow, DocumentBatch

ROWS = st.lists(st.sampled_from(["text", "bad", "skipped"]), max_size=40)


@given(kinds=ROWS, size=st.integers(1, 12), cuts=st.lists(st.integers(0, 40), max_size=4))
def test_blocks_are_the_rows_in_order(kinds: list[str], size: int, cuts: list[int]) -> None:
    batches = []
    for start, stop in pairwise(sorted({0, len(kinds), *(cut for cut in cuts if cut < len(kinds))})):
        rows = range(start, stop)
        kept = [i for i in rows if kinds[i] == "text"]
        bad = tuple(BadRow(i, -1, "null") for i in rows if kinds[i] == "bad")
        batches.append(DocumentBatch([b"%d" % i for i in kept], np.array(kept, np.int64), len(rows), bad, {}))
    blocks = list(row_blocks(batches, size))
    parts = [range(at, min(at + size, len(kinds))) for at in range(0, len(kinds), size)]
    assert [block.rows for block in blocks] == [len(part) for part in parts]
    assert [block.texts for block in blocks] == [[b"%d" % i for i in part if kinds[i] == "text"] for part in parts]
    assert [block.bad for block in blocks] == [sum(kinds[i] == "bad" for i in part) for part in parts]


@given(sizes=st.lists(st.integers(0, 50), max_size=20), points=st.integers(1, 64))
def test_places_are_spread_by_size(sizes: list[int], points: int) -> None:
    total = sum(sizes)
    if not total:
        return
    counts = spread([float(size) for size in sizes], points)
    assert sum(counts) == points
    assert all(abs(count - size * points / total) <= 1 for count, size in zip(counts, sizes, strict=True))
