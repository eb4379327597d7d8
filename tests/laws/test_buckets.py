"""Rows in buckets: every row once an epoch over all ranks, whatever stops, resumes and changes of world size and micro
batch lie in between; one shape a step on all ranks; every position a target, padding or filler; the steps of a run of
Python lists."""

import json
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_buckets
import naive_order
import naive_packing
from naive_buckets import Step
from rivers import ArrayRiver
from tokenriver.batch import Batch
from tokenriver.buckets import choose_widths
from tokenriver.errors import LimitError
from tokenriver.loader import Loader
from tokenriver.types import IGNORE

HISTORIES = 40
CHUNKS = 2


@dataclass
class Leg:
    """A stretch of the run on one set of machines."""

    world_size: int
    micro_batch: int | None
    steps: int
    prefetch: int


@dataclass
class Run:
    lengths: list[int]
    seq_len: int
    overflow: str
    order: str
    seed: int
    epochs: int
    global_batch: int | None
    max_tokens: int | None
    buckets: int | list[int]
    legs: list[Leg]

    def __post_init__(self) -> None:
        rows = naive_packing.rows_of("document", self.lengths, self.seq_len, self.overflow)
        self.spans = [span for (span,) in rows]
        self.sizes = [stop - start - 1 for start, stop in self.spans]
        """Positions of each row."""
        self.river = ArrayRiver(sum(self.lengths), self.lengths)

    def steps(self, widths: list[int]) -> list[Step]:
        """All steps of the run, by the naive reference."""
        most = {}
        for width in widths:
            bounds = [] if self.global_batch is None else [self.global_batch]
            bounds += [] if self.max_tokens is None else [self.max_tokens // width]
            most[width] = min(bounds)
        return [
            step
            for number in range(self.epochs)
            for step in naive_buckets.epoch(self.sizes, widths, most, self.order, self.seed, number)
        ]


def draw(dice: random.Random) -> Run:
    seq_len = dice.choice((1, 3, 8, 8, 13))
    lengths = [dice.choice((0, 1, 2, 3, 5, 8, 9, 14, 18)) for _ in range(dice.randint(1, 14))] + [dice.randint(2, 5)]
    edges = sorted(dice.sample(range(1, seq_len + 1), dice.randint(1, min(4, seq_len))))
    legs = [
        Leg(dice.choice((1, 2, 3, 5)), dice.choice((None, 1, 2, 3)), dice.randint(0, 5), dice.choice((0, 0, 0, 2)))
        for _ in range(dice.randint(1, 4))
    ]
    legs[-1].steps = 1 << 30
    budget = dice.choice((None, seq_len, 2 * seq_len + 1, 5 * seq_len))
    return Run(
        lengths,
        seq_len,
        dice.choice(("split", "split", "truncate", "drop")) if seq_len > 3 else "split",
        dice.choice(("shuffled", "shuffled", "sequential")),
        dice.randrange(3),
        dice.choice((1, 1, 2, 3)),
        dice.randint(1, 6) if budget is None or dice.random() < 0.5 else None,
        budget,
        dice.choice((dice.randint(1, 5), edges)),
        legs,
    )


def make(run: Run, rank: int = 0, leg: Leg | None = None, **options: object) -> Loader:
    leg = leg or Leg(1, None, 0, 0)
    asked = {"buckets": run.buckets, "max_tokens_per_batch": run.max_tokens}
    given: dict[str, Any] = {
        "seq_len": run.seq_len,
        "global_batch": run.global_batch,
        "packing": "document",
        "packing_options": asked,
        "micro_batch": leg.micro_batch,
        "overflow": run.overflow,
        "order": run.order,
        "seed": run.seed,
        "rank": rank,
        "world_size": leg.world_size,
        "epochs": run.epochs,
        "prefetch": leg.prefetch,
        **options,
    }
    return Loader(run.river, **given)


def shows(run: Run, batches: list[Batch]) -> list[int]:
    """The rows of one rank's micro-batches of a step; every cell is checked."""
    found: list[int] = []
    for batch in batches:
        width = batch.input_ids.shape[1]
        for line, sample in enumerate(batch.sample_ids.tolist()):
            start, stop = run.spans[sample] if sample >= 0 else (0, 1)
            padding = width - (stop - start - 1)
            assert batch.targets[line].tolist() == [*range(start + 1, stop), *[IGNORE] * padding]
            assert batch.input_ids[line, : width - padding].tolist() == list(range(start, stop - 1))
            found += [sample] if sample >= 0 else []
        assert batch.num_targets == batch.loss_mask.sum()
        assert int(batch.cu_seqlens[-1]) == batch.input_ids.size
    return found


def serve(run: Run, expected: list[Step]) -> None:
    """A run of loaders that know one another only through one rank's state as JSON."""
    text, at, g = "", 0, 0
    for leg in run.legs:
        loaders = [make(run, rank, leg) for rank in range(leg.world_size)]
        for loader in loaders:
            if text:
                loader.load_state_dict(json.loads(text))
        streams = [iter(loader) for loader in loaders]
        for _ in range(min(leg.steps, len(expected) - at)):
            step = expected[at]
            (micros,) = {loader.micros_per_step for loader in loaders}
            parts = [[next(stream) for _ in range(micros)] for stream in streams]
            shapes = {batch.input_ids.shape for part in parts for batch in part}
            share = -(-step.room // leg.world_size)
            most = share if leg.micro_batch is None else leg.micro_batch * run.seq_len // step.width
            assert shapes == {(min(share, most), step.width)}, "one shape on all ranks"
            assert micros == -(-share // min(share, most))
            assert [row for part in parts for row in shows(run, part)] == step.rows
            numbers = np.concatenate([batch.row_numbers for part in parts for batch in part])
            assert numbers[numbers >= 0].tolist() == list(range(g, g + len(step.rows)))
            at, g = at + 1, g + len(step.rows)
            states = {json.dumps(part[-1].state) for part in parts}
            assert len(states) == 1
            text = states.pop()
            assert len(text) < 256
            assert (json.loads(text)["step"], json.loads(text)["row"]) == (at, g)
            assert json.loads(text) == loaders[-1].state_dict()
        assert at < len(expected) or all(next(stream, None) is None for stream in streams)
    assert at == len(expected)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_histories(chunk: int) -> None:
    dice = random.Random(chunk)
    for _ in range(HISTORIES // CHUNKS):
        check_history(draw(dice))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_more_histories(chunk: int) -> None:
    dice = random.Random(1_000 + chunk)
    for _ in range(HISTORIES // 2):
        check_history(draw(dice))


def check_history(run: Run) -> None:
    loader = make(run)
    widths = [bucket.width for bucket in loader.buckets]
    if not isinstance(run.buckets, int):
        assert set(widths) <= {*run.buckets, run.seq_len}
    expected = run.steps(widths)
    serve(run, expected)
    assert loader.num_steps == len(expected)
    assert loader.steps_per_epoch * run.epochs == len(expected)
    per_epoch = [row for step in expected[: loader.steps_per_epoch] for row in step.rows]
    assert sorted(per_epoch) == list(range(len(run.spans))), "every row once"


@pytest.mark.parametrize("seed", range(40))
def test_every_position_is_accounted_for(seed: int) -> None:
    dice = random.Random(seed)
    run = draw(dice)
    run.epochs = 1
    loader = make(run)
    plain = make(run, packing_options=None, global_batch=1)
    assert loader.balance == plain.balance, "the same ids as without buckets"
    assert loader.num_rows == plain.num_rows == sum(bucket.rows for bucket in loader.buckets)
    batches = list(loader)
    positions = sum(batch.input_ids.size for batch in batches)
    targets = sum(batch.num_targets for batch in batches)
    padding = sum(bucket.padding for bucket in loader.buckets)
    filler = sum(bucket.filler * bucket.width for bucket in loader.buckets)
    assert positions == targets + padding + filler
    assert targets == sum(run.sizes)
    assert padding <= plain.num_rows * run.seq_len - targets, "never more than rows of one width"
    for bucket in loader.buckets:
        here = [batch for batch in batches if batch.input_ids.shape[1] == bucket.width]
        assert [len(here), sum(int((batch.sample_ids >= 0).sum()) for batch in here)] == [bucket.steps, bucket.rows]
        assert bucket.filler < bucket.steps
        for batch in here:
            assert (batch.sample_ids < 0).sum() <= 1, "no step is short of more than a row"
            if run.max_tokens is not None:
                assert batch.input_ids.size <= run.max_tokens
            if run.global_batch is not None:
                assert len(batch.input_ids) <= run.global_batch


@pytest.mark.parametrize("seed", range(20))
def test_any_step_at_once_and_documents_looked_up(seed: int) -> None:
    dice = random.Random(1_000 + seed)
    run = draw(dice)
    leg = Leg(1, dice.choice((None, 1, 2)), 0, 0)
    loader = make(run, leg=leg)
    made = [(batch.step, batch.micro, batch.input_ids.tolist(), batch.state) for batch in loader]
    other = make(run, leg=leg)
    skipped = dice.randint(0, made[-1][0] + 1)
    other.skip(skipped)
    left = [(batch.step, batch.micro, batch.input_ids.tolist(), batch.state) for batch in other]
    assert left == [batch for batch in made if batch[0] >= skipped]
    for step, micro, ids, state in dice.sample(made, min(5, len(made))):
        batch = loader.batch(step, micro)
        assert (batch.input_ids.tolist(), batch.state) == (ids, state)
    order = [row for step in run.steps([bucket.width for bucket in loader.buckets]) for row in step.rows]
    shown = [run.river.document_at(run.spans[row][0]) for row in order]
    for document in set(shown):
        assert loader.when(document).tolist() == [g for g, here in enumerate(shown) if here == document]
    for g in dice.sample(range(len(order)), min(5, len(order))):
        (origin,) = loader.trace(g)
        assert (origin.document, origin.row_start, origin.row_stop) == (shown[g], 0, run.sizes[order[g]])


@pytest.mark.parametrize("seed", range(30))
def test_one_step_again_and_again(seed: int) -> None:
    """repeat_batch: the rows of that step at every step, on any ranks, while the run's rows stand still."""
    dice = random.Random(2_000 + seed)
    run = draw(dice)
    run.epochs = 2
    steps = run.steps([bucket.width for bucket in make(run).buckets])
    again = dice.randrange(len(steps))
    text, at = "", 0
    for leg in run.legs:
        count, states = min(leg.steps, len(steps) - at), set()
        rows: list[list[int]] = [[] for _ in range(count)]
        for rank in range(leg.world_size):
            loader = make(run, rank, leg, repeat_batch=again)
            if text:
                loader.load_state_dict(json.loads(text))
            stream = iter(loader)
            for here in range(count):
                batches = [next(stream) for _ in range(loader.micros_per_step)]
                assert {batch.step for batch in batches} == {at + here}
                assert {batch.input_ids.shape[1] for batch in batches} == {steps[again].width}
                rows[here] += shows(run, batches)
            assert at + count < len(steps) or next(stream, None) is None
            states.add(json.dumps(loader.state_dict()))
            first = sum(len(step.rows) for step in steps[:again])
            micro = loader.batch(0).input_ids.shape[0]
            cells = naive_order.dealt(
                first, steps[again].room, (rank, leg.world_size), micro, first + len(steps[again].rows)
            )
            assert [loader.batch(0, i).row_numbers.tolist() for i in range(len(cells))] == cells
        assert rows == [steps[again].rows] * count
        (text,), at = states, at + count
        assert (json.loads(text)["row"], json.loads(text)["step"]) == (0, at)


@pytest.mark.parametrize("seed", range(30))
def test_the_step_and_rank_of_each_row(seed: int) -> None:
    dice = random.Random(3_000 + seed)
    run = draw(dice)
    run.epochs, leg = 2, Leg(dice.choice((1, 2, 3, 5)), dice.choice((None, 1, 2)), 0, 0)
    places = make(run, 0, leg).places
    for rank in range(leg.world_size):
        served: dict[int, list[int]] = {}
        for batch in make(run, rank, leg):
            served.setdefault(batch.step, []).extend(g for g in batch.row_numbers.tolist() if g >= 0)
        for step, numbers in served.items():
            assert list(places.rows(step, rank)) == list(make(run).places.rows(step, rank, leg.world_size)) == numbers
            assert [places.place(number) for number in numbers] == [(step, rank, i) for i in range(len(numbers))]
            assert [places.row_number(step, rank, index) for index in range(len(numbers))] == numbers
            with pytest.raises(LimitError, match=f"index: got {len(numbers)}, expected 0 to"):
                places.row_number(step, rank, len(numbers))
    ends = [places.rows(step).stop for step in served]
    assert [places.rows(step).start for step in served] == [0, *ends[:-1]]


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20), most=st.integers(1, 9))
def test_chosen_widths_have_the_least_padding(sizes: list[int], most: int) -> None:
    values, counts = np.unique(np.array(sizes), return_counts=True)
    widths = list(choose_widths(values, counts, 9, most))
    assert widths == sorted(set(widths))
    assert len(widths) == min(most, len(values))
    padding = sum(naive_buckets.width_of(size, widths) - size for size in sizes)
    assert padding == naive_buckets.least_padding(sizes, list(range(1, 10)), most)


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=30),
    seq_len=st.sampled_from([700, 5_000, 100_000]),
    most=st.integers(1, 3),
)
def test_chosen_widths_of_long_rows_are_aligned(sizes: list[int], seq_len: int, most: int) -> None:
    unit = {700: 8, 5_000: 16, 100_000: 256}[seq_len]
    widths = list(choose_widths(*np.unique(np.array(sizes), return_counts=True), seq_len, most))
    assert all(width % unit == 0 or width == seq_len for width in widths)
    candidates = sorted({min(-(-size // unit) * unit, seq_len) for size in sizes})
    padding = sum(naive_buckets.width_of(size, widths) - size for size in sizes)
    assert padding == naive_buckets.least_padding(sizes, candidates, most)
