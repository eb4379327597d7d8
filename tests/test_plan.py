"""Plans: numbers by hand, warnings, disks, sampled text, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

import tokenriver as tr
from rivers import ArrayRiver
from small_builds import small_build, some_texts, write_rows
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.estimate import Interval, TextEstimate
from tokenriver.plan import Plan

RIVER = ArrayRiver(10_001)


def _plan(corpus: tr.Corpus | tr.Mixture | TextEstimate | ArrayRiver = RIVER, **options: object) -> Plan:
    given: dict[str, Any] = {"seq_len": 100, "global_batch": 8, "tokens_per_second": 50.0, **options}
    return tr.plan(corpus, **given)


def test_one_epoch_by_hand() -> None:
    found = _plan()
    assert (found.tokens_per_step, found.rows_per_epoch, found.steps_per_epoch) == (800, 100, 13)
    assert (found.steps, found.tokens, found.epochs) == (13, 10_400, 1.0)
    assert found.hours == 10_400 / 50 / 3600
    assert found.read_bytes_per_second is None
    assert (found.interval, found.warnings) == ({}, ())


def test_a_budget_is_rounded_up_to_a_step() -> None:
    assert (_plan(token_budget=801).steps, _plan(token_budget=800).steps) == (2, 1)
    assert _plan(token_budget=40_000).epochs == 50 * 8 / 100
    assert _plan(epochs=3).steps == 38  # 300 rows, the last step filled up


def test_padding_is_that_of_the_packing() -> None:
    river = ArrayRiver(30, [11, 6, 13])
    found = _plan(river, seq_len=10, global_batch=1, packing="document")
    assert (found.rows_per_epoch, found.padding_share) == (4, 1 - (10 + 5 + 12) / 40)
    assert _plan(river, seq_len=10, global_batch=1, packing="document", overflow="drop").rows_per_epoch == 2


def test_the_disk_gives_what_rows_show(tmp_path: Path) -> None:
    small_build(write_rows(tmp_path / "a.jsonl", some_texts(60)), tmp_path / "c")
    corpus = tr.open_corpus(tmp_path / "c")
    assert _plan(corpus, seq_len=10, tokens_per_second=1000).read_bytes_per_second == pytest.approx(
        1000 * 11 / 10 * 2, rel=0.1
    )
    padded = _plan(corpus, seq_len=1000, packing="document")
    assert padded.read_bytes_per_second is not None
    assert padded.read_bytes_per_second < 50 * 2


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"tokens_per_second": 0.01}, "one epoch takes 12.0 days"),
        ({"rate_steps": 49}, "measured over 49 steps, expected at least 50"),
        ({"world_size": 3}, "up to 1 of 9 rows of a step are filler"),
        ({"grad_accum": 3}, "up to 1 of 9 rows of a step are filler"),
        ({"global_batch": 1, "world_size": 4}, "up to 3 of 4 rows of a step are filler"),
    ],
)
def test_warnings(options: dict[str, Any], what: str) -> None:
    (text,) = _plan(**options).warnings
    assert what in text


def test_no_warning_where_it_was_meant() -> None:
    assert _plan(tokens_per_second=0.01, epochs=1).warnings == ()
    assert _plan(rate_steps=50, world_size=2, grad_accum=4).warnings == ()


@pytest.mark.parametrize(
    ("options", "error", "what"),
    [
        ({"seq_len": 0}, InputError, "seq_len: got 0"),
        ({"global_batch": 0}, InputError, "global_batch: got 0"),
        ({"tokens_per_second": 0}, InputError, "tokens_per_second: got 0"),
        ({"tokens_per_second": -3.0}, InputError, "tokens_per_second: got -3.0"),
        ({"tokens_per_second": float("nan")}, InputError, "tokens_per_second: got nan"),
        ({"world_size": 0}, InputError, "world_size: got 0"),
        ({"grad_accum": -1}, InputError, "grad_accum: got -1"),
        ({"rate_steps": 0}, InputError, "rate_steps: got 0"),
        ({"epochs": 0}, InputError, "epochs: got 0"),
        ({"epochs": 1, "steps": 5}, InputError, "epochs and steps: got both"),
        ({"global_batch": 101}, LimitError, "global_batch: got 101"),
        ({"seq_len": 20_000}, LimitError, "needs at least 20001 ids"),
        ({"packing": "best_fit"}, FormatError, "without document bounds"),
    ],
)
def test_refusals(options: dict[str, Any], error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        _plan(**options)


@pytest.mark.parametrize("options", [{}, {"epochs": 1}])
def test_a_mixture_without_an_end_needs_a_length(options: dict[str, Any]) -> None:
    mixture = tr.Mixture({"a": (RIVER, 1), "b": (RIVER, 2)})
    with pytest.raises(InputError, match="repeats its sources for ever"):
        _plan(mixture, **options)


def _text(low: float, mid: float, high: float) -> TextEstimate:
    ids, one = Interval(low, mid, high), Interval(1, 1, 1)
    return TextEstimate(1, 10, 5, 2, "byte", ids, one, one, one, 2, one, None, ())


def test_sampled_text_has_bounds() -> None:
    found = _plan(_text(9001, 10_001, 12_001))
    whole = _plan()
    assert (found.rows_per_epoch, found.steps, found.hours) == (whole.rows_per_epoch, whole.steps, whole.hours)
    assert found.interval == {
        "rows_per_epoch": (90, 120),
        "steps_per_epoch": (12, 15),
        "steps": (12, 15),
        "epochs": (1, 1),
        "hours": (12 * 800 / 50 / 3600, 15 * 800 / 50 / 3600),
    }
    assert found.read_bytes_per_second == 50 * 101 / 100 * 2
    budget = _plan(_text(9001, 10_001, 12_001), steps=50)
    assert (budget.interval["steps"], budget.interval["epochs"]) == ((50, 50), (400 / 120, 400 / 90))
    assert _plan(_text(0, 10_001, 90_000)).interval["rows_per_epoch"] == (1, 899)


def test_sampled_text_has_plain_windows_alone() -> None:
    with pytest.raises(InputError, match="packing: got 'document' for sampled text"):
        _plan(_text(1, 10_001, 20_000), packing="document")
    with pytest.raises(LimitError, match="about 100 ids"):
        _plan(_text(50, 100, 500))
