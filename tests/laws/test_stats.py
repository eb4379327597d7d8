"""Statistics are those of the packings themselves, and of naive lists of lengths; nothing is estimated."""

from collections import Counter
from math import ceil
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_packing
import tokenriver as tr
from rivers import ArrayRiver
from tokenriver import registry
from tokenriver.errors import LimitError
from tokenriver.rowcounts import RowStats

lengths = st.lists(st.one_of(st.integers(0, 12), st.integers(60, 300)), min_size=1, max_size=40).filter(
    lambda sizes: sum(sizes) >= 2
)
CHOICES = [
    ("concat", ""),
    *((name, rule) for name in ("document", "best_fit") for rule in ("split", "truncate", "drop")),
]


def _found(sizes: list[int], seq_len: int) -> dict[tuple[str, str], RowStats]:
    found = tr.stats(ArrayRiver(sum(sizes), sizes), seq_lens=[seq_len])
    assert [(row.packing, row.overflow) for row in found.rows] == CHOICES
    return {(row.packing, row.overflow): row for row in found.rows}


@settings(max_examples=50)
@given(sizes=lengths, seq_len=st.integers(1, 80))
def test_rows_are_those_of_the_packing(sizes: list[int], seq_len: int) -> None:
    river = ArrayRiver(sum(sizes), sizes)
    for (name, overflow), row in _found(sizes, seq_len).items():
        pack = registry.load("packing", name).pack
        try:
            made = pack(river, seq_len=seq_len, overflow=overflow or "split")
        except LimitError:
            assert (row.rows, row.num_targets, row.padding, row.balance["served"]) == (0, 0, 0, 0)
            assert sum(row.balance.values()) == 2 * row.balance["river"]
            continue
        assert (row.rows, row.num_targets) == (len(made), made.num_targets)
        assert dict(row.balance) == dict(made.balance)
        assert row.padding == len(made) * seq_len - made.num_targets


@settings(max_examples=50)
@given(sizes=lengths, seq_len=st.integers(1, 80))
def test_rows_are_those_of_lists(sizes: list[int], seq_len: int) -> None:
    for (name, overflow), row in _found(sizes, seq_len).items():
        rows = naive_packing.rows_of(name, sizes, seq_len, overflow or "split")
        assert row.rows == len(rows)
        filled = sum(stop - start - 1 for spans in rows for start, stop in spans)
        assert row.padding == len(rows) * seq_len - filled
        shown = {at for spans in rows for start, stop in spans for at in range(start, stop)}
        assert row.lost == sum(sizes) - len(shown)
        assert (row.documents_split, row.documents_cut) == _parted(rows, sizes, name)


def _parted(rows: list[list[tuple[int, int]]], sizes: list[int], name: str) -> tuple[int, int]:
    """(documents split, documents cut), by the rows in which a document's ids are predicted from its own: more than
    one, or none for some of them (behind the last window, or left out since the document is long)."""
    row_of = {at: row for row, spans in enumerate(rows) for start, stop in spans for at in range(start, stop - 1)}
    split = cut = start = 0
    for size in sizes:
        parts = {row_of.get(at) for at in range(start, start + size - 1)}
        windows = name == "concat"
        split += len(parts if windows else parts - {None}) > 1
        cut += None in parts and not windows
        start += size
    return split, cut


@settings(max_examples=40)
@given(sizes=lengths, seq_len=st.integers(1, 80), buckets=st.integers(1, 6))
def test_rows_in_buckets_are_those_of_the_loader(sizes: list[int], seq_len: int, buckets: int) -> None:
    river = ArrayRiver(sum(sizes), sizes)
    found = tr.stats(river, seq_lens=[seq_len], packings=["document"], buckets=buckets).rows
    for plain, row in zip(found[::2], found[1::2], strict=True):
        assert (plain.overflow, plain.widths, plain.saved) == (row.overflow, (), 0)
        if not row.rows:
            assert row == plain
            continue
        options: dict[str, Any] = {"seq_len": seq_len, "packing": "document", "overflow": row.overflow}
        made = tr.Loader(river, global_batch=1, packing_options={"buckets": buckets}, **options)
        assert row.widths == tuple(bucket.width for bucket in made.buckets)
        assert row.padding == sum(bucket.padding for bucket in made.buckets)
        assert row.positions == sum(bucket.rows * bucket.width for bucket in made.buckets)
        assert row.padding_share == row.padding / (row.padding + row.num_targets)
        assert (row.rows, row.num_targets, row.balance) == (plain.rows, plain.num_targets, plain.balance)


