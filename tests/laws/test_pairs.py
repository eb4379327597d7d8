"""Both rows of a pair stay together, each pair is served once whatever stops, resumes and changes of world size lie in
between, and no row loses a part of its answer: against a reference of plain lists.
"""

import json
import random
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naive_order
import tokenriver as tr
from tokenriver import pairloader
from tokenriver.errors import FormatError, InputError, LimitError, MismatchError
from tokenriver.manifest import SourceInfo, tokenizer_info
from tokenriver.pairloader import PairBatch, PairLoader
from tokenriver.spool import ExampleWriter, write_examples
from tokenriver.types import IGNORE, TokenBatch

PAIRS = 11


@dataclass
class Row:
    """One side of a pair: its ids, and how many of them are the answer."""

    ids: list[int]
    answer: int


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tr.Corpus:
    folder, dice = tmp_path_factory.mktemp("pairs"), random.Random(5)
    rows = []
    for number in range(PAIRS):
        prompt, *answers = ("".join(dice.choices("abcdef", k=dice.randint(1, 12))) for _ in range(3))
        rows.append({"prompt": prompt, "chosen": f"{answers[0]}+{number}", "rejected": f"{answers[1]}-{number}"})
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tr.preference(folder / "in.jsonl", folder / "c", tokenizer="byte")
    return tr.open_corpus(folder / "c")


@pytest.fixture(scope="module")
def rows(corpus: tr.Corpus) -> list[list[Row]]:
    """The rows of each pair."""
    found = []
    for number in range(PAIRS):
        sides = [corpus.document(2 * number + side).tolist() for side in (0, 1)]
        opening = [ord(letter) for letter in "<|assistant|>\n"]
        ends = [next(i for i in range(len(ids)) if ids[i : i + len(opening)] == opening) for ids in sides]
        found.append([Row(ids, len(ids) - end - len(opening)) for ids, end in zip(sides, ends, strict=True)])
    return found


def served(rows: list[Row], max_length: int, cut: str) -> list[tuple[list[int], list[bool]]] | None:
    """Ids and mask of both rows of a pair as they should be, or None if it should be left out."""
    out = []
    for row in rows:
        if (cut == "prompt" and row.answer + 1 > max_length) or (cut == "drop" and len(row.ids) > max_length):
            return None
        mask = [False] * (len(row.ids) - row.answer) + [True] * row.answer
        here = slice(0, max_length) if cut == "right" else slice(max(0, len(row.ids) - max_length), None)
        out.append((row.ids[here], mask[here]))
    return out


def shows(batch: PairBatch, rows: list[list[Row]], max_length: int, cut: str) -> list[int]:
    """The pairs of a batch, each with both rows as they should be; filler is empty."""
    width = batch.ids.shape[2]
    for place, pair in enumerate(batch.sample_ids.tolist()):
        sides = [([], []), ([], [])] if pair < 0 else served(rows[pair], max_length, cut)
        assert sides is not None
        for side, (ids, mask) in enumerate(sides):
            size = len(ids)
            assert batch.lengths[side, place] == size
            assert batch.ids[side, place].tolist() == [*ids, *[256] * (width - size)]
            assert batch.mask[side, place].tolist() == [*mask, *[False] * (width - size)]
            assert cut == "right" or pair < 0 or any(mask[1:])
    kept = batch.mask.reshape(-1, width)[:, 1:]
    assert ((batch.targets != IGNORE) == kept).all()
    assert batch.num_targets == int(kept.sum())
    return [pair for pair in batch.sample_ids.tolist() if pair >= 0]


