"""Columns of ranges and of different numbers."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenriver.ranges import distinct, expand


@given(values=st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=20), dtype=st.sampled_from(["int32", "int64"]))
def test_distinct(values: list[int], dtype: str) -> None:
    found = distinct(np.array(values, dtype))
    assert found == sorted(set(values))
    assert all(type(value) is int for value in found)
    assert distinct(np.array([values, values], dtype)) == found


@given(ranges=st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 5)), max_size=12))
def test_expand(ranges: list[tuple[int, int]]) -> None:
    columns = np.array(ranges, np.int64).reshape(-1, 2)
    which, numbers = expand(columns[:, 0], columns[:, 1])
    wanted = [(i, first + k) for i, (first, count) in enumerate(ranges) for k in range(count)]
    assert list(zip(which.tolist(), numbers.tolist(), strict=True)) == wanted


@pytest.mark.parametrize("packing", ["concat", "best_fit"])
def test_the_second_epoch_imports_nothing(packing: str) -> None:
    """Which took 0.05 s in the middle of a run: numpy brings masked arrays when some functions are first called."""
    code = f"""
import sys
from rivers import ArrayRiver
from tokenriver.loader import Loader
from tokenriver.mixing import Mixture
river = ArrayRiver(60, [7, 13, 20, 11, 9])
mixture = Mixture({{"a": (river, 1), "b": (river, 2)}})
for source in (river, mixture):
    loader = Loader(source, seq_len=4, global_batch=3, packing={packing!r}, epochs=None, steps=3 * 60, prefetch=0)
    batches = iter(loader)
    next(batches)
    before = set(sys.modules)
    assert sum(1 for _ in batches) == 3 * 60 - 1
    assert set(sys.modules) == before, set(sys.modules) - before
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
