"""Scores by rule, and what a loader and a scorer refuse."""

from typing import Any

import numpy as np
import pytest

import tokenriver as tr
from choice_cases import made

FOUR = made([([1, 2, 3], [[4] * 2, [5] * 4, [6], [7] * 5], 1), ([8], [[9], [10]], 0)])


def losses_of(batch: tr.EvalBatch, sums: list[list[float]]) -> np.ndarray[Any, Any]:
    """Losses that add up to these sums, by example and choice, the same at each position of a choice."""
    out = np.zeros(batch.targets.shape)
    for line in np.flatnonzero(batch.example_ids >= 0).tolist():
        mask = batch.loss_mask[line]
        out[line, mask] = sums[batch.example_ids[line]][batch.choice_ids[line]] / mask.sum()
    return out


def test_rules_differ_and_each_has_its_name() -> None:
    """The smallest sum is that of choice 2, the smallest mean that of choice 1."""
    loader = tr.EvalLoader(FOUR, batch_rows=6, seq_len=8)
    (batch,) = loader
    scores = tr.ChoiceScores(loader)
    scores.add(batch, losses_of(batch, [[10, 12, 9, 20], [1, 1]]))
    assert scores.picked("acc").tolist() == [2, 0]
    assert scores.picked("acc_norm_tokens").tolist() == scores.picked("llmc").tolist() == [1, 0]
    # bytes are 6, 13, 5, 18 and 3, 4
    assert scores.picked("acc_norm_bytes").tolist() == [1, 1]
    assert scores.totals == {
        "examples": 2,
        "unscorable": 0,
        "scored": 2,
        "acc": 1,
        "acc_norm_tokens": 2,
        "acc_norm_bytes": 1,
        "llmc": 2,
    }
    assert tr.choice_accuracy([scores.totals])["acc"] == 0.5


def test_an_answer_of_one_id_is_scored_after_the_whole_context() -> None:
    (batch,) = tr.EvalLoader(made([([1, 2, 3], [[4], [5]], 0)]), batch_rows=2, seq_len=5)
    assert batch.input_ids.tolist() == [[1, 2, 3, 0, 0]] * 2
    assert batch.targets.tolist() == [[-100, -100, answer, -100, -100] for answer in (4, 5)]
    assert batch.num_targets == 2


def test_without_bytes_there_is_no_score_by_bytes() -> None:
    loader = tr.EvalLoader(made([([1], [[2], [3]], 0)], choice_bytes=None), batch_rows=2, seq_len=2)
    scores = tr.ChoiceScores(loader)
    scores.add(loader.batch(0), np.ones((2, 2), np.float32))
    known = ["examples", "unscorable", "scored", "acc", "acc_norm_tokens", "llmc"]
    assert list(tr.choice_accuracy([scores.totals])) == known
    with pytest.raises(tr.InputError, match="rule: got 'acc_norm_bytes', expected one of acc, "):
        scores.picked("acc_norm_bytes")


