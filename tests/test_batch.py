import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rivers import ArrayRiver
from tokenriver.batch import Batch, Ring
from tokenriver.loader import Loader
from tokenriver.types import IGNORE


def one(river: ArrayRiver, seq_len: int, rows: int = 1, step: int = 0) -> Batch:
    return Loader(river, seq_len=seq_len, global_batch=rows, order="sequential").batch(step)


def test_targets_follow_inputs_by_one_and_share_their_memory() -> None:
    batch = one(ArrayRiver(7), seq_len=3, rows=2)
    assert batch.input_ids.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert batch.targets.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert batch.input_ids.dtype == batch.targets.dtype == np.int64
    assert batch.loss_mask.all()
    assert batch.num_targets == 6
    assert batch.input_ids.base is batch.targets.base


def test_filler_rows_are_last_and_without_loss() -> None:
    # rank 1 of 2 has three of five rows, in micro-batches of two
    loader = Loader(
        ArrayRiver(31, [4, 27]), seq_len=3, global_batch=5, micro_batch=2, order="sequential", rank=1, world_size=2
    )
    batch = loader.batch(0, 1)
    assert batch.sample_ids.tolist() == [4, -1]
    assert batch.row_numbers.tolist() == [4, -1]
    assert batch.source_ids.tolist() == [0, -1]
    assert batch.source_counts.tolist() == [1]
    assert batch.input_ids.tolist() == [[12, 13, 14], [0, 0, 0]]
    assert batch.targets.tolist() == [[13, 14, 15], [IGNORE] * 3]
    assert batch.loss_mask.tolist() == [[True] * 3, [False] * 3]
    assert batch.document_ids.tolist() == [[1] * 3, [-1] * 3]
    assert batch.position_ids.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert batch.cu_seqlens.tolist() == [0, 3, 6]
    assert batch.num_targets == 3


def test_documents_of_a_row() -> None:
    batch = one(ArrayRiver([1, 2, 9, 3, 4, 5, 9, 6, 9, 7], [3, 4, 2, 1]), seq_len=9)
    assert batch.document_ids.tolist() == [[0, 0, 0, 1, 1, 1, 1, 2, 2]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 0, 1, 2, 3, 0, 1]]
    assert batch.cu_seqlens.tolist() == [0, 3, 7, 9]
    assert batch.cu_seqlens.dtype == np.int32
    assert batch.position_ids.dtype == batch.document_ids.dtype == np.int64
    assert batch.max_seqlen == 4


def test_positions_start_again_in_each_row_and_empty_documents_have_none() -> None:
    batch = one(ArrayRiver(9, [0, 5, 0, 0, 4]), seq_len=4, rows=2)
    assert batch.document_ids.tolist() == [[1, 1, 1, 1], [1, 4, 4, 4]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3], [0, 0, 1, 2]]
    assert batch.cu_seqlens.tolist() == [0, 4, 5, 8]


@pytest.mark.parametrize("seed", range(40))
def test_documents_against_a_walk_over_every_position(seed: int) -> None:
    dice = np.random.default_rng(seed)
    lengths = dice.integers(0, 6, 30).tolist()
    lengths.append(5)
    of = np.repeat(np.arange(31), lengths)
    batch = Loader(ArrayRiver(len(of), lengths), seq_len=5, global_batch=3, seed=seed).batch(0)
    runs = []
    for line, sample in enumerate(batch.sample_ids.tolist()):
        row = of[sample * 5 : sample * 5 + 5]
        assert batch.document_ids[line].tolist() == row.tolist()
        starts = [i for i in range(5) if i == 0 or row[i] != row[i - 1]]
        assert batch.position_ids[line].tolist() == [i - max(s for s in starts if s <= i) for i in range(5)]
        runs += [line * 5 + start for start in starts]
    assert batch.cu_seqlens.tolist() == [*runs, 15]
    assert batch.max_seqlen == max(np.diff([*runs, 15]))


def test_without_document_bounds_each_row_is_a_sequence() -> None:
    batch = one(ArrayRiver(9), seq_len=4, rows=2)
    assert batch.document_ids.tolist() == [[-1] * 4] * 2
    assert batch.position_ids.tolist() == [[0, 1, 2, 3]] * 2
    assert batch.cu_seqlens.tolist() == [0, 4, 8]


def test_a_batch_travels_small_and_whole() -> None:
    loader = Loader(ArrayRiver(3001, [1500, 1501]), seq_len=3, global_batch=5, micro_batch=2, seed=3)
    served = [batch for _, batch in zip(range(6), loader, strict=False)]
    for batch in (loader.batch(7, 0), loader.batch(7, 2), *served):
        data = pickle.dumps(batch)
        assert len(data) < 40_000  # the test's river is an array of 3,001 int64; nothing of a thousand rows is here
        there = pickle.loads(data)
        for name in ("input_ids", "targets", "sample_ids", "row_numbers", "document_ids", "source_counts"):
            assert np.array_equal(getattr(there, name), getattr(batch, name)), name
        assert (there.step, there.micro, there.state) == (batch.step, batch.micro, batch.state)


# ------------------------------------------------------------------------------------------------ ring


def test_a_buffer_is_used_again_only_when_nobody_holds_it() -> None:
    ring = Ring((2, 3), 4)
    first = ring.take()
    second = ring.take()
    assert first is not second
    address = first.ctypes.data
    del first
    assert ring.take().ctypes.data == address


HOLDERS: dict[str, Callable[[Batch], Any]] = {
    "array": lambda batch: batch.input_ids,
    "view": lambda batch: batch.targets[1:, ::2],
    "view of a view": lambda batch: batch.input_ids[1:][:, 1:].T,
    "memoryview": lambda batch: batch.input_ids.data,
    "batch": lambda batch: batch,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_whatever_refers_to_a_batch_keeps_its_ids(holder: str) -> None:
    loader = iter(Loader(ArrayRiver(5000), seq_len=4, global_batch=8, prefetch=0, seed=1))
    held = HOLDERS[holder](next(loader))
    before = np.array(held.input_ids if holder == "batch" else held)
    for later in loader:
        assert later.input_ids.shape == (8, 4)
    assert np.array_equal(held.input_ids if holder == "batch" else held, before)


def test_a_loop_that_lets_go_runs_on_two_buffers() -> None:
    seen = {batch.input_ids.ctypes.data for batch in Loader(ArrayRiver(5000), seq_len=4, global_batch=8, prefetch=0)}
    assert len(seen) == 2


def test_batches_kept_for_ever_are_all_right_and_all_different() -> None:
    kept = list(Loader(ArrayRiver(5000), seq_len=4, global_batch=8, prefetch=2, seed=2))
    assert len({batch.input_ids.ctypes.data for batch in kept}) == len(kept)
    for batch in kept:
        assert batch.input_ids[:, 0].tolist() == [4 * sample if sample >= 0 else 0 for sample in batch.sample_ids]


def test_the_ring_leaves_the_oldest_buffer_to_its_holder() -> None:
    ring = Ring((1, 1), 2)
    held = [ring.take() for _ in range(5)]
    assert len({buffer.ctypes.data for buffer in held}) == 5
    gone = weakref.ref(held.pop(0))
    assert gone() is None
