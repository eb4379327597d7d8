"""Multiple choice: every example is shown whole and once by all ranks together, in the rows of a plain list; scores are
those of one example at a time, for any ranks and sizes; files give back what went in."""

import hashlib
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenriver as tr
from choice_cases import Example, as_lists, drawn, made, naive_pick, naive_row
from tokenriver.examples import _choice_llmc, _choice_native

SHAPES = {"batch_rows": st.integers(5, 13), "seq_len": st.integers(1, 14), "world_size": st.integers(1, 5)}


def loaders(examples: tr.ChoiceExamples, shape: dict[str, int], layout: str = "native") -> list[tr.EvalLoader]:
    return [tr.EvalLoader(examples, rank=rank, layout=layout, **shape) for rank in range(shape["world_size"])]


@settings(max_examples=30)
@given(drawn(), st.fixed_dictionaries(SHAPES))
def test_every_example_is_shown_once_in_the_rows_of_a_list(some: list[Example], shape: dict[str, int]) -> None:
    examples = made(some)
    fits = [number for number, one in enumerate(some) if naive_row(one, 0, shape["seq_len"]) is not None]
    if not fits:
        with pytest.raises(tr.LimitError, match=r"^seq_len: got .*, expected at least"):
            loaders(examples, shape)
        return
    ranks = loaders(examples, shape)
    assert len({len(loader) for loader in ranks}) == 1
    shown: list[int] = []
    cut = 0
    for loader in ranks:
        assert loader.unscorable.tolist() == [number for number in range(len(some)) if number not in fits]
        for batch in loader:
            line = 0
            while line < shape["batch_rows"]:
                number = int(batch.example_ids[line])
                count = 1 if number < 0 else len(some[number][1])
                stop = line + count
                if number < 0:
                    assert not batch.input_ids[line].any()
                    assert (batch.targets[line] == tr.IGNORE).all()
                    assert (batch.choice_ids[line], batch.labels[line], batch.cut[line]) == (-1, -1, 0)
                else:
                    shown.append(number)
                    assert batch.choice_ids[line:stop].tolist() == list(range(count))
                    for choice in range(count):
                        row = naive_row(some[number], choice, shape["seq_len"])
                        at = line + choice
                        assert row == (batch.input_ids[at].tolist(), batch.targets[at].tolist(), batch.cut[at])
                        assert batch.example_ids[at] == number
                        assert batch.labels[at] == some[number][2]
                    cut += int(batch.cut[line])
                line = stop
            assert batch.num_targets == batch.loss_mask.sum()
            assert batch.input_ids.dtype == batch.targets.dtype == np.int64
            assert (batch.position_ids == np.arange(shape["seq_len"])).all()
    assert sorted(shown) == fits
    summary = ranks[0].summary()
    assert (summary["scored"], summary["unscorable"]) == (len(fits), len(some) - len(fits))
    assert (summary["context_ids_cut"], summary["rows"]) == (cut, sum(len(some[number][1]) for number in fits))


