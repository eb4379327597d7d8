"""Documents across shards against the naive reference: one list of documents, cut anywhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver import documents as module
from tokenriver import extents
from tokenriver.documents import DocumentBounds, Parting
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.extents import Extents
from tokenriver.river import River
from tokenriver.shelf import Shelf
from tokenriver.storage import ShardReader
from tokenriver.types import Ids, Int32, Int64


class Held:
    """A shard in memory; document i of the river is record 3 i of source i % 5."""

    def __init__(self, ids: Sequence[int], ends: Sequence[int] | None = None, first: int = 0) -> None:
        self.ids: Ids = np.array(ids, np.uint16)
        self.num_tokens, self.dtype = len(ids), self.ids.dtype
        counts = np.array([len(ids)])
        self.extents: Extents | None = extents.make(self.ids.data.cast("B"), np.zeros_like(counts), counts, 2)
        self.doc_ends: Int64 | None = None if ends is None else np.array(ends, np.int64)
        numbers = np.arange(first, first + len(ends or ()))
        self.origins: tuple[Int64, Int32] | None = (numbers * 3, (numbers % 5).astype(np.int32))

    def read(self, start: int, stop: int) -> Ids:
        return self.ids[start:stop]

    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]:
        return [self.ids[s : s + n].data.cast("B") for s in starts.tolist()]

    def read_ahead(self, start: int, stop: int) -> None:
        assert 0 <= start <= stop <= self.num_tokens

    def close(self) -> None: ...


def over(shards: Sequence[Held], parting: Parting | None = None) -> DocumentBounds:
    """The documents of some shards, by their own ends or by an id."""
    opened: Callable[[int], ShardReader] = shards.__getitem__
    river = River(np.array([s.num_tokens for s in shards], np.int64), np.dtype("uint16"), Shelf(opened, 2))
    paths = [Path(f"{number}.bin") for number in range(len(shards))]
    counts = [0 if s.doc_ends is None else len(s.doc_ends) for s in shards]
    return DocumentBounds(river, paths, None if parting is not None else counts, parting)


@dataclass(frozen=True)
class Case:
    """Lengths of documents, and shards as (ids, documents that end in it): the cut of both."""

    lengths: list[int]
    shards: list[tuple[int, int]]

    def make(self) -> list[Held]:
        ends = list(accumulate(self.lengths))
        made, begin, first = [], 0, 0
        for size, count in self.shards:
            own = [end - begin for end in ends[first : first + count]]
            made.append(Held(range(begin, begin + size), own, first))
            begin, first = begin + size, first + count
        return made


@st.composite
def cases(draw: st.DrawFn) -> Case:
    lengths = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 7]), min_size=1, max_size=12).filter(sum))
    total = sum(lengths)
    cuts = sorted(draw(st.sets(st.integers(1, total - 1), max_size=8))) if total > 1 else []
    ends = list(accumulate(lengths))
    kept = [0]
    for cut in cuts:
        # documents that end at the cut may be told of by the shard before it or by the one behind it
        low, high = sum(end < cut for end in ends), sum(end <= cut for end in ends)
        kept.append(draw(st.integers(low, high)))
    kept.append(len(lengths))
    sizes = [b - a for a, b in pairwise([0, *cuts, total])]
    return Case(lengths, list(zip(sizes, [b - a for a, b in pairwise(kept)], strict=True)))


@settings(max_examples=300)
@given(case=cases(), walk=st.integers(1, 3), data=st.data())
def test_any_documents_in_any_shards(case: Case, walk: int, data: st.DataObject) -> None:
    found = over(case.make())
    ends = list(accumulate(case.lengths))
    bounds = list(pairwise([0, *ends]))
    total, count = sum(case.lengths), len(case.lengths)
    assert found.count == count
    assert [found.bounds(i) for i in range(count)] == bounds
    holding = [i for i, (start, stop) in enumerate(bounds) for _ in range(start, stop)]
    assert [found.at(position) for position in range(total)] == holding
    assert found.at_all(np.arange(total)[::-1]).tolist() == holding[::-1]
    assert found.ends_of(np.arange(count)[::-1]).tolist() == ends[::-1]
    assert [found.ended(p) for p in range(total + 1)] == [sum(end <= p for end in ends) for p in range(total + 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WALK", walk)
        walked = [(source, record, ids.tolist()) for source, record, ids in found.walk()]
    assert walked == [(i % 5, 3 * i, list(range(*pair))) for i, pair in enumerate(bounds)]
    first, last = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    stops: list[int] = []
    records: list[int] = []
    for begin, column, origins in found.between(first, last):
        assert origins is not None
        assert len(column) == len(origins[0]) == len(origins[1]) > 0
        stops += (begin + column).tolist()
        records += origins[0].tolist()
    assert (stops, records) == (ends[first:last], [3 * i for i in range(first, last)])


def test_a_document_through_many_shards_opens_only_those_it_needs() -> None:
    """A document that runs through 5000 shards is found without a look into each of them."""
    shards = [Held([1], [1]), *(Held([number % 7], []) for number in range(5000)), Held([9], [0, 1], 1)]
    opened: list[int] = []

    def opener(number: int) -> ShardReader:
        opened.append(number)
        return shards[number]

    sizes = np.array([shard.num_tokens for shard in shards], np.int64)
    counts = [0 if shard.doc_ends is None else len(shard.doc_ends) for shard in shards]
    paths = [Path("a")] * len(shards)
    found = DocumentBounds(River(sizes, np.dtype("uint16"), Shelf(opener)), paths, counts)
    assert [found.bounds(i) for i in range(3)] == [(0, 1), (1, 5001), (5001, 5002)]
    assert found.at(2500) == 1
    assert len(opened) <= 4
    opened.clear()
    assert [len(ids) for _, _, ids in found.walk()] == [1, 5000, 1]
    assert len(opened) <= 3 * len(shards)


@pytest.mark.parametrize(("last", "words"), [([], "goes on behind the last shard"), ([1], "goes on behind")])
def test_a_last_document_that_does_not_end_is_refused(last: list[int], words: str) -> None:
    found = over([Held([1, 2], [2]), Held([3, 4], last, 1)])
    assert found.bounds(0) == (0, 2)
    for ask in (lambda: found.at(3), lambda: list(found.walk()), lambda: found.ended(4)):
        with pytest.raises(FormatError, match=f"1\\.bin: documents: .*{words}"):
            ask()


def test_bounds_that_changed_after_opening_are_refused() -> None:
    shards = [Held([1, 2], [1, 2]), Held([3], [1])]
    found = over(shards)
    shards[0].doc_ends = np.array([2])
    with pytest.raises(FormatError, match=r"0\.bin: documents: got 1, expected 2"):
        found.bounds(0)
    shards[0].doc_ends = None
    with pytest.raises(FormatError, match=r"0\.bin: documents: got none, expected 2"):
        found.at(0)


def test_documents_that_are_not_there_and_origins_that_nobody_kept() -> None:
    shards = [Held([1, 2], [1]), Held([3], [1], 1)]
    found = over(shards)
    for index in (-1, 2, 2**63):
        with pytest.raises(LimitError, match=f"document: got {index}, expected 0 to 1"):
            found.bounds(index)
    shards[1].origins = None
    assert [origins is None for _, _, origins in found.between(0, 2)] == [False, True]
    with pytest.raises(FormatError, match=r"1\.bin: got documents without their sources"):
        list(found.walk())
    river = River(np.array([2, 1]), np.dtype("uint16"), Shelf(shards.__getitem__))
    bare = DocumentBounds(river, [Path("a"), Path("b")], None)
    assert bare.count is None
    with pytest.raises(LimitError, match="document: got 0"):
        bare.bounds(0)


# --------------------------------------------------------------------------------- parted by an id


def split_naively(ids: Sequence[int], parting: Parting) -> list[list[int]]:
    """Documents of a river: one id at a time."""
    found: list[list[int]] = [[]]
    for token in ids:
        if token == parting.id and parting.framing == "eos-before" and found[-1]:
            found.append([])
        found[-1].append(token)
        if token == parting.id and parting.framing == "eos-after":
            found.append([])
    return [document for document in found if document]


@settings(max_examples=200)
@given(
    shards=st.lists(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=1, max_size=7), min_size=1, max_size=6),
    framing=st.sampled_from(["eos-before", "eos-after"]),
    stretch=st.sampled_from([1, 3, 1 << 22]),
)
def test_documents_parted_by_an_id(shards: list[list[int]], framing: str, stretch: int) -> None:
    parting = Parting(0, framing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "STRETCH", stretch)
        found = over([Held(ids) for ids in shards], parting)
    every = [i for ids in shards for i in ids]
    expected = split_naively(every, parting)
    assert found.count == len(expected)
    assert [every[slice(*found.bounds(i))] for i in range(len(expected))] == expected
    at = [i for i, document in enumerate(expected) for _ in document]
    assert [found.at(position) for position in range(len(every))] == at
    ends = list(accumulate(map(len, expected)))
    assert [found.ended(p) for p in range(len(every) + 1)] == [sum(e <= p for e in ends) for p in range(len(every) + 1)]
    with pytest.raises(FormatError, match="without their sources"):
        list(found.walk())


@pytest.mark.parametrize(
    ("framing", "shards", "bounds"),
    [
        ("eos-after", [[1, 0], [2, 0]], [(0, 2), (2, 4)]),
        ("eos-after", [[1], [0, 2], [2]], [(0, 2), (2, 4)]),
        ("eos-after", [[0], [0], [0]], [(0, 1), (1, 2), (2, 3)]),
        ("eos-before", [[0, 1], [0, 2]], [(0, 2), (2, 4)]),
        ("eos-before", [[0, 1], [2, 0]], [(0, 3), (3, 4)]),
        ("eos-before", [[1, 1], [0, 2]], [(0, 2), (2, 4)]),
        ("eos-before", [[0], [0], [0]], [(0, 1), (1, 2), (2, 3)]),
        ("eos-before", [[1], [1]], [(0, 2)]),
    ],
)
def test_the_parting_id_at_the_edge_of_a_shard(
    framing: str, shards: list[list[int]], bounds: list[tuple[int, int]]
) -> None:
    found = over([Held(ids) for ids in shards], Parting(0, framing))
    assert [found.bounds(i) for i in range(found.count or 0)] == bounds


@pytest.mark.parametrize(
    ("values", "words"),
    [((0, "none"), "framing: got 'none'"), ((0, ""), "framing: got ''"), ((-1, "eos-after"), "eos_id: got -1")],
)
def test_a_parting_that_cannot_be_is_refused(values: tuple[Any, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Parting(*values)
