"""What goes where: splits, bounds and shards from receipts, against a reference that walks over the documents."""

from collections.abc import Iterator
from itertools import accumulate, chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hand_made_parts import hand_made
from naive_builds import Document, Wanted, cut_at, shards_of
from small_builds import QuickDisk
from tokenriver import files
from tokenriver.assembly import (
    Cuts,
    Plan,
    Segment,
    assemble,
    divide,
    enough,
    ids_of,
    is_final,
    rows_before,
    shard_targets,
)
from tokenriver.parts import PieceReceipt, Receipt

Held = list[list[bool]]
Units = list[list[int]]


@pytest.fixture(scope="module", autouse=True)
def _quick_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "system", QuickDisk())
        yield


def cuts(wanted: Wanted) -> Cuts:
    return Cuts(wanted.max_tokens, wanted.val_tokens, wanted.val_fraction, wanted.shard_tokens, wanted.exact)


def reference(units: Units, held: Held, wanted: Wanted) -> tuple[dict[str, list[list[Document]]], int]:
    """(splits, ids beyond max_tokens); a document's ids are its positions among all ids."""
    lengths, sides = list(chain(*units)), list(chain(*held))
    ends = list(accumulate(lengths))
    everything = [(list(range(end - lengths[n], end)), n, 0) for n, end in enumerate(ends)]
    kept = [d for d, end in zip(everything, ends, strict=True) if wanted.max_tokens is None or end <= wanted.max_tokens]
    if wanted.val_fraction:
        val = [d for d in kept if sides[d[1]]]
        train = [d for d in kept if not sides[d[1]]]
    elif wanted.val_tokens:
        val, train = cut_at(kept, wanted.val_tokens, wanted.exact)
    else:
        val, train = [], kept
    beyond = sum(lengths) - sum(len(ids) for ids, _, _ in kept)
    return {name: shards_of(side, wanted) for name, side in (("train", train), ("val", val)) if side}, beyond


def shown(units: Units, shard: list[Segment]) -> list[int]:
    """The ids of a shard as positions among all ids."""
    begins = [0, *accumulate(map(sum, units))]
    return [i for s in shard for i in range(begins[s.unit] + s.start, begins[s.unit] + s.stop)]


@st.composite
def some_units(draw: st.DrawFn) -> tuple[Units, Held]:
    units = draw(st.lists(st.lists(st.integers(1, 40), max_size=8), min_size=1, max_size=6))
    held = [draw(st.lists(st.booleans(), min_size=len(unit), max_size=len(unit))) for unit in units]
    return units, held


WANTED = st.builds(
    Wanted,
    max_tokens=st.one_of(st.none(), st.integers(1, 500)),
    val_tokens=st.one_of(st.none(), st.integers(1, 300)),
    val_fraction=st.sampled_from([0.0, 0.0, 0.5]),
    shard_tokens=st.integers(1, 200),
    exact=st.booleans(),
)


@settings(max_examples=200)
@given(some_units(), WANTED)
def test_every_id_is_where_the_reference_has_it(
    tmp_path_factory: pytest.TempPathFactory, given_units: tuple[Units, Held], wanted: Wanted
) -> None:
    units, held = given_units
    plan = assemble(hand_made(tmp_path_factory.mktemp("parts"), units, held), cuts(wanted))
    expected, beyond = reference(units, held, wanted)
    assert list(plan.splits) == [name for name in ("train", "val") if name in expected]
    for name, shards in expected.items():
        assert [shown(units, shard) for shard in plan.splits[name]] == [
            [i for d in shard for i in d[0]] for shard in shards
        ]
        assert [_documents(shard) for shard in plan.splits[name]] == [len(shard) for shard in shards]
    _whole(units, plan, wanted)
    used = units[: plan.used]
    assert plan.dropped[1] <= beyond
    kept = sum(len(shown(units, shard)) for shards in plan.splits.values() for shard in shards)
    documents = sum(_documents(shard) for shards in plan.splits.values() for shard in shards)
    assert kept + plan.dropped[1] == sum(map(sum, used))
    assert documents - plan.cut_documents + plan.dropped[0] == sum(map(len, used))


def _documents(shard: list[Segment]) -> int:
    return sum(segment.last - segment.first for segment in shard)


def _whole(units: Units, plan: Plan, wanted: Wanted) -> None:
    """Segments lie where their documents say, and only an exact cut halves one."""
    for shards in plan.splits.values():
        for segment in (segment for shard in shards for segment in shard):
            ends = [0, *accumulate(units[segment.unit])]
            assert ends[segment.first] <= segment.start < segment.stop <= ends[segment.last]
            assert segment.start < ends[segment.first + 1]
            assert segment.stop > ends[segment.last - 1]
            if not wanted.exact:
                assert (segment.start, segment.stop) == (ends[segment.first], ends[segment.last])
    assert plan.cut_documents == 0 or wanted.exact