@settings(max_examples=15)
@given(drawn(), st.fixed_dictionaries(SHAPES))
def test_the_global_batches_are_the_same_for_any_ranks(some: list[Example], shape: dict[str, int]) -> None:
    examples, shape = made(some), {**shape, "seq_len": 14}
    one = list(tr.EvalLoader(examples, batch_rows=shape["batch_rows"], seq_len=14))
    ranks = [list(loader) for loader in loaders(examples, shape)]
    merged = [rank[step] for step in range(len(ranks[0])) for rank in ranks]
    for number, batch in enumerate(merged):
        same = one[number].example_ids if number < len(one) else np.full(shape["batch_rows"], -1)
        assert np.array_equal(batch.example_ids, same)
    # no batch could have taken an example more, so at most one is half empty if all have the same number of choices
    if len(set(examples.counts.tolist())) == 1:
        assert len(one) == -(-len(some) // (shape["batch_rows"] // int(examples.counts[0])))


def test_lines_are_used_well() -> None:
    """Fours and fives in turn, eight lines: as they come no two of them share a batch."""
    some = [([1], [[2]] * (4 + at % 2), 0) for at in range(20)]
    assert len(tr.EvalLoader(made(some), batch_rows=8, seq_len=4)) == 10 + 5
    assert len(tr.EvalLoader(made(some), batch_rows=9, seq_len=4)) == 10


def naive_llmc(some: list[Example], shape: dict[str, int], rank: int) -> list[list[tuple[int, int]]]:
    """(example, choice) of each line of each batch; (-1, -1) for none."""
    per_rank, capacity = -(-len(some) // shape["world_size"]), shape["batch_rows"] // 4
    mine = list(range(len(some)))[rank * per_rank : (rank + 1) * per_rank]
    out = []
    for batch in range(-(-per_rank // capacity)):
        lines = [(number, choice) for number in mine[batch * capacity :][:capacity] for choice in range(4)]
        out.append(lines + [(-1, -1)] * (shape["batch_rows"] - len(lines)))
    return out


@settings(max_examples=20)
@given(drawn(4, 65534, least_choices=4), st.fixed_dictionaries({**SHAPES, "seq_len": st.just(40)}))
def test_the_lines_of_llmc(some: list[Example], shape: dict[str, int]) -> None:
    examples = made(some)
    if len(some) < shape["world_size"]:
        with pytest.raises(tr.LimitError, match=r"^world_size"):
            loaders(examples, shape, layout="llmc")
        return
    for rank, loader in enumerate(loaders(examples, shape, layout="llmc")):
        expected = naive_llmc(some, shape, rank)
        assert len(loader) == len(expected)
        for batch, lines in zip(loader, expected, strict=True):
            assert list(zip(batch.example_ids.tolist(), batch.choice_ids.tolist(), strict=True)) == lines
            for at, (number, choice) in enumerate(lines):
                context, choices, _ = some[number]
                ids = [] if number < 0 else context + choices[choice]
                assert batch.input_ids[at].tolist() == ids + [0] * (40 - len(ids))
                before = len(context) - 1
                scored = [-100] * before + choices[choice] if number >= 0 else []
                assert batch.targets[at].tolist() == scored + [-100] * (40 - len(scored))


@settings(max_examples=20)
@given(drawn(), st.fixed_dictionaries(SHAPES), st.integers(0, 2**32), st.booleans())
def test_scores_are_those_of_one_example_at_a_time(
    some: list[Example], shape: dict[str, int], seed: int, coarse: bool
) -> None:
    """Coarse losses are often equal: the first choice wins."""
    shape["seq_len"] = max(shape["seq_len"], 7)
    generator = np.random.default_rng(seed)
    losses = [[generator.integers(1, 3, len(c)) / (1 if coarse else 7) for c in choices] for _, choices, _ in some]
    examples, totals = made(some), []
    for loader in loaders(examples, shape):
        scores = tr.ChoiceScores(loader)
        for batch in loader:
            values = np.full(batch.targets.shape, np.nan)  # nothing outside the mask is looked at
            for at in np.flatnonzero(batch.example_ids >= 0).tolist():
                values[at, batch.loss_mask[at]] = losses[batch.example_ids[at]][batch.choice_ids[at]]
            scores.add(batch, values)
        totals.append(scores.totals)
    found = tr.choice_accuracy(totals)
    assert (found["examples"], found["scored"], found["unscorable"]) == (len(some), len(some), 0)

    def share(weigh: Callable[[int, list[float]], float]) -> float:
        right = sum(
            naive_pick([one.tolist() for one in per_choice], weigh) == label
            for per_choice, (*_, label) in zip(losses, some, strict=True)
        )
        return right / len(some)

    assert found["acc"] == share(lambda choice, loss: sum(loss))
    assert found["acc_norm_tokens"] == share(lambda choice, loss: sum(loss) / len(loss))
    assert found["acc_norm_bytes"] == share(lambda choice, loss: sum(loss) / (3 * len(loss) + choice))
    assert found["llmc"] == share(lambda choice, loss: float(_llmc_mean(loss)))


def _llmc_mean(losses: list[float]) -> np.float32:
    total = np.float32(0)
    for loss in losses:
        total = total + np.float32(loss)
    mean: np.float32 = total / np.float32(len(losses))
    return mean


@settings(max_examples=25)
@given(drawn())
def test_the_native_file_gives_back_what_went_in(some: list[Example]) -> None:
    examples = made(some)
    data = file_of(examples)
    found = _choice_native.unpack(Path("a"), np.frombuffer(data, np.uint8))
    assert as_lists(found) == as_lists(examples) == some
    assert found.choice_bytes is not None
    assert found.choice_bytes.tolist() == np.asarray(examples.choice_bytes).tolist()
    assert found.records.tolist() == list(range(len(some)))
    assert file_of(found) == data


def file_of(examples: tr.ChoiceExamples) -> bytes:
    data = b"".join(bytes(piece) for piece in _choice_native.pack(examples))
    return data + hashlib.sha256(data).digest()


@settings(max_examples=25)
@given(drawn(4, 65534, least_choices=4))
def test_llmcs_file_gives_back_what_went_in(some: list[Example]) -> None:
    data = b"".join(bytes(piece) for piece in _choice_llmc.pack(made(some)))
    assert data == naive_file(some)
    assert as_lists(_choice_llmc.unpack(Path("a"), np.frombuffer(data, np.uint8))) == some


def naive_file(some: list[Example]) -> bytes:
    """Word by word."""
    records = []
    for number, (context, choices, label) in enumerate(some):
        words = [number, label, 4]
        for piece in (context, *choices):
            words += [len(piece), *piece]
        records.append([65535, 2 * (len(words) + 2), *words])
    head = [20240522, 1, len(some), 2 * max(map(len, records)), *[0] * 252]
    return np.array(head, "<i4").tobytes() + np.array(list(chain.from_iterable(records)), "<u2").tobytes()
