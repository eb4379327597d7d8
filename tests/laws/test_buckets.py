"""Rows in buckets: every row once an epoch over all ranks, whatever stops, resumes and changes of world size and micro
batch lie in between; one shape a step on all ranks; every position a target, padding or filler; the steps of a run of
Python lists."""

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_buckets
from bucket_runs import Run, draw, make, shows
from naive_buckets import Step
from tokenriver.buckets import choose_widths

HISTORIES = 40
CHUNKS = 2


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