@pytest.mark.parametrize("history", range(30))
def test_every_pair_comes_once(corpus: tr.Corpus, rows: list[list[Row]], history: int) -> None:
    dice = random.Random(history)
    cut = dice.choice(("prompt", "drop", "right"))
    max_length = dice.choice((40, 46, 60) if cut == "drop" else (9, 12, 24, 38, 60))
    seed, epochs, order = dice.randrange(3), dice.choice((1, 2)), dice.choice(("shuffled", "sequential"))
    kept = [pair for pair in range(PAIRS) if served(rows[pair], max_length, cut) is not None]
    seen: list[int] = []
    text, left = "", True
    while left:
        global_batch, world_size = dice.randint(1, len(kept)), dice.choice((1, 2, 3))
        micro = dice.choice((None, 1, 2, 5))
        loaders = [
            PairLoader(
                corpus,
                max_length=max_length,
                cut=cut,
                global_batch=global_batch,
                micro_batch=micro,
                order=order,
                seed=seed,
                rank=rank,
                world_size=world_size,
                epochs=epochs,
                prefetch=history % 3,
            )
            for rank in range(world_size)
        ]
        for loader in loaders:
            if text:
                loader.load_state_dict(json.loads(text))
        streams = [iter(loader) for loader in loaders]
        for _ in range(dice.randint(1, 3)):
            step, states = [], set()
            for stream in streams:
                batches = [batch for _, batch in zip(range(loaders[0].micros_per_step), stream, strict=False)]
                assert len(batches) in (0, loaders[0].micros_per_step)
                step += [pair for batch in batches for pair in shows(batch, rows, max_length, cut)]
                states |= {json.dumps(batch.state) for batch in batches[-1:]}
            seen += step
            if not states:
                left = False
                break
            (text,) = states
            assert json.loads(text) == loaders[0].state_dict()
            assert len(text) < 256
    numbers = range(epochs * len(kept))
    places = [naive_order.row(g, len(kept), seed) if order == "shuffled" else g % len(kept) for g in numbers]
    assert seen == [kept[place] for place in places]


def test_what_is_left_out_is_counted(corpus: tr.Corpus, rows: list[list[Row]]) -> None:
    for max_length in (8, 12, 30, 45):
        loader = PairLoader(corpus, max_length=max_length, global_batch=1)
        sides = [served(pair, max_length, "prompt") for pair in rows]
        lost = [
            len(row.ids) - len(ids)
            for pair, made in zip(rows, sides, strict=True)
            if made is not None
            for row, (ids, _) in zip(pair, made, strict=True)
        ]
        assert loader.balance == {
            "pairs": PAIRS,
            "served": loader.num_pairs,
            "too-long": sides.count(None),
            "rows_cut": sum(1 for ids in lost if ids),
            "ids_cut": sum(lost),
        }
    shortest = min(max(row.answer for row in pair) for pair in rows) + 1
    assert PairLoader(corpus, max_length=shortest, global_batch=1).num_pairs >= 1
    with pytest.raises(LimitError, match=f"which no pair fits into.* has {shortest} ids"):
        PairLoader(corpus, max_length=shortest - 1, global_batch=1)


@pytest.mark.parametrize("ids", [1, 50, 400])
def test_masks_are_looked_at_in_blocks_of_any_size(
    corpus: tr.Corpus, rows: list[list[Row]], ids: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairloader, "BLOCK_IDS", ids)
    ends = corpus.doc_ends()
    found = ends - pairloader.answer_starts(corpus, np.append(0, ends[:-1]), ends)
    assert found.tolist() == [row.answer for pair in rows for row in pair]


def test_a_batch_of_any_step_and_a_run_once_more(corpus: tr.Corpus) -> None:
    loader = PairLoader(corpus, max_length=60, global_batch=4, micro_batch=2, pad="max_length", pad_id=9)
    first = list(loader)
    assert len(first) == 2 * (loader.num_steps or 0) == 6
    assert {batch.ids.shape for batch in first} == {(2, 2, 60)}
    assert first[-1].row_numbers.tolist() == [10, -1]
    assert (first[-1].ids[:, 1] == 9).all()
    assert [batch.row_numbers.tolist() for batch in first[:3]] == [[0, 1], [2, 3], [4, 5]]
    again = list(loader)
    assert [batch.step for batch in again] == [3, 3, 4, 4, 5, 5]
    assert [n for batch in again for n in batch.row_numbers.tolist() if n >= 0] == list(range(11, 22))
    fresh = PairLoader(corpus, max_length=60, global_batch=4, micro_batch=2, pad="max_length", pad_id=9)
    for batch in first:
        twin = fresh.batch(batch.step, batch.micro)
        assert twin.ids.tolist() == batch.ids.tolist()
        assert twin.state == batch.state
    with pytest.raises(LimitError, match="step, micro: got 3, 0"):
        fresh.batch(3)


