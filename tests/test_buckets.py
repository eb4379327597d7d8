import copy
import itertools
import json
import pickle
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenriver as tr
from rivers import ArrayRiver
from small_corpora import make_corpus
from tokenriver import bucketrun, registry
from tokenriver.batch import Batch, Ring
from tokenriver.buckets import Bucket, lay_buckets
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.ledger import compare, read_ledger
from tokenriver.loader import Loader
from tokenriver.types import Buckets

LENGTHS = [3, 9, 5, 2, 4, 17, 3, 1, 30, 8]
RIVER = ArrayRiver(sum(LENGTHS), LENGTHS)
"""Rows of 2, 8, 4, 1, 3, 16, 2, 16, 13 and 7 positions at seq_len 16."""


def make(asked: dict[str, Any] | None = None, **options: object) -> Loader:
    given: dict[str, Any] = {"seq_len": 16, "packing": "document", "seed": 1, "prefetch": 0, **options}
    return Loader(RIVER, packing_options=asked or {"buckets": [4, 8], "max_tokens_per_batch": 16}, **given)


def shown(batch: Batch) -> tuple[int, int, list[int], list[list[int]]]:
    return batch.step, batch.micro, batch.sample_ids.tolist(), batch.targets.tolist()


def test_buckets_of_a_budget() -> None:
    loader = make()
    assert loader.buckets == (Bucket(4, 5, 2, 3, 8), Bucket(8, 2, 1, 2, 1), Bucket(16, 3, 3, 1, 3))
    assert [bucket.filler for bucket in loader.buckets] == [1, 0, 0]
    assert (loader.num_rows, loader.steps_per_epoch, loader.num_steps) == (10, 6, 6)
    assert sorted(batch.input_ids.shape for batch in loader) == [(1, 16)] * 3 + [(2, 8)] + [(3, 4)] * 2
    assert "document T=16 split buckets 3x4, 2x8, 1x16" in repr(loader)
    assert Loader(RIVER, seq_len=16, global_batch=1, packing="document").buckets == ()


def test_rows_are_bounded_by_batch_and_budget() -> None:
    alone = {"buckets": [4, 8]}
    assert [bucket.step_rows for bucket in make(alone, global_batch=2).buckets] == [2, 2, 2]
    both = {**alone, "max_tokens_per_batch": 24}
    assert [bucket.step_rows for bucket in make(both, global_batch=4).buckets] == [3, 2, 1]
    assert [bucket.step_rows for bucket in make(both, global_batch=1).buckets] == [1, 1, 1]
    assert [bucket.step_rows for bucket in make(both).buckets] == [5, 2, 1]
    # more rows than a bucket has are no error: a batch has none twice
    assert [bucket.step_rows for bucket in make(alone, global_batch=1_000).buckets] == [5, 2, 3]


def test_sequential_is_bucket_by_bucket() -> None:
    rows = [batch.sample_ids.tolist() for batch in make(order="sequential")]
    assert rows == [[0, 2, 3], [4, 6, -1], [1, 9], [5], [7], [8]]


def test_a_budget_alone_has_eight_buckets_at_most() -> None:
    sizes = list(range(2, 42))
    river = ArrayRiver(sum(sizes), sizes)
    options: dict[str, Any] = {"seq_len": 50, "packing": "document", "prefetch": 0}
    loader = Loader(river, packing_options={"max_tokens_per_batch": 400}, **options)
    assert len(loader.buckets) == 8
    # none is wider than its longest row, nor than it need be
    assert loader.buckets[-1].width == 40
    many = Loader(river, packing_options={"buckets": 1_000, "max_tokens_per_batch": 400}, **options)
    assert (len(many.buckets), sum(bucket.padding for bucket in many.buckets)) == (40, 0)


def test_padding_is_a_small_part_of_that_of_one_width() -> None:
    dice = random.Random(1)
    sizes = [2 + int(dice.lognormvariate(5.5, 0.9)) for _ in range(3_000)]
    river = ArrayRiver(sum(sizes), sizes)
    options: dict[str, Any] = {"seq_len": 1024, "packing": "document", "prefetch": 0}
    plain = Loader(river, global_batch=1, **options)
    targets = sum(bucket.rows * bucket.width - bucket.padding for bucket in _buckets(river, 1, options))
    shares = {}
    for number in (1, 2, 8, 16):
        buckets = _buckets(river, number, options)
        assert sum(bucket.rows * bucket.width - bucket.padding for bucket in buckets) == targets
        positions = sum(bucket.steps * bucket.step_rows * bucket.width for bucket in buckets)
        shares[number] = 1 - targets / positions
    assert 1 - targets / (plain.num_rows * 1024) > 0.6
    assert shares[1] > shares[2] > shares[8] > shares[16]
    assert shares[8] < 0.15


