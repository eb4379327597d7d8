"""Law 4: over a run every row is served once, across all ranks, whatever stops, resumes and changes of world size,
batch size and micro batch lie in between; and the sequence of global batches is law 3's.

A history is such a run, drawn at random; the reference is the paragraph of docs/order.md in twenty lines.
"""

import json
import random
from dataclasses import dataclass

import numpy as np
import pytest

import naive_order
from rivers import ArrayRiver
from tokenriver.loader import Loader

HISTORIES = 10_000
CHUNKS = 8


@dataclass
class Leg:
    """A stretch of the run on one set of machines."""

    world_size: int
    global_batch: int
    micro_batch: int
    steps: int
    prefetch: int = 0


@dataclass
class History:
    seed: int
    seq_len: int
    num_rows: int
    epochs: int
    order: str
    legs: list[Leg]


def draw(dice: random.Random) -> History:
    num_rows = dice.choice((1, 2, 3, 7, 12, 25, 40))
    legs = []
    for _ in range(dice.randint(1, 4)):
        global_batch, world_size = dice.randint(1, num_rows), dice.choice((1, 1, 1, 2, 2, 3, 5))
        legs.append(Leg(world_size, global_batch, dice.randint(1, global_batch // world_size + 2), dice.randint(0, 4)))
    # the last leg runs to the end, in few steps
    legs[-1].global_batch = max(legs[-1].global_batch, (num_rows + 3) // 4)
    legs[-1].steps = 1 << 30
    order = dice.choice(("shuffled", "shuffled", "sequential"))
    return History(dice.randrange(4), dice.randint(1, 3), num_rows, dice.choice((1, 1, 2, 3)), order, legs)


ORDERS = {
    (seed, size): [naive_order.row(g, size, seed) for g in range(3 * size)]
    for seed in range(4)
    for size in (1, 2, 3, 7, 12, 25, 40)
}


def reference(history: History) -> list[list[list[list[int]]]]:
    """Samples by step, rank and micro-batch, -1 for filler."""
    end, g, run = history.epochs * history.num_rows, 0, []
    for leg in history.legs:
        batch, world, done = leg.global_batch, leg.world_size, 0
        while g < end and done < leg.steps:
            ranks = [naive_order.dealt(g, batch, (rank, world), leg.micro_batch, end) for rank in range(world)]
            run.append([[[row(history, x) for x in micro] for micro in rank] for rank in ranks])
            g, done = min(g + batch, end), done + 1
    return run


def row(history: History, g: int) -> int:
    if g < 0 or history.order == "sequential":
        return g if g < 0 else g % history.num_rows
    return ORDERS[history.seed, history.num_rows][g]


def served(history: History, dice: random.Random) -> list[list[list[list[int]]]]:
    """The same by loaders that know one another only through one rank's state as JSON."""
    river = ArrayRiver(history.num_rows * history.seq_len + 1)
    run: list[list[list[list[int]]]] = []
    text = ""
    for leg in history.legs:
        loaders = [make(river, history, leg, rank) for rank in range(leg.world_size)]
        for loader in loaders:
            if text:
                loader.load_state_dict(json.loads(text))
        micros, streams = loaders[0].micros_per_step, [iter(loader) for loader in loaders]
        for _ in range(leg.steps):
            step: list[list[list[int]]] = []
            states: set[str] = set()
            for stream in streams:
                batches = [batch for _, batch in zip(range(micros), stream, strict=False)]
                assert len(batches) in (0, micros)
                step.append([batch.sample_ids.tolist() for batch in batches])
                for batch in batches[dice.randrange(4) :: 4]:
                    shows_its_rows(batch.input_ids, batch.targets, batch.sample_ids, history.seq_len)
                states.update(json.dumps(batch.state) for batch in batches[-1:])
            if not states:
                assert not any(step)
                break
            assert len(states) == 1
            text = states.pop()
            run.append(step)
        assert not text or json.loads(text) == dice.choice(loaders).state_dict()
    return run


def make(river: ArrayRiver, history: History, leg: Leg, rank: int) -> Loader:
    return Loader(
        river,
        seq_len=history.seq_len,
        global_batch=leg.global_batch,
        micro_batch=leg.micro_batch,
        order=history.order,
        seed=history.seed,
        rank=rank,
        world_size=leg.world_size,
        epochs=history.epochs,
        prefetch=leg.prefetch,
    )


def shows_its_rows(input_ids: np.ndarray, targets: np.ndarray, sample_ids: np.ndarray, seq_len: int) -> None:
    """The river's ids are their positions."""
    expected = sample_ids[:, None] * seq_len + np.arange(seq_len)
    filler = np.flatnonzero(sample_ids < 0)
    expected[filler] = 0
    assert (input_ids == expected).all()
    expected += 1
    expected[filler] = -100
    assert (targets == expected).all()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_histories(chunk: int) -> None:
    dice = random.Random(chunk)
    for _ in range(HISTORIES // CHUNKS):
        history = draw(dice)
        expected = reference(history)
        assert served(history, dice) == expected, history
        samples = [s for step in expected for rank in step for micro in rank for s in micro if s >= 0]
        assert len(samples) == history.epochs * history.num_rows
        for epoch in range(history.epochs):
            part = samples[epoch * history.num_rows : (epoch + 1) * history.num_rows]
            assert sorted(part) == list(range(history.num_rows)), history


def test_histories_with_a_prefetch_thread() -> None:
    dice = random.Random(99)
    for _ in range(100):
        history = draw(dice)
        for leg in history.legs:
            leg.prefetch = dice.randint(1, 3)
        assert served(history, dice) == reference(history), history


def test_large_epochs_across_their_borders() -> None:
    """The same law where the order is a network and not a sort, by sums over an epoch of 65,536 rows and more."""
    for num_rows, world_size, batch, micro in ((65_536, 3, 1_000, 100), (70_001, 4, 4_096, 1_024)):
        river = ArrayRiver(num_rows + 1)
        times = np.zeros(num_rows, np.int64)
        for rank in range(world_size):
            history = History(1, 1, num_rows, 2, "shuffled", [])
            for got in make(river, history, Leg(world_size, batch, micro, 0), rank):
                samples = got.sample_ids
                times += np.bincount(samples[samples >= 0], minlength=num_rows)
        assert times.min() == times.max() == 2


LONG = [pytest.param(seed, marks=pytest.mark.long) for seed in range(1_002, 1_020)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1_000, 1_001, *LONG])
def test_many_more_histories(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(5_000):
        history = draw(dice)
        assert served(history, dice) == reference(history), history
