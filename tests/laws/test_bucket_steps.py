"""Steps of runs in buckets: looked at at once, passed over, repeated, found by their rows, told of by a ledger; always
those of a run of Python lists."""

import json
import random
from itertools import accumulate
from pathlib import Path

import pytest

import naive_order
from bucket_runs import draw, make, shows
from drawn_legs import Leg
from tokenriver.errors import LimitError
from tokenriver.ledger import read_ledger


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
    places, alone = make(run, 0, leg).places, make(run).places
    for rank in range(leg.world_size):
        served: dict[int, list[int]] = {}
        for batch in make(run, rank, leg):
            served.setdefault(batch.step, []).extend(g for g in batch.row_numbers.tolist() if g >= 0)
        for step, numbers in served.items():
            assert list(places.rows(step, rank)) == list(alone.rows(step, rank, leg.world_size)) == numbers
            assert [places.place(number) for number in numbers] == [(step, rank, i) for i in range(len(numbers))]
            assert [places.row_number(step, rank, index) for index in range(len(numbers))] == numbers
            with pytest.raises(LimitError, match=f"index: got {len(numbers)}, expected 0 to"):
                places.row_number(step, rank, len(numbers))
    ends = [places.rows(step).stop for step in served]
    assert [places.rows(step).start for step in served] == [0, *ends[:-1]]


@pytest.mark.parametrize("seed", range(10))
def test_a_ledger_has_the_rows_of_each_step(seed: int, tmp_path: Path) -> None:
    """The same sums whatever ranks, stops and resumes; the rows of the naive run."""
    run = draw(random.Random(4_000 + seed))
    steps = run.steps([bucket.width for bucket in make(run).buckets])
    text, at = "", 0
    for leg in run.legs:
        for rank in range(leg.world_size):
            loader = make(run, rank, leg, ledger=tmp_path / "parts")
            if text:
                loader.load_state_dict(json.loads(text))
            state = loader.state_dict()
            for batch in loader:
                if batch.step == at + leg.steps:
                    break  # a step is begun, and not ended
                state = batch.state
        text, at = json.dumps(state), state["step"]
    for _ in make(run, ledger=tmp_path / "whole"):
        pass
    found = read_ledger(tmp_path / "parts")
    assert found == read_ledger(tmp_path / "whole")
    begins = accumulate((len(step.rows) for step in steps), initial=0)
    assert [(seen.row, seen.rows) for seen in found.values()] == [
        (begin, len(step.rows)) for begin, step in zip(begins, steps, strict=False)
    ]