def _buckets(river: ArrayRiver, number: int, options: dict[str, Any]) -> tuple[Bucket, ...]:
    asked = {"buckets": number, "max_tokens_per_batch": 65_536}
    return Loader(river, packing_options=asked, **options).buckets


def test_micro_batches_are_counted_in_positions() -> None:
    loader = make({"buckets": [4, 8], "max_tokens_per_batch": 64}, micro_batch=1)
    assert [bucket.step_rows for bucket in loader.buckets] == [5, 2, 3]
    shapes = [(batch.step, batch.micro, batch.input_ids.shape) for batch in loader]
    by_width = {shape[1]: (shape, micro + 1) for _, micro, shape in shapes}
    assert by_width == {4: ((4, 4), 2), 8: ((2, 8), 1), 16: ((1, 16), 3)}
    assert len(shapes) == 6
    assert loader.batch(0).input_ids.shape == shapes[0][2]
    with pytest.raises(LimitError, match="micro: got 3, expected 0 to"):
        loader.batch(0, 3)


def test_rows_steps_and_their_numbers_both_ways() -> None:
    packing = registry.load("packing", "document").pack(RIVER, seq_len=16)
    order = lay_buckets(packing, Buckets((4, 8, 16), 16), 1_000, "shuffled", 3)
    assert (order.num_rows, order.num_steps) == (10, 6)
    numbers = np.arange(40, dtype=np.int64)
    rows, epochs = order.locate(numbers)
    assert order.numbers(rows, epochs).tolist() == numbers.tolist()
    assert epochs.tolist() == [g // 10 for g in range(40)]
    backwards = order.locate(numbers[::-1])[0]
    assert backwards.tolist() == rows.tolist()[::-1]
    begins = [order.row(step) for step in range(24)]
    assert [order.steps_upto(row) for row in begins] == list(range(24))
    assert [order.steps_upto(row + 1) for row in begins] == list(range(1, 25))
    for step, (begin, end) in enumerate(itertools.pairwise(begins)):
        bucket, first, count = order.step(step)
        assert (first, first + count) == (begin, end)
        sizes = packing.spans(rows[begin:end], 0)
        assert (sizes[2] - sizes[1] - 1).max() <= order.buckets[bucket].width


def test_buffers_of_a_width_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []

    def ring(shape: tuple[int, int], limit: int) -> Ring:
        made.append(shape)
        return Ring(shape, limit)

    monkeypatch.setattr(bucketrun, "Ring", ring)
    assert len(list(make(epochs=5))) == 30
    assert sorted(made) == [(1, 17), (2, 9), (3, 5)]


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        ({"max_tokens_per_batch": 15}, LimitError, "got 15, expected at least 16, one row of the widest"),
        ({"max_tokens_per_batch": 0}, InputError, "max_tokens_per_batch: got 0, expected an integer from 1"),
        ({"max_tokens_per_batch": 2.5}, InputError, "max_tokens_per_batch: got 2.5"),
        (
            {"buckets": [4, 4], "max_tokens_per_batch": 64},
            InputError,
            "got 4 behind 4, expected widths from 1 that rise",
        ),
        ({"buckets": [8, 4], "max_tokens_per_batch": 64}, InputError, "got 4 behind 8"),
        ({"buckets": [0, 4], "max_tokens_per_batch": 64}, InputError, "got 0 behind 0"),
        ({"buckets": [4, 17], "max_tokens_per_batch": 64}, InputError, "got 17, expected at most seq_len 16"),
        ({"buckets": 0, "max_tokens_per_batch": 64}, InputError, "buckets: got 0, expected an integer from 1"),
        ({"buckets": True, "max_tokens_per_batch": 64}, InputError, "buckets: got True"),
        ({"buckets": [], "max_tokens_per_batch": 64}, InputError, r"buckets: got \[\]"),
        ({"buckets": "8", "max_tokens_per_batch": 64}, InputError, "buckets: got '8'"),
        ({"buckets": [4.0], "max_tokens_per_batch": 64}, InputError, r"buckets: got \[4.0\]"),
        ({"buckets": 4}, InputError, "global_batch: got None"),
        ({"bucket": 4}, InputError, "got 'bucket' for packing 'document', expected buckets, max_tokens_per_batch"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make(asked, global_batch=None if "bucket" not in asked else 1)


def test_a_budget_need_not_hold_a_width_without_rows() -> None:
    lengths = [3, 5, 2]
    asked = {"buckets": [4, 8], "max_tokens_per_batch": 8}
    loader = Loader(ArrayRiver(10, lengths), seq_len=16, packing="document", packing_options=asked)
    assert [bucket.width for bucket in loader.buckets] == [4]


def test_what_does_not_go_with_buckets_is_refused(tmp_path: Path) -> None:
    asked = {"buckets": [4], "max_tokens_per_batch": 64}
    with pytest.raises(InputError, match="'buckets' for packing 'concat'"):
        Loader(RIVER, seq_len=4, global_batch=1, packing_options=asked)
    with pytest.raises(InputError, match="schedule: got one beside buckets"):
        make(asked, schedule=[(1, {"global_batch": 2})])
    with pytest.raises(InputError, match="buckets: got them with a mixture"):
        Loader(tr.Mixture({"a": (RIVER, 1.0)}), seq_len=16, packing="document", packing_options=asked)
    loader = make()
    with pytest.raises(InputError, match="run log: got a run in buckets"):
        loader.log_start(tmp_path / "log")


def test_a_step_again_and_again_has_no_places_and_no_way_on() -> None:
    loader = make(repeat_batch=2, steps=3)
    assert [batch.row_numbers.tolist() for batch in loader] == [make().batch(2).row_numbers.tolist()] * 3
    assert loader.num_steps == 3
    assert make(repeat_batch=0).num_steps == 6
    assert make(repeat_batch=8).batch(0).sample_ids.tolist() == make(epochs=2).batch(8).sample_ids.tolist()
    with pytest.raises(InputError, match="run log: got a run with repeat_batch"):
        _ = loader.places
    with pytest.raises(InputError, match="state: row: got 0 at step 3, expected"):
        make().load_state_dict(loader.state_dict())


def test_there_is_no_place_before_the_run() -> None:
    places = make().places
    with pytest.raises(LimitError, match="step: got -1, expected 0 or more"):
        places.rows(-1)
    with pytest.raises(LimitError, match="row_number: got -1, expected 0 or more"):
        places.place(-1)


# ------------------------------------------------------------------------------------------------- state


@pytest.mark.parametrize(
    ("asked", "global_batch"),
    [
        ({"buckets": [4, 9], "max_tokens_per_batch": 16}, None),
        ({"buckets": [8], "max_tokens_per_batch": 16}, None),
        ({"buckets": [4, 8], "max_tokens_per_batch": 20}, None),
        ({"buckets": [4, 8], "max_tokens_per_batch": 16}, 1),
        (None, 2),
    ],
)
def test_other_batches_are_refused_by_name(asked: dict[str, Any] | None, global_batch: int | None) -> None:
    state = next(iter(make())).state
    other = Loader(
        RIVER, seq_len=16, packing="document", packing_options=asked, global_batch=global_batch, seed=1, prefetch=0
    )
    with pytest.raises(MismatchError, match=r"state: packing: got tag \d+, expected \d+ of 'document T=16 split"):
        other.load_state_dict(state)


def test_options_that_make_the_same_batches_are_welcome() -> None:
    """Widths without a row, a larger bound that bounds nothing, ranks, micro-batches, run length."""
    first = make()
    stream = iter(first)
    states = [next(stream).state for _ in range(2)]
    expected = [shown(batch) for batch in stream]
    for options in (
        {"asked": {"buckets": [4, 8, 16], "max_tokens_per_batch": 17}},
        {"global_batch": 4},
        {"epochs": 1, "prefetch": 3},
    ):
        other = make(**options)
        other.load_state_dict(json.loads(json.dumps(states[-1])))
        assert [shown(batch) for batch in other] == expected


def test_from_a_state_backwards_and_forwards() -> None:
    asked = {"buckets": [4, 8], "max_tokens_per_batch": 64}
    options: dict[str, Any] = {"epochs": 3, "micro_batch": 1}
    whole = [shown(batch) for batch in make(asked, **options)]
    states = [batch.state for batch in make(asked, **options)]
    assert len(whole) == 18
    for at in (2, 7, 13):
        loader = make(asked, **options)
        loader.load_state_dict(states[at])
        step = loader.state_dict()["step"]
        assert [shown(batch) for batch in loader.strided(0, 1)] == [batch for batch in whole if batch[0] >= step]
        assert [shown(loader.batch(*batch[:2])) for batch in whole] == whole
        loader.skip(1)
        assert loader.state_dict()["step"] == step + 1
        assert [shown(batch) for batch in loader] == [batch for batch in whole if batch[0] > step]


def test_a_place_that_is_no_steps_begin_is_refused() -> None:
    loader = make()
    state = {**loader.state_dict(), "row": 4, "step": 1}
    with pytest.raises(
        InputError, match=r"state: row: got 4 at step 1, expected [0-3], as this loader's buckets have it"
    ):
        loader.load_state_dict(state)


def test_a_finished_run_stays_finished_and_goes_on_when_looped_again() -> None:
    loader = make(order="sequential")
    first = [shown(batch)[2:] for batch in loader]
    state = loader.state_dict()
    assert (state["step"], state["row"]) == (6, 10)
    other = make(order="sequential")
    other.load_state_dict(state)
    assert list(other) == []
    assert other.state_dict() == state
    again = [shown(batch) for batch in loader]
    assert [batch[2:] for batch in again] == first
    assert [batch[0] for batch in again] == list(range(6, 12))
    longer = make(order="sequential", epochs=2)
    longer.load_state_dict(state)
    assert [shown(batch) for batch in longer] == again


def test_a_run_of_so_many_steps_goes_through_epochs() -> None:
    """Each epoch has every row once, in other batches."""
    loader = make(steps=18)
    assert loader.num_steps == 18
    rows = [batch.sample_ids.tolist() for batch in loader]
    epochs = [[row for step in rows[at : at + 6] for row in step if row >= 0] for at in (0, 6, 12)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert make(epochs=None).num_steps is None
    assert make(epochs=None).batch(1_000).step == 1_000


def test_a_prefetch_thread_changes_nothing_and_batches_travel() -> None:
    expected = [shown(batch) for batch in make(epochs=2)]
    loader = make(epochs=2, prefetch=3)
    kept = list(loader)
    assert [shown(batch) for batch in kept] == expected
    again = pickle.loads(pickle.dumps(kept[3]))
    assert shown(again) == expected[3]
    assert (again.state, again.num_targets) == (kept[3].state, kept[3].num_targets)
    moved = pickle.loads(pickle.dumps(make(epochs=2)))
    assert [shown(batch) for batch in moved] == expected
    parts = [list(copy.copy(make(epochs=2)).strided(worker, 3)) for worker in range(3)]
    dealt = [shown(parts[at % 3][at // 3]) for at in range(len(expected))]
    assert dealt == expected


def test_ledgers_of_different_ranks_agree(tmp_path: Path) -> None:
    found = []
    for ranks, micro in ((1, None), (3, 1)):
        folder = tmp_path / str(ranks)
        for rank in range(ranks):
            for _ in make(rank=rank, world_size=ranks, micro_batch=micro, ledger=folder):
                pass
        found.append(read_ledger(folder))
    assert compare(*found).parted is None
    assert (len(found[0]), sum(step.rows for step in found[0].values())) == (6, 10)


def test_a_corpus_on_disk_with_masks(tmp_path: Path) -> None:
    documents = [[*range(10, 10 + size - 1), 50256] for size in LENGTHS]
    make_corpus(tmp_path / "corpus", {"train": [documents[:4], documents[4:]]})
    corpus = tr.open_corpus(tmp_path / "corpus")
    options: dict[str, Any] = {"seq_len": 16, "packing": "document", "seed": 1, "prefetch": 0, "mask_eos": True}
    plain = {int(batch.sample_ids[0]): batch for batch in Loader(corpus, global_batch=1, **options)}
    asked = {"buckets": 2, "max_tokens_per_batch": 48}
    loader, seen = tr.Loader(corpus, packing_options=asked, **options), 0
    for batch in loader:
        width = batch.input_ids.shape[1]
        for line, sample in enumerate(batch.sample_ids.tolist()):
            if sample >= 0:
                expected = plain[sample]
                for name in ("input_ids", "targets", "document_ids"):
                    assert getattr(batch, name)[line].tolist() == getattr(expected, name)[0, :width].tolist(), name
                    assert len(set(getattr(expected, name)[0, width:].tolist())) <= 1, "padding alone is left out"
                seen += 1
    assert seen == loader.num_rows == len(plain)
    assert loader.balance == {"river": 82, "served": 81, "too_short": 1, "cut": 0, "dropped": 0}


def test_the_examples_of_the_document() -> None:
    document = Path(__file__).resolve().parent.parent / "docs" / "packing.md"
    (example,) = re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    sizes = [2 + place % 600 for place in range(0, 30_000, 7)]
    names: dict[str, Any] = {"tr": tr, "corpus": ArrayRiver(sum(sizes), sizes)}
    exec(example, names)
    batch = names["loader"].batch(0)
    assert batch.input_ids.size <= 65_536
    assert np.array_equal(batch.loss_mask, batch.targets != tr.IGNORE)
