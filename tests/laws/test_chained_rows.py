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


@settings(max_examples=150)
@given(
    sizes=lengths,
    seq_len=st.integers(2, 7),
    world_size=st.integers(1, 3),
    batch=st.integers(1, 4),
    micro=st.integers(1, 3),
    seed=st.integers(0, 3),
)
def test_minimind(sizes: list[int], seq_len: int, world_size: int, batch: int, micro: int, seed: int) -> None:
    chains = naive_packing.chains_of("minimind", sizes, seq_len)
    options: dict[str, Any] = {"packing": "minimind", "seed": seed, "micro_batch": micro}
    check_chains(ArrayRiver(sum(sizes), sizes), chains, seq_len, (batch, world_size), options)


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
