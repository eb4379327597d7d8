"""Schedules of batch size and seq_len: over an epoch every window of ids is served once, whatever changes when, on any
ranks, through any stops; the same rows as a loader of Python lists."""

import json
import random
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from drawn_legs import Leg, draw_legs
from naive_schedule import Row, Run
from random_histories import split
from rivers import ArrayRiver
from tokenriver.batch import Batch
from tokenriver.loader import Loader

RUNS = 400
CHUNKS = 4


def draw_run(dice: random.Random) -> Run:
    longest = dice.choice((4, 6, 8))
    lengths = [length for length in range(1, longest + 1) if longest % length == 0]
    blocks, epochs = dice.choice((1, 2, 5, 9)), dice.choice((1, 2, 3))
    chosen = [dice.choice(lengths) for _ in range(dice.randint(0, 3))] + [longest]
    dice.shuffle(chosen)
    chosen = [length for length, before in zip(chosen, [0, *chosen], strict=False) if length != before]
    segments = []
    for number, length in enumerate(chosen):
        # the blocks of all but the last segment end before the run does
        blocks_here = dice.randint(1, max(1, blocks * epochs // (len(chosen) + 1)))
        parts = longest // length
        sizes = split(dice, blocks_here * parts, min(7, blocks * parts))
        segments.append((length, sizes if number < len(chosen) - 1 else sizes[: dice.randint(1, len(sizes))]))
    while sum(sum(sizes) * length for length, sizes in segments[:-1]) >= blocks * longest * epochs:
        epochs += 1
    return Run(blocks * longest + 1 + dice.randrange(longest), dice.randrange(3), dice.choice(ORDERS), segments, epochs)


ORDERS = ("shuffled", "shuffled", "sequential")


def make(run: Run, leg: Leg, rank: int, **options: object) -> Loader:
    given: dict[str, Any] = {
        "seq_len": run.segments[0][0],
        "global_batch": run.segments[0][1][0],
        "micro_batch": leg.micro_batch,
        "schedule": run.changes(),
        "order": run.order,
        "seed": run.seed,
        "rank": rank,
        "world_size": leg.world_size,
        "epochs": run.epochs,
        "prefetch": leg.prefetch,
        **options,
    }
    return Loader(ArrayRiver(run.num_tokens), **given)


def rows_of(batches: list[Batch]) -> list[Row]:
    """The rows that batches show, by their ids, which are their positions; filler is left out, and checked."""
    found: list[Row] = []
    for batch in batches:
        width = batch.input_ids.shape[1]
        for line, number in enumerate(batch.row_numbers.tolist()):
            inputs, targets = batch.input_ids[line], batch.targets[line]
            if number < 0:
                assert inputs.max() == 0 > targets.max()
                continue
            assert (targets == inputs + 1).all()
            assert (np.diff(inputs) == 1).all()
            assert inputs[0] == batch.sample_ids[line] * width
            found.append((int(inputs[0]), width))
    return found


def served(run: Run, legs: list[Leg]) -> list[tuple[int, list[Row]]]:
    """(first row number, rows) of each step, by loaders that know one another only through one rank's state."""
    found: list[tuple[int, list[Row]]] = []
    text = ""
    for leg in legs:
        loaders = [make(run, leg, rank) for rank in range(leg.world_size)]
        for loader in loaders:
            if text:
                loader.load_state_dict(json.loads(text))
        streams = [iter(loader) for loader in loaders]
        for _ in range(leg.steps):
            micros = {loader.micros_per_step for loader in loaders}
            assert len(micros) == 1
            before = loaders[0].state_dict()
            counts = range(micros.pop())
            parts = [[batch for _, batch in zip(counts, stream, strict=False)] for stream in streams]
            if not any(parts):
                break
            assert {len(part) for part in parts} == {len(counts)}
            assert len({batch.input_ids.shape for part in parts for batch in part}) == 1
            states = {json.dumps(part[-1].state) for part in parts} | {json.dumps(loaders[0].state_dict())}
            assert len(states) == 1
            text = states.pop()
            assert len(text) < 256
            assert {batch.step for part in parts for batch in part} == {before["step"]}
            found.append((before["row"], [row for part in parts for row in rows_of(part)]))
    return found


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_runs(chunk: int) -> None:
    dice = random.Random(chunk)
    for _ in range(RUNS // CHUNKS):
        run = draw_run(dice)
        expected = run.steps()
        assert served(run, draw_legs(dice)) == [(row, rows) for row, _, rows in expected], run
        times = np.zeros(run.num_tokens, np.int64)
        for _, _, rows in expected:
            for start, length in rows:
                times[start + 1 : start + length + 1] += 1
        last = run.blocks * run.longest
        assert times.tolist() == [0] + [run.epochs] * last + [0] * (run.num_tokens - 1 - last)
        counts = make(run, Leg(1, None, 0, 0), 0)
        assert counts.num_steps == len(expected)
        assert list(accumulate(length for _, _, rows in expected for _, length in rows))[counts.num_rows - 1] == last
        assert counts.steps_per_epoch == sum(row < counts.num_rows for row, _, _ in expected)
        assert counts.balance["served"] == last + 1


def test_any_batch_at_once_workers_and_skipping() -> None:
    dice = random.Random(50)
    for _ in range(60):
        run, leg = draw_run(dice), draw_legs(dice)[0]
        rank = dice.randrange(leg.world_size)
        whole = list(make(run, leg, rank))
        shown = [(batch.step, batch.micro, batch.row_numbers.tolist(), batch.input_ids.tolist()) for batch in whole]
        states = [json.dumps(batch.state) for batch in whole]
        loader = make(run, leg, rank)
        loader.load_state_dict(dice.choice([whole[0], *whole[:-1]]).state)
        for step, micro, numbers, ids in dice.sample(shown, min(6, len(shown))):
            batch = loader.batch(step, micro)
            assert (batch.row_numbers.tolist(), batch.input_ids.tolist()) == (numbers, ids)
            assert json.dumps(batch.state) == states[shown.index((step, micro, numbers, ids))]
        loader = make(run, leg, rank)
        for stride in (1, 2, 3, 5):
            streams = [iter(loader.strided(first, stride)) for first in range(stride)]
            turns = [next(streams[at % stride]) for at in range(len(whole))]
            assert [batch.input_ids.tolist() for batch in turns] == [ids for *_, ids in shown]
            assert [next(stream, None) for stream in streams] == [None] * stride
        steps = dice.randint(0, whole[-1].step + 1)
        loader.skip(steps)
        assert [batch.input_ids.tolist() for batch in loader] == [ids for step, *_, ids in shown if step >= steps]


def test_batch_sizes_change_no_row() -> None:
    """Schedules of batch size alone go with each other's states, and with those of runs without one."""
    river = ArrayRiver(4 * 40 + 1)
    options: dict[str, Any] = {"seq_len": 4, "seed": 3, "epochs": 2, "prefetch": 0}
    plain = Loader(river, global_batch=1, **options)
    rows = [row for batch in plain for row in batch.sample_ids.tolist()]
    schedules: list[list[tuple[int, dict[str, int]]]] = [[], [(2, {"global_batch": 8})], [(1, {"global_batch": 3})]]
    dice = random.Random(7)
    for _ in range(30):
        got: list[int] = []
        state = Loader(river, global_batch=5, **options).state_dict()
        while len(got) < 80:
            loader = Loader(river, global_batch=dice.randint(1, 6), schedule=dice.choice(schedules), **options)
            loader.load_state_dict(state)
            for batch, _ in zip(loader, range(dice.randint(1, 6)), strict=False):
                got += [row for row in batch.sample_ids.tolist() if row >= 0]
                state = batch.state
            assert state["row"] == len(got)
        assert got == rows
