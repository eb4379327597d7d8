"""Pieces of several views copied in blocks are the same bytes as their slices, whatever they cross and wherever they
end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver import blocks, extents
from tokenriver.blocks import BLOCK, MAX_MEAN, Blocks, blocks_of

SIZES = st.one_of(st.integers(0, 5), st.integers(0, 3 * BLOCK), st.sampled_from([BLOCK - 1, BLOCK, BLOCK + 1]))


def views_of(sizes: list[int]) -> list[memoryview]:
    random = np.random.default_rng(sum(sizes))
    return [memoryview(random.integers(0, 256, size, np.uint8).tobytes()) for size in sizes]


@settings(max_examples=150)
@given(st.data())
def test_any_pieces_of_any_views(data: st.DataObject) -> None:
    sizes = data.draw(
        st.lists(st.sampled_from([0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2000, 5000]), min_size=1, max_size=4)
    )
    views = views_of([*sizes, BLOCK + data.draw(st.integers(0, 3))])
    pieces = []
    for _ in range(data.draw(st.integers(1, 40))):
        which = data.draw(st.integers(0, len(views) - 1))
        size = min(data.draw(SIZES), len(views[which]))
        # close to the end of a view as often as anywhere
        begin = len(views[which]) - size - min(data.draw(SIZES), len(views[which]) - size)
        pieces.append((which, begin, begin + size))
    which, begins, ends = np.array(pieces, np.int64).T
    made = Blocks(views, which.astype(np.int32), begins, ends)
    assert made.num_views <= len(views)
    for _ in range(3):
        first = data.draw(st.integers(0, len(pieces) - 1))
        last, slack = data.draw(st.integers(first + 1, len(pieces))), data.draw(st.integers(0, BLOCK))
        joined = made.joined(first, last, slack)
        expected = b"".join(views[number][begin:end] for number, begin, end in pieces[first:last])
        assert joined[: len(expected)].tobytes() == expected
        assert len(joined) == len(expected) + slack
        joined[:] = 0  # a copy, for the caller to write in
        again = made.joined(first, last, 0)
        assert again.tobytes() == expected


def test_where_blocks_gain_nothing_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    views = views_of([10 * MAX_MEAN, 0])
    nothing = np.zeros(0, np.int64)

    def made(ends: list[int], which: int = 0, views: list[memoryview] = views) -> Blocks | None:
        return blocks_of(views, np.full(len(ends), which, np.int32), np.zeros(len(ends), np.int64), np.array(ends))

    assert made([1, 2, MAX_MEAN]) is not None
    assert made([MAX_MEAN + 1]) is None
    assert made([0, 0]) is None
    assert made([0], 1, views_of([BLOCK - 1, 0])) is None
    assert blocks_of(views, nothing.astype(np.int32), nothing, nothing) is None
    monkeypatch.setattr(blocks, "MAX_BLOCKS", 2)
    assert made([2 * BLOCK]) is not None
    assert made([2 * BLOCK + 1, 0]) is None


@pytest.mark.parametrize("least", [1, 1 << 40])
def test_windows_in_blocks_are_those_in_slices(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr(extents, "MIN_PIECES", least)
    ids = np.arange(3000, dtype=np.uint16)
    made = extents.make(ids.data.cast("B"), np.arange(0, 6000, 20), np.full(300, 10), 2)
    starts, sizes = np.array([0, -1, 5, 2990, 7, 100]), np.array([30, 4, 1, 10, 0, 2500])
    cuts = made.cut(starts, sizes, made.met(starts, sizes)).in_blocks()
    assert cuts.blocks is not None
    every = [ids[s : s + n] if s >= 0 else np.zeros(n, np.uint16) for s, n in zip(starts, sizes, strict=True)]
    for first in range(len(starts) + 1):
        for last in range(first, len(starts) + 1):
            joined = cuts.joined(first, last, 2).view(np.uint16)
            assert joined[:-1].tolist() == [i for some in every[first:last] for i in some.tolist()]
            assert len(joined) == sum(sizes[first:last]) + 1