def test_float32_means_are_added_from_the_left() -> None:
    """2^24 + 1 + 1 is 2^24 in float32 and 2^24 + 2 in float64: equal means, of which the first wins."""
    loader = tr.EvalLoader(made([([1], [[2] * 3, [3] * 3], 1)]), batch_rows=2, seq_len=3)
    scores = tr.ChoiceScores(loader)
    scores.add(loader.batch(0), np.array([[2.0**24, 1, 1], [2.0**24, 0, 0]]))
    assert (scores.picked("llmc").tolist(), scores.picked("acc").tolist()) == ([0], [1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_loss_that_is_no_number_names_its_example(value: float) -> None:
    loader = tr.EvalLoader(FOUR, batch_rows=6, seq_len=8)
    values = losses_of(loader.batch(0), [[1] * 4, [1] * 2])
    values[5, 0] = value
    scores = tr.ChoiceScores(loader)
    with pytest.raises(tr.InputError, match=rf"losses: example 1, choice 1: got {value} at position 0"):
        scores.add(loader.batch(0), values)
    values[5, 0], values[5, 1] = 1, value  # no target is there
    scores.add(loader.batch(0), values)


def test_losses_of_another_shape_or_kind_are_refused() -> None:
    loader = tr.EvalLoader(FOUR, batch_rows=6, seq_len=8)
    wrongs: list[Any] = [np.zeros((6, 7)), np.zeros(6), np.zeros((6, 8), np.int64)]
    for wrong in wrongs:
        with pytest.raises(tr.InputError, match=r"^losses: got .*, expected floats of shape \(6, 8\)"):
            tr.ChoiceScores(loader).add(loader.batch(0), wrong)


def test_totals_of_a_part_are_refused() -> None:
    ranks = [tr.EvalLoader(FOUR, batch_rows=4, seq_len=8, rank=rank, world_size=2) for rank in range(2)]
    scores = [tr.ChoiceScores(loader) for loader in ranks]
    for one, loader in zip(scores, ranks, strict=True):
        one.add(loader.batch(0), np.ones((4, 8)))
    assert tr.choice_accuracy(one.totals for one in scores)["scored"] == 2
    with pytest.raises(tr.MismatchError, match="got 1 scored and 0 unscorable examples, expected 2 together"):
        tr.choice_accuracy([scores[0].totals])
    with pytest.raises(tr.MismatchError, match="example 0: got its losses twice"):
        scores[0].add(ranks[0].batch(0), np.ones((4, 8)))


def test_unscorable_examples_are_counted_once() -> None:
    examples = made([([1], [[2] * 9, [3]], 0), ([1], [[2], [3]], 0), ([1, 2, 3], [[2, 2], [3]], 1)])
    totals = []
    for rank in range(3):
        loader = tr.EvalLoader(examples, batch_rows=2, seq_len=3, rank=rank, world_size=3)
        assert (loader.unscorable.tolist(), loader.cut.tolist()) == ([0], [0, 0, 1])
        scores = tr.ChoiceScores(loader)
        for batch in loader:
            scores.add(batch, np.ones((2, 3), np.float16))
        totals.append(scores.totals)
    found = tr.choice_accuracy(totals)
    assert (found["examples"], found["unscorable"], found["scored"], found["acc"]) == (3, 1, 2, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_rows": 0}, "batch_rows: got 0, expected at least 1"),
        ({"seq_len": 0}, "seq_len: got 0, expected at least 1"),
        ({"world_size": 0}, "world_size: got 0, expected at least 1"),
        ({"rank": 2, "world_size": 2}, "rank: got 2 of world_size 2, expected 0 to 1"),
        ({"rank": -1}, "rank: got -1"),
        ({"layout": "lm-eval"}, "layout: got 'lm-eval', expected native or llmc"),
        ({"batch_rows": 3}, "batch_rows: got 3, expected at least 4, the choices of example 0"),
        ({"layout": "llmc"}, "example 1: choices: got 2, expected 4 as in llm.c"),
    ],
)
def test_arguments_that_cannot_be_meant(change: dict[str, Any], message: str) -> None:
    with pytest.raises((tr.InputError, tr.LimitError), match=message):
        tr.EvalLoader(FOUR, **{"batch_rows": 6, "seq_len": 8, **change})


def test_too_short_lines_say_how_long_they_must_be() -> None:
    long = made([([1], [[2] * 9, [3]], 0), ([1], [[2] * 7, [3]], 0)])
    with pytest.raises(tr.LimitError, match="seq_len: got 6, expected at least 7"):
        tr.EvalLoader(long, batch_rows=2, seq_len=6)
    assert len(tr.EvalLoader(long, batch_rows=2, seq_len=7)) == 1
    with pytest.raises(tr.InputError, match="batch: got 1, expected 0 to 0"):
        tr.EvalLoader(long, batch_rows=2, seq_len=7).batch(1)


def test_what_llmc_takes_at_its_edges() -> None:
    """Rows of T - 1 ids at most, and records below 10 bytes a position."""
    row = made([([1] * 9, [[2], [3], [4], [5]], 0)])
    with pytest.raises(tr.LimitError, match="seq_len: got 10, expected more than 10, the ids of example 0"):
        tr.EvalLoader(row, batch_rows=4, seq_len=10, layout="llmc")
    assert len(tr.EvalLoader(row, batch_rows=4, seq_len=11, layout="llmc")) == 1
    least = made([([1], [[2], [3], [4], [5]], 0)])  # 15 words: 30 bytes
    with pytest.raises(
        tr.LimitError, match=r"seq_len: got 3, expected more than 3: llm\.c takes records below 10 bytes"
    ):
        tr.EvalLoader(least, batch_rows=4, seq_len=3, layout="llmc")
    assert len(tr.EvalLoader(least, batch_rows=4, seq_len=4, layout="llmc")) == 1