def test_made_ahead_or_not_and_divided_or_not_it_is_one_run(corpus: tr.Corpus) -> None:
    def make(**options: object) -> PairLoader:
        given: dict[str, Any] = {"max_length": 60, "global_batch": 4, "micro_batch": 1, "epochs": 3, **options}
        return PairLoader(corpus, **given)

    whole = [(batch.ids.tolist(), batch.state) for batch in make(prefetch=0)]
    for prefetch in (1, 7, 100):
        assert [(batch.ids.tolist(), batch.state) for batch in make(prefetch=prefetch)] == whole
    loader = make()
    begun = iter(loader)
    for _ in range(6):
        state = next(begun).state
    for workers in (1, 2, 5):
        parts = [[batch.state for batch in loader.strided(first, workers)] for first in range(workers)]
        again = [[batch.state for batch in make().strided(first, workers, state)] for first in range(workers)]
        assert parts == again == [[state for _, state in whole[4 + first :: workers]] for first in range(workers)]
    assert loader.state_dict() == state == whole[3][1]
    assert [(batch.ids.tolist(), batch.state) for batch in begun] == whole[6:]


def test_a_loop_ends_when_another_begins_or_a_state_is_loaded(corpus: tr.Corpus) -> None:
    loader = PairLoader(corpus, max_length=60, global_batch=1)
    for another in (True, False):
        old = iter(loader)
        next(old)
        if another:
            next(iter(loader))
        else:
            loader.load_state_dict(loader.state_dict())
        with pytest.raises(InputError, match="loader: got another loop or state since this loop began"):
            next(old)
    for _ in loader:
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "tokenriver-prefetch"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"prefetch": -1}, "prefetch: got -1, expected an integer from 0"),
        ({"cut": "left"}, "cut: got 'left', expected one of prompt, drop, right"),
        ({"pad": "left"}, "pad: got 'left', expected one of batch, max_length"),
        ({"max_length": 1}, "max_length: got 1"),
        ({"global_batch": 0}, "global_batch: got 0"),
        ({"micro_batch": 0}, "micro_batch: got 0"),
        ({"epochs": 0}, "epochs: got 0"),
        ({"rank": 1}, "rank, world_size: got 1, 1"),
        ({"order": "llmc"}, "order: got 'llmc'"),
    ],
)
def test_options_that_make_no_sense(corpus: tr.Corpus, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        PairLoader(corpus, **{"max_length": 60, "global_batch": 2, **options})
    with pytest.raises(LimitError, match="global_batch: got 12, expected 1 to 11, the samples of one epoch"):
        PairLoader(corpus, max_length=60, global_batch=12)


def test_a_state_of_another_run_is_refused(corpus: tr.Corpus) -> None:
    state = PairLoader(corpus, max_length=60, global_batch=2).state_dict()
    others: list[tuple[str, dict[str, Any]]] = [("packing", {"max_length": 50}), ("packing", {"cut": "drop"})]
    for part, options in [*others, ("seed", {"seed": 1})]:
        other = PairLoader(corpus, **{"max_length": 60, "global_batch": 2, **options})
        with pytest.raises(MismatchError, match=f"state: {part}"):
            other.load_state_dict(state)
        with pytest.warns(UserWarning, match=part) as warned:
            other.load_state_dict(state, allow=[part])
        assert warned[0].filename == __file__, "the warning names the line that allows it"
    with pytest.raises(InputError, match="state: got"):
        PairLoader(corpus, max_length=60, global_batch=2).load_state_dict({"v": 1})


def test_a_corpus_of_documents_is_refused(tmp_path: Path, quick_disk: None) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "abc"}\n')
    tr.build(tmp_path / "a.jsonl", tmp_path / "c", tokenizer="byte")
    with pytest.raises(InputError, match="got no corpus of pairs"):
        PairLoader(tr.open_corpus(tmp_path / "c"), max_length=8, global_batch=1)


def test_a_corpus_that_lacks_a_row_is_refused(tmp_path: Path, quick_disk: None) -> None:
    lengths, mask = np.array([2, 3, 2]), np.array([False, True, False, True, True, False, True])
    plan = {"kind": "preference", "rows_per_sample": 2}
    with write_examples(tmp_path / "c", plan, dtype="uint16") as writer:
        assert isinstance(writer, ExampleWriter)
        batch = TokenBatch(np.arange(7, dtype=np.uint32), lengths, mask)
        writer.add("train", batch, np.zeros(3, np.int64), np.zeros(3, np.int32))
        source = SourceInfo("a.jsonl", 1, None, "jsonl", "", 1)
        writer.commit(tokenizer=tokenizer_info(tr.load_tokenizer("byte")), sources=[source], balance={})
    with pytest.raises(FormatError, match="documents: got 3, expected 2 for each pair"):
        PairLoader(tr.open_corpus(tmp_path / "c"), max_length=8, global_batch=1)
