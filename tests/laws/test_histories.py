"""The laws of order together: whatever the corpora, packing, mixture, schedule, ranks, stops and resumes, a run serves
the rows of one naive loader in its order, each once, with equal balances and a state of a few integers."""

import json
import random
from collections import Counter
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest

from followed_legs import Corpora, Place, Rank, corpus_of, make
from naive_loader import Run, Text
from random_histories import History, Leg, Pace, draw_history, draw_leg, draw_run, draw_text
from small_corpora import make_corpus
from tokenriver import quotas
from tokenriver.corpus import Corpus, open_corpus
from tokenriver.errors import LimitError
from tokenriver.loader import Loader
from tokenriver.plan import plan

TEXTS = 40
HISTORIES = 200
CHUNKS = 4


def make_corpora(folder: Path, dice: random.Random) -> dict[Text, Corpus]:
    """Native corpora whose ids all differ, so that an id says which corpus it is of, and where it lies there."""
    made, first = {}, 1
    for number in range(TEXTS):
        shards = draw_text(dice)
        lengths = [length for shard in shards for length in shard]
        ids = iter(range(first, first + sum(lengths)))
        documents = [[[next(ids) for _ in range(length)] for length in shard] for shard in shards]
        make_corpus(folder / str(number), {"train": documents})
        made[Text(tuple(lengths), first)] = open_corpus(folder / str(number))
        first += sum(lengths)
    return made


def check_sizes(run: Run, loader: Loader, place: Place) -> None:
    """What a loader says of its run before it begins."""
    rows, leg = run.end(1), place.leg
    whole = Place(run, replace(leg, epochs=None, steps=None, repeat=None), 0, 0)
    assert loader.num_rows == rows
    while whole.row < rows:
        whole.move(1)
    assert loader.steps_per_epoch == whole.step
    if leg.steps is None and leg.epochs is None:
        assert loader.num_steps is None
    else:
        left = copy(place)
        left.move(1 << 30)
        assert loader.num_steps == left.step
    if not place.ended:
        assert loader.balance == run.balance(place.pace.seq_len)
        assert loader.micros_per_step == len(place.micros(0))


def check_plan(run: Run, corpora: Corpora, leg: Leg) -> None:
    """The plan of a run of equal steps against its rows."""
    first, packing = leg.paces[0], run.packing
    if len(leg.paces) > 1 or packing.own or packing.phase_shift or (leg.steps is None and leg.epochs is None):
        return
    whole = Place(run, leg, 0, 0)
    whole.move(1 << 30)
    found = plan(
        corpus_of(run, corpora),
        seq_len=first.seq_len,
        global_batch=first.global_batch,
        tokens_per_second=1,
        packing=packing.name,
        overflow=packing.overflow,
        epochs=leg.epochs,
        steps=leg.steps,
    )
    assert (found.rows_per_epoch, found.steps) == (run.end(1), whole.step)
    rows = Counter(run.row(number).source for number in range(whole.row))
    assert [source.rows for source in found.sources] == [rows[source] for source in range(len(run.names))]


def follow(history: History, corpora: Corpora, dice: random.Random) -> None:
    """A history from its begin to its end, whose legs know one another through one rank's state alone."""
    run, text, row, step, skips = history.run, "", 0, 0, 0
    passed, targets = list[int](), Counter[int]()
    legs = dice.choice((1, 2, 2, 3))
    for number in range(legs):
        leg, states = draw_leg(dice, history, step, number + 1 == legs), set()
        for rank in range(leg.world_size):
            loader = make(run, corpora, leg, rank)
            if text:
                loader.load_state_dict(json.loads(text))
            one = Rank(run, loader, Place(run, leg, row, step), rank, dice)
            if not rank:
                check_sizes(run, loader, one.place)
                if not number and leg.repeat is None:
                    check_plan(run, corpora, leg)
            one.follow()
            passed += [*one.kept, *([] if rank else one.skipped)]
            skips += len(one.skipped)
            targets += one.targets
            states.add(json.dumps(one.state))
        text = states.pop()
        assert not states
        assert len(text) < 256
        row, step = one.place.row, one.place.step
    assert sorted(passed) == list(range(row)), "each row once, over all ranks, stops and resumes"
    if history.epochs is not None:
        assert row == run.end(history.epochs)
        if run.once and not skips:
            assert (set(targets.values()), len(targets)) == ({history.epochs}, run.num_targets)


def play(dice: random.Random, corpora: Corpora) -> str:
    """A history drawn, and how it went."""
    run = draw_run(dice, list(corpora))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotas, "PERIOD", run.mixed.period if run.mixed else quotas.PERIOD)
        for seq_len in run.impossible:
            with pytest.raises(LimitError):
                make(run, corpora, Leg(1, [Pace(0, 1, seq_len, None)], None, 1, 0, 0, None, []), 0)
        if run.impossible:
            return "refused"
        history = draw_history(dice, run)
        try:
            follow(history, corpora, dice)
        except Exception as error:
            error.add_note(repr(history))
            raise
        return "followed"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_histories(tmp_path: Path, chunk: int) -> None:
    dice = random.Random(chunk)
    corpora = make_corpora(tmp_path, dice)
    times = Counter(play(dice, corpora) for _ in range(HISTORIES // CHUNKS))
    assert times["followed"] > times["refused"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 1_020))
def test_many_more_histories(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    for part in range(5):
        corpora = make_corpora(tmp_path / str(part), dice)
        for _ in range(1_000):
            play(dice, corpora)
