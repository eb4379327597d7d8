"""What holds for every packing: a new file in packing/ is tested by being there."""

from collections.abc import Mapping

import numpy as np
import pytest

from rivers import ArrayRiver
from tokenriver import registry
from tokenriver.types import Packing

LENGTHS = ([40], [1, 2, 1] * 10, [3, 5, 9, 1, 22], [0, 17, 0, 6, 17, 0])
every = pytest.mark.parametrize("name", registry.names("packing"))
documents = pytest.mark.parametrize("lengths", LENGTHS, ids=str)
widths = pytest.mark.parametrize("seq_len", [1, 4, 13])


def pack(name: str, lengths: list[int], seq_len: int) -> Packing:
    """A packing; minimind's rows have two ids at least, so its shortest are of two."""
    shortest = 2 if name == "minimind" else 1
    river = ArrayRiver(sum(lengths), lengths)
    packing: Packing = registry.load("packing", name).pack(river, seq_len=max(seq_len, shortest))
    return packing


def targets_of(packing: Packing) -> list[int]:
    """River positions of the targets of all rows: all ids of a span but the first, or of a chained row."""
    seen: set[int] = set()
    targets: list[int] = []
    for row, start, stop in zip(
        *(column.tolist() for column in packing.spans(np.arange(len(packing)), 0)), strict=True
    ):
        first = row not in seen if packing.chained else True
        seen.add(row)
        targets += range(start + first, stop)
    return targets


@every
@documents
@widths
def test_spans_lie_in_the_river_and_fit_their_row(name: str, lengths: list[int], seq_len: int) -> None:
    packing = pack(name, lengths, seq_len)
    assert packing.seq_len in (seq_len, 2)
    assert len(packing) > 0
    for epoch in (0, 3):
        row, start, stop = packing.spans(np.arange(len(packing)), epoch)
        assert len(row) == len(start) == len(stop)
        assert (np.diff(row) >= 0).all()
        assert np.unique(row).tolist() == list(range(len(packing)))
        assert start.min() >= 0
        assert stop.max() <= sum(lengths)
        # the law of packing: a span of n ids fills n - 1 positions, or a chained row does as a whole
        filled = np.bincount(row, stop - start) - 1 if packing.chained else np.bincount(row, stop - start - 1)
        assert (filled <= packing.seq_len).all()
        assert (filled >= 1).all()
        assert packing.chained or (stop - start >= 2).all()


@every
@documents
@widths
def test_no_id_is_a_target_twice_and_the_balance_says_what_is_served(
    name: str, lengths: list[int], seq_len: int
) -> None:
    packing = pack(name, lengths, seq_len)
    targets = targets_of(packing)
    start = packing.spans(np.arange(len(packing)), 0)[1]
    assert len(targets) == packing.num_targets
    assert len(np.unique(targets)) == len(targets) - getattr(packing, "repeats", 0)
    served = np.unique(np.concatenate([targets, start]))
    balance: Mapping[str, int] = packing.balance
    assert balance["river"] == sum(lengths)
    assert balance["served"] == len(served)
    assert balance["river"] == sum(count for name, count in balance.items() if name != "river")


@every
@documents
@widths
def test_rows_do_not_depend_on_what_is_asked_with_them(name: str, lengths: list[int], seq_len: int) -> None:
    packing = pack(name, lengths, seq_len)
    rows = np.arange(len(packing))[::-1]
    row, start, stop = packing.spans(rows, 1)
    for at, number in enumerate(rows.tolist()):
        alone = packing.spans(np.array([number]), 1)
        assert alone[1].tolist() == start[row == at].tolist()
        assert alone[2].tolist() == stop[row == at].tolist()
    assert packing.starts(rows, np.ones_like(rows)).tolist() == [start[row == at][0] for at in range(len(rows))]


@every
@documents
@widths
def test_windows_lie_equally_far_apart_and_other_rows_are_the_same_in_every_epoch(
    name: str, lengths: list[int], seq_len: int
) -> None:
    packing = pack(name, lengths, seq_len)
    rows = np.arange(len(packing))
    if packing.windows:
        starts = packing.starts(rows, np.full_like(rows, 5))
        assert len(np.unique(np.diff(starts))) <= 1
        assert len(rows) == 1 or starts[1] > starts[0]
    else:
        first, later = packing.spans(rows, 0), packing.spans(rows, 7)
        assert all(np.array_equal(a, b) for a, b in zip(first, later, strict=True))


@every
def test_the_tag_tells_what_determines_the_rows(name: str) -> None:
    tags = [pack(name, [40], seq_len).tag for seq_len in (1, 4, 13)]
    assert len(set(tags)) == 3
    assert tags[0] == pack(name, [7, 8], 1).tag
