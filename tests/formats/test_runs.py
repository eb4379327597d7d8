"""Runs of bytes: both ways of copying against slices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver.formats import _runs

LENGTHS = st.lists(st.integers(0, 9), max_size=12)


@pytest.mark.parametrize("long", [0, 10**9])
@settings(max_examples=100, deadline=None, derandomize=True)
@given(gaps=LENGTHS, sizes=LENGTHS, rest=st.integers(0, 5))
def test_heads_are_put_where_they_belong(long: int, gaps: list[int], sizes: list[int], rest: int) -> None:
    count = min(len(gaps), len(sizes))
    at = np.cumsum(gaps[:count], dtype=np.int64)
    data = np.arange(sum(gaps[:count]) + rest).astype(np.uint8)
    heads = (200 + np.arange(sum(sizes[:count])) % 50).astype(np.uint8)
    expected, done, used = b"", 0, 0
    for place, size in zip(at.tolist(), sizes, strict=False):
        expected += data[done:place].tobytes() + heads[used : used + size].tobytes()
        done, used = place, used + size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_runs, "LONG", long)
        found = _runs.insert(data, at, heads, np.array(sizes[:count], np.int64))
    assert found.tobytes() == expected + data[done:].tobytes()


@pytest.mark.parametrize("long", [0, 10**9])
@settings(max_examples=100, deadline=None, derandomize=True)
@given(gaps=LENGTHS, sizes=LENGTHS, rest=st.integers(0, 5))
def test_runs_are_taken_out(long: int, gaps: list[int], sizes: list[int], rest: int) -> None:
    count = min(len(gaps), len(sizes))
    total = sum(gaps[:count]) + sum(sizes[:count])
    data = np.arange(total + rest).astype(np.uint8)
    lengths = np.array(sizes[:count], np.int64)
    at = np.cumsum(np.array(gaps[:count], np.int64) + lengths) - lengths
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_runs, "LONG", long)
        found = _runs.take(data, at, lengths)
    assert found.tolist() == [x for a, n in zip(at.tolist(), sizes, strict=False) for x in data[a : a + n].tolist()]
