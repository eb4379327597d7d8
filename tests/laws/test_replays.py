"""The orders of other loaders are theirs for any sizes: against the loaders written again (naive_replays.py), which go
batch by batch. Resuming anywhere, asking for any batch and dividing a rank's batches change nothing.
"""

import json
import pickle
import random
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_replays
from rivers import ArrayRiver, HugeRiver, OneShard, ShardedRiver
from tokenriver import registry
from tokenriver.batch import Batch
from tokenriver.errors import LimitError, MismatchError
from tokenriver.loader import Loader
from tokenriver.types import IGNORE

ORDERS = registry.names("orders")
ROWS = [order for order in ORDERS if getattr(registry.load("orders", order), "ROWS", False)]
"""Orders of a file's rows, the last id of which has no target."""
RANKED = [order for order in ORDERS if registry.load("orders", order).RANKS]
few = settings(max_examples=40)


@dataclass
class Run:
    """One rank of a run of an original: B rows a call, `calls` of them a step."""

    order: str
    sizes: tuple[int, ...]
    seq_len: int
    batch: int
    calls: int
    rank: int
    world_size: int
    seed: int

    def loader(self, **options: object) -> Loader:
        given: dict[str, Any] = {
            "seq_len": self.seq_len,
            "global_batch": self.batch * self.calls * self.world_size,
            "micro_batch": self.batch,
            "rank": self.rank,
            "world_size": self.world_size,
            "seed": self.seed,
            "order": self.order,
            "prefetch": 0,
            **options,
        }
        return Loader(ShardedRiver(*self.sizes), **given)

    def expected(self, count: int) -> list[list[int]]:
        shape, place = (self.batch, self.seq_len), (self.rank, self.world_size)
        return list(islice(naive_replays.original(self.order, self.sizes, shape, self.seed, place), count))