@given(some_units(), st.integers(1, 400))
def test_max_tokens_needs_the_units_up_to_the_first_that_passes_it(
    tmp_path_factory: pytest.TempPathFactory, given_units: tuple[Units, Held], bound: int
) -> None:
    units, held = given_units
    parts = hand_made(tmp_path_factory.mktemp("parts"), units, held)
    plan = assemble(parts, cuts(Wanted(max_tokens=bound)))
    running = list(accumulate(map(sum, units)))
    assert plan.used == next((n + 1 for n, total in enumerate(running) if total > bound), len(units))
    assert [enough(parts.receipts[:n], bound) for n in range(1, len(units) + 1)] == [total > bound for total in running]
    # units that were done beyond it change nothing
    alone = hand_made(tmp_path_factory.mktemp("fewer"), units[: plan.used], held[: plan.used])
    assert assemble(alone, cuts(Wanted(max_tokens=bound))) == plan


@given(st.lists(st.integers(1, 20), min_size=1, max_size=400), st.integers(40, 300))
def test_shards_are_about_as_long_as_asked_and_none_is_small(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], shard_tokens: int
) -> None:
    parts = hand_made(tmp_path_factory.mktemp("parts"), [lengths])
    plan = assemble(parts, cuts(Wanted(shard_tokens=shard_tokens)))
    sizes = [ids_of(shard) for shard in plan.splits["train"]]
    assert sum(sizes) == sum(lengths)
    assert all(abs(size - shard_tokens) <= 20 for size in sizes[:-2])
    if len(sizes) > 1:
        assert all(shard_tokens / 2 - 20 <= size <= shard_tokens + 20 for size in sizes)


def test_a_last_shard_of_less_than_half_shares_with_the_one_before(tmp_path: Path) -> None:
    parts = hand_made(tmp_path, [[1] * 249, [1] * 250])
    for units, expected in ((1, [100, 75, 74]), (2, [100, 100, 100, 100, 99])):
        found = assemble(type(parts)(parts.folder, parts.receipts[:units], 2), cuts(Wanted(shard_tokens=100)))
        assert [ids_of(shard) for shard in found.splits["train"]] == expected
    assert shard_targets(250, 100) == [100, 200]
    assert [shard_targets(total, 100) for total in (0, 99, 100, 101, 149, 150)] == [[], [], [], [51], [75], [100]]


@given(st.integers(1, 5000), st.integers(1, 700), st.integers(0, 5000))
def test_a_shard_end_that_is_final_stays(seen: int, shard_tokens: int, more: int) -> None:
    """What was sure when `seen` ids were there is so whatever follows."""
    sure = [end for end in range(shard_tokens, seen, shard_tokens) if is_final(end, shard_tokens, seen)]
    assert shard_targets(seen + more, shard_tokens)[: len(sure)] == sure


def test_a_document_larger_than_a_shard_is_a_shard(tmp_path: Path) -> None:
    plan = assemble(hand_made(tmp_path, [[5, 1000, 5, 90]]), cuts(Wanted(shard_tokens=100)))
    assert [[(s.first, s.last) for s in shard] for shard in plan.splits["train"]] == [[(0, 2)], [(2, 4)]]


def test_exact_shards_have_the_same_size_but_the_last(tmp_path: Path) -> None:
    plan = assemble(hand_made(tmp_path, [[5, 1000, 5, 5]]), cuts(Wanted(shard_tokens=100, exact=True)))
    assert [ids_of(shard) for shard in plan.splits["train"]] == [100] * 10 + [15]
    assert plan.cut_documents == 10


def test_targets_beyond_the_end_give_empty_lists(tmp_path: Path) -> None:
    parts = hand_made(tmp_path, [[4, 4]])
    whole = [Segment(0, 0, 2, 0, 8)]
    for how in ("up", "down", "exact"):
        lists, cut = divide(parts, whole, [100, 200], how)
        assert (lists, cut) == ([whole, [], []], 0)
        assert divide(parts, [], [5], how) == ([[], []], 0)


@given(some_units(), st.lists(st.integers(1, 300), max_size=5), st.sampled_from(["up", "down", "exact"]))
def test_cuts_keep_every_id_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, given_units: tuple[Units, Held], targets: list[int], how: str
) -> None:
    units, _ = given_units
    parts = hand_made(tmp_path_factory.mktemp("parts"), units)
    whole = [Segment(n, 0, len(unit), 0, sum(unit)) for n, unit in enumerate(units) if unit]
    lists, _ = divide(parts, whole, sorted(targets), how)
    assert len(lists) == len(targets) + 1
    assert [i for part in lists for i in shown(units, part)] == list(range(sum(map(sum, units))))
    ends = [0, *accumulate(length for unit in units for length in unit)]
    borders = list(accumulate(len(shown(units, part)) for part in lists))[:-1]
    for target, border in zip(sorted(targets), borders, strict=True):
        reached = min(target, ends[-1])
        if how == "exact":
            assert border == reached
        elif how == "up":
            assert border == next(end for end in ends if end >= reached)
    assert all(a <= b for a, b in pairwise(borders))


def test_rows_count_through_the_pieces_of_each_source() -> None:
    def receipt(*pieces: tuple[int, int]) -> Receipt:
        rows = tuple(PieceReceipt(source, count, ()) for source, count in pieces)
        return Receipt((0, 0), "", 0, 0, 0, "", "", rows, (), {}, "", 0, 0, {}, False, False)

    receipts = [receipt((0, 5), (1, 7)), receipt((2, 3)), receipt((2, 4)), receipt((2, 1), (3, 2))]
    before = [rows.tolist() for rows in rows_before(receipts)]
    assert before == [[0, 0], [0], [3], [7, 0]]
    assert all(rows.dtype == np.int64 for rows in rows_before(receipts))
