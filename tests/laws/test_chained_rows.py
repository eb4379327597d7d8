"""Rows of other systems, whose ids all lie end to end: the loader's cells are those of naive lists of positions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_order
import naive_packing
from rivers import ArrayRiver
from tokenriver.batch import Batch
from tokenriver.errors import InputError, LimitError
from tokenriver.loader import Loader
from tokenriver.types import IGNORE

lengths = st.lists(st.integers(0, 12), min_size=1, max_size=14)


@settings(max_examples=70)
@given(
    sizes=lengths,
    seq_len=st.integers(2, 7),
    world_size=st.integers(1, 3),
    batch=st.integers(1, 4),
    micro=st.integers(1, 3),
    seed=st.integers(0, 3),
)
def test_minimind(sizes: list[int], seq_len: int, world_size: int, batch: int, micro: int, seed: int) -> None:
    chains = naive_packing.minimind(sizes, seq_len)
    options: dict[str, Any] = {"packing": "minimind", "seed": seed, "micro_batch": micro}
    check_chains(ArrayRiver(sum(sizes), sizes), chains, seq_len, (batch, world_size), options)


@settings(max_examples=70)
@given(
    sizes=lengths,
    seq_len=st.integers(1, 9),
    buffer=st.integers(1, 6),
    fetch=st.integers(1, 5),
    batches=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    seed=st.integers(0, 3),
)
def test_bos_aligned(
    sizes: list[int], seq_len: int, buffer: int, fetch: int, batches: tuple[int, int], seed: int
) -> None:
    lots = [range(at, min(at + fetch, len(sizes))) for at in range(0, len(sizes), fetch)]
    chains = naive_packing.bos_aligned(sizes, seq_len, buffer, lots)
    own = {"buffer_documents": buffer, "fetch_documents": fetch}
    options: dict[str, Any] = {"packing": "bos_aligned", "packing_options": own, "seed": seed, "micro_batch": 2}
    river = ArrayRiver(sum(sizes), sizes)
    check_chains(river, chains, seq_len, batches, options)
    starts = {edge for edge, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True) if size}
    assert all(chain[0] in starts and len(chain) == seq_len + 1 for chain in chains)


@settings(max_examples=70)
@given(
    files=st.lists(st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=4), min_size=1, max_size=3),
    seq_len=st.integers(1, 9),
    limits=st.tuples(st.integers(1, 6), st.integers(1, 4)),
    passes=st.integers(1, 3),
    ranks=st.integers(1, 3),
    each=st.integers(1, 2),
)
def test_readers_take_row_groups_in_turn(
    files: list[list[list[int]]], seq_len: int, limits: tuple[int, int], passes: int, ranks: int, each: int
) -> None:
    """Rank r of as many ranks as there are readers sees what the r-th reader alone would fill; other ranks see the same
    global batches."""
    sizes = [length for file in files for group in file for length in group]
    lots: list[list[range]] = [[] for _ in range(ranks)]
    for _ in range(passes):
        at = 0
        for file in files:
            for number, group in enumerate(file):
                ends = range(at, at + len(group), limits[1])
                lots[number % ranks] += [range(a, min(a + limits[1], at + len(group))) for a in ends]
                at += len(group)
    rows = [naive_packing.bos_aligned(sizes, seq_len, limits[0], lots[rank]) for rank in range(ranks)]
    turns = min(map(len, rows)) // each
    own: dict[str, Any] = {"buffer_documents": limits[0], "fetch_documents": limits[1], "passes": passes}
    own |= {"readers": ranks, "reader_rows": each, "row_groups": [[len(group) for group in file] for file in files]}
    options: dict[str, Any] = {"packing": "bos_aligned", "packing_options": own, "order": "sequential", "prefetch": 0}
    options |= {"seq_len": seq_len, "global_batch": ranks * each}
    river = ArrayRiver(sum(sizes), sizes)
    if not turns:
        with pytest.raises(LimitError):
            Loader(river, **options)
        return
    for rank in range(ranks):
        loader = Loader(river, rank=rank, world_size=ranks, **options)
        seen = [[*line, last] for made in loader for line, last in _lines(made)]
        assert seen == rows[rank][: turns * each]
    assert loader.balance["river"] == passes * sum(sizes) == sum(loader.balance.values()) - passes * sum(sizes)
    served = sum(len(row) for part in rows for row in part[: turns * each])
    assert loader.balance["served"] == served


def _lines(made: Batch) -> list[tuple[list[int], int]]:
    return list(zip(made.input_ids.tolist(), made.targets[:, -1].tolist(), strict=True))


def check_chains(
    river: ArrayRiver, chains: list[list[int]], seq_len: int, batches: tuple[int, int], options: dict[str, Any]
) -> None:
    """A shuffled epoch of a river whose ids are their positions, over all ranks, against the rows by hand."""
    batch, world_size = min(batches[0], len(chains)), batches[1]
    if not chains:
        with pytest.raises(LimitError):
            Loader(river, seq_len=seq_len, global_batch=1, **options)
        return
    seen = []
    for rank in range(world_size):
        loader = Loader(
            river, seq_len=seq_len, global_batch=batch, rank=rank, world_size=world_size, prefetch=0, **options
        )
        assert loader.num_rows == len(chains)
        for made in loader:
            counts = [_check_line(made, line, chains, options["seed"], river) for line in range(len(made.input_ids))]
            assert made.num_targets == sum(counts)
            seen += made.targets[made.loss_mask].tolist()
            edges = [0, *(np.flatnonzero(np.append(made.position_ids.ravel(), 0)[1:] == 0) + 1).tolist()]
            assert made.cu_seqlens.tolist() == edges
    assert sorted(seen) == sorted(at for chain in chains for at in chain[1:]), "every target once, over all ranks"


def _check_line(made: Batch, line: int, chains: list[list[int]], seed: int, river: ArrayRiver) -> int:
    """One line of a batch; the number of its targets."""
    number, width = int(made.row_numbers[line]), made.input_ids.shape[1]
    chain = [] if number < 0 else chains[naive_order.row(number, len(chains), seed)]
    empty = [0] * width
    assert made.input_ids[line].tolist() == [*chain, *empty][:width]
    assert made.targets[line].tolist() == [*chain[1:], *[IGNORE] * (width + 1)][:width]
    documents = [river.document_at(at) for at in chain]
    assert made.document_ids[line].tolist() == [*documents, *[-1] * width][:width]
    places = [0]
    for before, here in zip(made.document_ids[line].tolist(), made.document_ids[line].tolist()[1:], strict=False):
        places.append(places[-1] + 1 if before == here else 0)
    assert made.position_ids[line].tolist() == places
    return len(chain[1:])


def test_minimind_by_hand() -> None:
    loader = Loader(
        ArrayRiver(16, [3, 1, 5, 0, 7]), seq_len=5, global_batch=3, packing="minimind", order="sequential", prefetch=0
    )
    made = loader.batch(0)
    assert made.input_ids.tolist() == [[0, 1, 2, 0, 0], [4, 5, 6, 7, 8], [9, 10, 11, 12, 15]]
    assert made.targets.tolist() == [[1, 2, *[IGNORE] * 3], [5, 6, 7, 8, IGNORE], [10, 11, 12, 15, IGNORE]]
    assert made.cu_seqlens.tolist() == [0, 3, 5, 10, 15]
    assert loader.balance == {"river": 16, "served": 13, "too_short": 1, "cut": 2}


@pytest.mark.parametrize("options", [{"overflow": "truncate"}, {"phase_shift": True}])
def test_what_minimind_has_no_use_for(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="overflow, phase_shift: got one with packing 'minimind'"):
        Loader(ArrayRiver(9, [9]), seq_len=4, global_batch=1, packing="minimind", **options)
    with pytest.raises(LimitError, match="seq_len: got 1, expected at least 2"):
        Loader(ArrayRiver(9, [9]), seq_len=1, global_batch=1, packing="minimind")


def test_bos_aligned_by_hand() -> None:
    # documents of 3, 7, 2, 5 and 4 ids; rows of six
    own = {"buffer_documents": 3, "fetch_documents": 1}
    loader = Loader(
        ArrayRiver(21, [3, 7, 2, 5, 4]),
        seq_len=5,
        global_batch=2,
        packing="bos_aligned",
        packing_options=own,
        order="sequential",
        prefetch=0,
    )
    made = loader.batch(0)
    # of 3, 7 and 2 the 3 is the longest that fits, of 7, 2 and 5 the 2; of 7, 5 and 4 none, so the head of 4
    assert made.input_ids[0].tolist() == [0, 1, 2, 10, 11]
    assert made.targets[0].tolist() == [1, 2, 10, 11, 17]
    # then 5 fits, and the head of 7 fills the row
    assert made.input_ids[1].tolist() == [12, 13, 14, 15, 16]
    assert made.targets[1].tolist() == [13, 14, 15, 16, 3]
    assert made.cu_seqlens.tolist() == [0, 3, 5, 10]
    assert loader.num_rows == 2
    assert loader.balance == {"river": 21, "served": 12, "cut": 9, "unused": 0}


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"buffer_documents": 0}, "buffer_documents: got 0, expected a whole number from 1"),
        ({"passes": True}, "passes: got True"),
        ({"row_groups": [[1]]}, "row_groups: got 1 documents in all, expected 2"),
        ({"row_groups": [[3, -1]]}, "row_groups: got .* expected counts of documents"),
        ({"row_groups": [2]}, "row_groups: got .* expected counts of documents"),
        ({"buffer": 9}, "packing_options: got 'buffer' for packing 'bos_aligned', expected buffer_documents, "),
        ({"seed": 9}, "packing_options: got 'seed'"),
    ],
)
def test_options_that_bos_aligned_refuses(own: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"seq_len": 3, "global_batch": 1, "packing": "bos_aligned"}
    with pytest.raises(InputError, match=message):
        Loader(ArrayRiver(9, [4, 5]), packing_options=own, **options)
    with pytest.raises(LimitError, match="seq_len: got 9, which needs at least 10 ids for a row"):
        Loader(ArrayRiver(9, [4, 5]), **{**options, "seq_len": 9})


def test_a_packing_without_options_says_so() -> None:
    with pytest.raises(InputError, match="got 'x' for packing 'concat', expected none: it has no options of its own"):
        Loader(ArrayRiver(9), seq_len=3, global_batch=1, packing_options={"x": 1})