@settings(max_examples=50)
@given(sizes=lengths, seq_len=st.integers(1, 80))
def test_lengths_are_those_of_a_sorted_list(sizes: list[int], seq_len: int) -> None:
    found = tr.stats(ArrayRiver(sum(sizes), sizes), seq_lens=[seq_len])
    assert found.lengths is not None
    assert (found.num_documents, found.num_tokens) == (len(sizes), sum(sizes))
    ordered = sorted(sizes)
    assert (found.lengths.shortest, found.lengths.longest) == (ordered[0], ordered[-1])
    assert found.lengths.mean == sum(sizes) / len(sizes)
    for share, length in found.lengths.quantiles.items():
        assert length == ordered[max(1, ceil(share * len(sizes))) - 1]
    bins = Counter(1 << size.bit_length() >> 1 for size in sizes)
    assert {row.low: row.documents for row in found.lengths.histogram if row.documents} == bins
    assert sum(row.ids for row in found.lengths.histogram) == sum(sizes)
    assert found.longer[seq_len] == sum(size for size in sizes if size > seq_len + 1) / sum(sizes)


@settings(max_examples=50)
@given(many=st.lists(st.integers(0, 40), min_size=2, max_size=30))
def test_bins_are_counted_as_they_are_filled(many: list[int]) -> None:
    module = registry.load("packing", "best_fit")
    many[0], many[-1] = 0, many[-1] + 1
    bins = module.best_fit(np.array(many), len(many) - 1)
    assert module.count_bins(np.array(many), len(many) - 1) == len(bins.ends)
    assert bins.ends[-1] == sum(many)


def test_cells_of_minimind_are_counted_as_it_fills_them() -> None:
    """The lengths of the reference set of a minimind-like token stream, and what a row of T cells pads and loses."""
    sizes = [16, 17, 2, 3, 21, 242, 8, 12, 5]
    for seq_len, padding, lost in ((16, 50, 232), (64, 428, 178)):
        (row,) = tr.stats(ArrayRiver(sum(sizes), sizes), seq_lens=[seq_len], packings=["minimind"]).rows
        assert (row.rows, row.padding, row.lost) == (len(sizes), padding, lost)


@settings(max_examples=50)
@given(sizes=lengths, seq_len=st.integers(1, 60))
def test_cells_of_minimind_for_any_lengths(sizes: list[int], seq_len: int) -> None:
    (row,) = tr.stats(ArrayRiver(sum(sizes), sizes), seq_lens=[seq_len], packings=["minimind"]).rows
    rows = [size for size in sizes if size >= 2]
    assert row.rows == len(rows)
    assert row.padding == sum(max(0, seq_len - size) for size in rows)
    assert row.num_targets == sum(min(size, seq_len) - 1 for size in rows)
    assert row.lost == sum(max(0, size - seq_len) for size in rows) + sizes.count(1)


@settings(max_examples=50)
@given(size=st.integers(2, 300), seq_len=st.integers(1, 80))
def test_packings_that_are_not_counted_by_length_are_planned(size: int, seq_len: int) -> None:
    (row,) = tr.stats(ArrayRiver(size), seq_lens=[seq_len], packings=["sliding"]).rows
    assert row.rows == len(naive_packing.rows_of("sliding", [size], seq_len))
    assert (row.padding, row.documents_split) == (0, None)