@st.composite
def runs(draw: st.DrawFn) -> Run:
    order = draw(st.sampled_from(ORDERS))
    seq_len, batch, calls = draw(st.integers(2, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    world_size = draw(st.integers(1, 3)) if order in RANKED else 1
    step = seq_len * batch * world_size
    sizes = draw(st.lists(st.integers(step + 1, 6 * step), min_size=1, max_size=4))
    seed = draw(st.sampled_from((0, 1, 1337, 2**32 - 1)) | st.integers(0, 2**20))
    return Run(order, tuple(sizes), seq_len, batch, calls, draw(st.integers(0, world_size - 1)), world_size, seed)


def rows(batches: list[Batch]) -> list[list[int]]:
    return [batch.sample_ids.tolist() for batch in batches]


def some(loader: Loader, count: int) -> list[list[int]]:
    return rows(list(islice(loader, count)))


@few
@given(runs(), st.integers(0, 3))
def test_the_original_loaders_batches(run: Run, prefetch: int) -> None:
    count = 40 * run.calls
    loader = run.loader(prefetch=prefetch)
    got = [(b.sample_ids.tolist(), b.input_ids.tolist(), b.targets.tolist()) for b in islice(loader, count)]
    assert [starts for starts, _, _ in got] == run.expected(count)
    ids = ShardedRiver(*run.sizes).ids
    for starts, inputs, targets in got:
        ends = [IGNORE] if run.order in ROWS else []
        length = run.seq_len + 1 - len(ends)
        windows = np.array([[*ids[start : start + length], *ends] for start in starts])
        assert (inputs, targets) == (windows[:, :-1].tolist(), windows[:, 1:].tolist())


@few
@given(runs(), st.data())
def test_a_resume_at_any_step_is_the_run_itself(run: Run, data: st.DataObject) -> None:
    expected = run.expected(60 * run.calls)
    loader, done = run.loader(), 0
    while done < len(expected):
        count = data.draw(st.integers(1, len(expected) - done), "batches")
        *_, last = islice(loader, count)
        state = json.loads(json.dumps(last.state))
        assert state == loader.state_dict()
        assert len(json.dumps(state)) < 256
        # any rank's copy is the whole truth, in a loader that knows nothing else
        done = (done + count) // run.calls * run.calls
        assert state["step"] == done // run.calls
        loader = run.loader()
        loader.load_state_dict(state)
        if done < len(expected):
            assert some(loader, 1) == expected[done : done + 1]
            loader.load_state_dict(state)
        if data.draw(st.booleans(), "enough"):
            return


@few
@given(runs(), st.data())
def test_any_batch_at_once(run: Run, data: st.DataObject) -> None:
    expected = run.expected(80 * run.calls)
    loader = run.loader()
    for step in data.draw(st.lists(st.integers(0, 79), min_size=1, max_size=6), "steps"):
        for micro in range(run.calls):
            batch = loader.batch(step, micro)
            assert batch.sample_ids.tolist() == expected[step * run.calls + micro]
            targets = run.batch * (run.seq_len - (run.order in ROWS))
            assert (batch.step, batch.micro, batch.num_targets) == (step, micro, targets)
    loader.skip(17)
    assert some(loader, 2) == expected[17 * run.calls : 17 * run.calls + 2]


@few
@given(runs(), st.integers(1, 4))
def test_workers_divide_a_ranks_batches(run: Run, workers: int) -> None:
    expected = run.expected(30)
    loader = run.loader()
    parts = [rows(list(islice(loader.strided(first, workers), 6))) for first in range(workers)]
    for first, part in enumerate(parts):
        assert part == expected[first::workers][: len(part)]


@few
@given(runs())
def test_an_epoch_of_all_ranks_is_what_the_balance_says(run: Run) -> None:
    if not run.order.startswith(("llmc", "hdf5-iterator")):
        return
    loader = run.loader(rank=0)
    calls = loader.num_rows // (run.world_size * run.batch)
    shown: list[int] = []
    for rank in range(run.world_size):
        one = run.loader(rank=rank)
        shown += [start for starts in some(one, 2 * calls)[calls:] for start in starts]
    assert len(set(shown)) == len(shown) == loader.num_rows
    assert sum(count for name, count in loader.balance.items() if name != "river") == sum(run.sizes)
    ids = {start + place for start in shown for place in range(run.seq_len + run.order.startswith("llmc"))}
    assert len(ids) == loader.balance["served"]


@few
@given(st.sampled_from(ROWS), st.integers(1, 60), st.integers(1, 4), st.integers(1, 4))
def test_the_rows_of_an_epoch_of_each_rank_come_once(order: str, rows: int, batch: int, world_size: int) -> None:
    sizes: dict[str, Any] = {"seq_len": 4, "global_batch": batch * world_size, "order": order, "prefetch": 0}
    if rows // world_size < batch:
        with pytest.raises(LimitError, match=f"expected 1 to {rows // world_size}, the rows of a rank's epoch"):
            Loader(HugeRiver(4 * rows + 3), **sizes, world_size=world_size)
        return
    served = 0
    for rank in range(world_size):
        loader = Loader(HugeRiver(4 * rows + 3), **sizes, rank=rank, world_size=world_size)
        own = len(range(rank, rows, world_size)) // batch
        shown = [start // 4 for starts in some(loader, own) for start in starts]
        assert len(set(shown)) == own * batch
        assert {row % world_size for row in shown} == {rank}
        served += own * batch
    assert loader.num_rows == served
    assert dict(loader.balance) == {
        "river": 4 * rows + 3,
        "served": 4 * served,
        "dropped": 4 * (rows - served),
        "unused": 3,
    }


@few
@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(1, 6), st.sampled_from(ROWS))
def test_rows_of_a_file_know_its_documents(lengths: list[int], seq_len: int, order: str) -> None:
    total = sum(lengths)
    if total < seq_len:
        return
    river = ArrayRiver(total, lengths)
    loader = Loader(river, seq_len=seq_len, global_batch=1, order=order, steps=total // seq_len, prefetch=0)
    for batch in loader:
        start = batch.sample_ids.item()
        expected = [river.document_at(place) for place in range(start, start + seq_len)]
        assert batch.document_ids.tolist() == [expected]
        assert batch.input_ids.tolist() == [list(range(start, start + seq_len))]
        assert batch.targets.tolist() == [[*range(start + 1, start + seq_len), IGNORE]]


@few
@given(runs(), st.integers(0, 50))
def test_a_run_travels_and_goes_on(run: Run, done: int) -> None:
    expected = run.expected(60)
    loader = run.loader()
    assert some(loader, done) == expected[:done]
    there = pickle.loads(pickle.dumps(loader))
    assert some(there, 3) == expected[done : done + 3]
    assert some(loader, 3) == expected[done : done + 3]


@few
@given(runs())
def test_another_world_or_batch_is_refused_by_name(run: Run) -> None:
    # four times the ids, so that there are enough for every other run
    run = replace(run, sizes=tuple(4 * size for size in run.sizes))
    state = run.loader().batch(3).state
    others = [replace(run, calls=run.calls + 1), replace(run, batch=run.batch + 1)]
    if run.order in RANKED:
        others.append(replace(run, world_size=run.world_size + 1))
        rank = replace(run, rank=run.world_size - 1).loader()
        rank.load_state_dict(state)
        assert rank.state_dict() == state
    for other in others:
        named = f"{run.order} of world size {other.world_size}, batch .*, micro batch {other.batch}"
        with pytest.raises(MismatchError, match=f"^state: order: got .*{named}"):
            other.loader().load_state_dict(state)


# ------------------------------------------------------------------------------------------ large rivers


@pytest.mark.parametrize("num_tokens", [2**28 + 3, 2**28 + 4, 2**32 + 3, 2**33 + 4, 2**40])
@pytest.mark.parametrize("order", ["nanogpt", "hdf5-shards"])
def test_draws_from_many_windows(order: str, num_tokens: int) -> None:
    loader = Loader(HugeRiver(num_tokens), seq_len=4, global_batch=32, seed=11, order=order, prefetch=0)
    expected = list(islice(naive_replays.original(order, [num_tokens], (32, 4), 11, (0, 1)), 200))
    assert some(loader, 200) == expected
    assert loader.batch(150).sample_ids.tolist() == expected[150]


@pytest.mark.parametrize("order", ["llmc", "llmc-sequential"])
def test_shards_beyond_two_gigabytes(order: str) -> None:
    """Where llm.c's file positions of 32 bits end, the places go on."""

    class Sharded(HugeRiver):
        shards = (OneShard(2**33), OneShard(2**31 + 7))

    loader = Loader(Sharded(2**33 + 2**31 + 7), seq_len=2**20, global_batch=512, order=order, prefetch=0)
    expected = list(islice(naive_replays.original(order, (2**33, 2**31 + 7), (512, 2**20), 0, (0, 1)), 60))
    numbers = [np.arange(step * 512, step * 512 + 512) for step in range(60)]
    assert [loader._course.sampler.locate(rows)[0].tolist() for rows in numbers] == expected
    assert max(max(starts) for starts in expected) > 2**33


@pytest.mark.parametrize("order", ORDERS)
def test_nobodys_generator_is_touched_and_none_matters(order: str) -> None:
    run = Run(order, (200, 333), 4, 3, 2, 0, 1, 5)
    random.seed(1)
    np.random.seed(1)
    first = some(run.loader(prefetch=2), 50)
    assert random.random() == random.Random(1).random()
    assert np.random.random() == np.random.RandomState(1).random()
    assert some(run.loader(), 50) == first


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_batch_takes_along_does_not_grow_with_the_corpus(order: str) -> None:
    river = HugeRiver(10**6)
    loader = Loader(river, seq_len=4, global_batch=4, order=order, prefetch=0)
    *_, batch = islice(loader, 40)
    data = pickle.dumps(batch)
    assert len(data) < 3000
    assert pickle.loads(data).sample_ids.tolist() == batch.sample_ids.tolist()
    assert pickle.loads(data).state == batch.state


def test_threads_that_ask_at_once_get_the_same_batches() -> None:
    for order in ORDERS:
        run = Run(order, (200, 333), 4, 3, 1, 0, 1, 5)
        expected = run.expected(300)
        loader = run.loader(prefetch=5)
        for step, batch in enumerate(islice(loader, 300)):
            assert batch.sample_ids.tolist() == expected[step]
            other = step * 7919 % 300
            assert loader.batch(other).sample_ids.tolist() == expected[other]
