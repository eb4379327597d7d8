import json
import pickle
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import tokenriver as tr
from rivers import ArrayRiver, HugeRiver
from tokenriver.batch import Batch
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.loader import Loader
from tokenriver.mixing import Mixture
from tokenriver.schedule import Pace, read_changes
from tokenriver.types import River

BLOCKS = ArrayRiver(41)
"""Ten blocks of four ids."""


def make(river: River | Mixture = BLOCKS, **options: object) -> Loader:
    given: dict[str, Any] = {"seq_len": 4, "global_batch": 2, "order": "sequential", "prefetch": 0, **options}
    return Loader(river, **given)


def firsts(loader: Loader) -> list[list[int]]:
    """The first id of each row, -1 for filler, by batch."""
    return [np.where(batch.row_numbers < 0, -1, batch.input_ids[:, 0]).tolist() for batch in loader]


def same(got: Batch, expected: Batch) -> None:
    for name in ("input_ids", "targets", "row_numbers", "sample_ids", "source_ids"):
        assert np.array_equal(getattr(got, name), getattr(expected, name)), name
    assert got.state == expected.state


def test_sizes_change_at_their_steps() -> None:
    loader = make(
        epochs=2, schedule=[(1, {"global_batch": 4}), (3, {"seq_len": 2, "micro_batch": 3}), (5, {"seq_len": 4})]
    )
    shapes = [(batch.step, batch.micro, batch.input_ids.shape) for batch in loader]
    assert shapes[:5] == [(0, 0, (2, 4)), (1, 0, (4, 4)), (2, 0, (4, 4)), (3, 0, (3, 2)), (3, 1, (3, 2))]
    assert shapes[5:] == [
        (4, 0, (3, 2)),
        (4, 1, (3, 2)),
        (5, 0, (3, 4)),
        (5, 1, (3, 4)),
        (6, 0, (3, 4)),
        (6, 1, (3, 4)),
    ]


def test_the_example_of_the_document() -> None:
    document = Path(__file__).resolve().parent.parent / "docs" / "schedules.md"
    (example,) = re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"tr": tr, "corpus": ArrayRiver(256 * 60 + 1)}
    exec(example, names)
    shapes = [batch.input_ids.shape for batch in names["loader"]]
    assert shapes == [(8, 64)] * 6 + [(16, 64)] * 4 + [(8, 256)] * 4


def test_by_hand() -> None:
    loader = make(seq_len=2, schedule=[(2, {"seq_len": 4, "global_batch": 3})])
    assert firsts(loader) == [[0, 2], [4, 6], [8, 12, 16], [20, 24, 28], [32, 36, -1]]
    # two blocks as four rows, then eight as one row each
    assert (loader.num_rows, loader.steps_per_epoch, loader.num_steps) == (12, 5, 5)
    assert loader.balance == {"river": 41, "served": 41, "unused": 0}
    longer = make(seq_len=2, schedule=[(2, {"seq_len": 4, "global_batch": 3})], epochs=2)
    assert (longer.num_rows, longer.num_steps) == (12, 8)
    assert firsts(longer)[4:6] == [[32, 36, 0], [4, 8, 12]]
    assert "concat T=4 cut in 2; from row 4 concat T=4" in repr(longer)


def test_what_changes_nothing_is_no_change() -> None:
    plain = make(order="shuffled")
    idle = make(order="shuffled", schedule=[(1, {}), (2, {"seq_len": 4}), (3, {"global_batch": 2, "seq_len": 4})])
    for got, expected in zip(idle, plain, strict=True):
        same(got, expected)
    assert make(schedule=[]).state_dict() == make(schedule=None).state_dict() == make().state_dict()


def test_the_longest_length_is_served_as_without_a_schedule() -> None:
    """Where rows are whole blocks the order is that of the blocks."""
    plain = [row for batch in make(order="shuffled", epochs=2) for row in batch.sample_ids.tolist()]
    scheduled = make(order="shuffled", epochs=2, schedule=[(3, {"seq_len": 1, "global_batch": 8})])
    assert [row for batch in list(scheduled)[:3] for row in batch.sample_ids.tolist()] == plain[:6]


def test_parts_of_blocks_are_mixed() -> None:
    loader = make(
        ArrayRiver(4 * 200 + 1), seq_len=1, global_batch=20, order="shuffled", schedule=[(30, {"seq_len": 4})]
    )
    rows = [row for batch in list(loader)[:30] for row in batch.input_ids[:, 0].tolist()]
    assert len(set(rows)) == 600
    assert sum(b - a == 1 for a, b in pairwise(rows)) < 10


def test_a_long_segment_is_a_permutation() -> None:
    """Where the second order is a network and not a sort."""
    river = ArrayRiver(4 * 40_000 + 1)
    loader = make(river, seq_len=1, global_batch=4_000, order="shuffled", schedule=[(30, {"seq_len": 4})], epochs=2)
    times = np.zeros(4 * 40_000, np.int64)
    for batch in loader:
        starts = batch.input_ids[batch.row_numbers >= 0, 0]
        for offset in range(batch.input_ids.shape[1]):
            np.add.at(times, starts + offset, 1)
    assert times.min() == times.max() == 2
    assert loader.num_rows == 120_000 + 10_000


def test_the_phase_of_an_epoch_is_that_of_its_blocks() -> None:
    options: dict[str, Any] = {"phase_shift": True, "epochs": 3, "seed": 5}
    shifts = [firsts(make(ArrayRiver(44), **options))[5 * epoch][0] for epoch in range(3)]
    got = [
        row
        for rows in firsts(make(ArrayRiver(44), seq_len=2, schedule=[(20, {"seq_len": 4})], **options))
        for row in rows
    ]
    expected = [shifts[epoch] + 2 * row for epoch in range(2) for row in range(20)]
    assert got == expected + [shifts[2] + 4 * row for row in range(10)]
    assert len(set(shifts)) > 1


def test_a_batch_of_any_leg_travels() -> None:
    for batch in make(order="shuffled", schedule=[(2, {"seq_len": 2, "global_batch": 4}), (4, {"global_batch": 1})]):
        same(pickle.loads(pickle.dumps(batch)), batch)


def test_endless_and_counted_runs() -> None:
    loader = make(HugeRiver(10**12), seq_len=512, global_batch=64, epochs=None, schedule=[(10**6, {"seq_len": 2048})])
    assert loader.num_steps is None
    assert loader.batch(10**6 - 1).input_ids.shape == (64, 512)
    assert loader.batch(10**9).input_ids.shape == (64, 2048)
    loader.skip(10**6)
    assert loader.state_dict()["row"] == 64 * 10**6
    assert next(iter(loader)).input_ids.shape == (64, 2048)
    counted = make(steps=7, schedule=[(5, {"global_batch": 1})])
    assert [len(rows) for rows in firsts(counted)] == [2, 2, 2, 2, 2, 1, 1]
    assert make(steps=3, schedule=[(5, {"global_batch": 1})]).num_steps == 3


def test_a_change_at_the_very_end_or_later_is_none() -> None:
    for step in (2, 3, 9):
        loader = make(global_batch=7, schedule=[(step, {"global_batch": 1})])
        assert [len(rows) for rows in firsts(loader)] == [7, 7]
        assert (loader.num_steps, loader.state_dict()["row"], loader.state_dict()["step"]) == (2, 10, 2)


def test_a_size_a_step() -> None:
    loader = make(schedule=[(step, {"global_batch": step + 1}) for step in range(2, 5)], prefetch=2)
    assert [len(rows) for rows in firsts(loader)] == [2, 2, 3, 4]
    assert loader.state_dict()["row"] == 10


# --------------------------------------------------------------------------------------------- state


def test_lengths_are_in_the_state_and_batch_sizes_are_not() -> None:
    schedule = [(2, {"seq_len": 2})]
    state = make(schedule=schedule).batch(0).state
    assert len(json.dumps(state)) < 256
    for options in ({}, {"schedule": [(3, {"seq_len": 2})]}, {"schedule": [(2, {"seq_len": 1})]}):
        with pytest.raises(MismatchError, match=r"^state: packing: got tag \d+, expected \d+ of 'concat T=4"):
            make(**cast("dict[str, Any]", options)).load_state_dict(state)
    # the length changes at the same row, after other batches
    finer = make(global_batch=1, schedule=[(2, {"global_batch": 2}), (3, {"seq_len": 2, "global_batch": 4})])
    finer.load_state_dict(make(schedule=schedule).state_dict())
    assert firsts(finer) == [[0], [4], [8, 12], [16, 18, 20, 22], *[[i, i + 2, i + 4, i + 6] for i in (24, 32)]]


def test_a_state_of_other_batch_sizes_is_refused_while_a_length_may_change() -> None:
    schedule = [(2, {"seq_len": 2})]
    other = make(global_batch=1, schedule=[(4, {"global_batch": 2, "seq_len": 2})])
    loader = make(schedule=schedule)
    with pytest.raises(InputError, match=r"^state: row: got 1 at step 1, expected 2, as this loader's schedule"):
        loader.load_state_dict(other.batch(0).state)
    assert loader.state_dict() == make(schedule=schedule).state_dict()
    # behind the last change the row alone counts, as in any run
    loader.load_state_dict(other.batch(4).state)
    assert firsts(loader) == [[20, 22], [24, 26], [28, 30], [32, 34], [36, 38]]
    with pytest.raises(InputError, match=r"the loaded state took 6 rows in 5 steps"):
        loader.batch(2)


# ------------------------------------------------------------------------------ packings and mixtures


def test_other_packings_change_at_the_end_of_an_epoch() -> None:
    river = ArrayRiver(40, [9, 3, 5, 9, 6, 8])
    for packing in ("document", "best_fit", "sliding"):
        rows = {length: make(river, seq_len=length, global_batch=1, packing=packing).num_rows for length in (4, 8)}
        first, rest = rows[4] // 2, rows[4] - rows[4] // 2
        schedule = [(1, {"global_batch": rest}), (2, {"seq_len": 8, "global_batch": 1})]
        loader = make(river, global_batch=first, packing=packing, order="shuffled", schedule=schedule, epochs=3)
        assert (loader.num_rows, loader.num_steps) == (rows[4], 2 + 2 * rows[8])
        batches = list(loader)
        ids = sorted(sample for batch in batches[:2] for sample in batch.sample_ids.tolist())
        assert ids == list(range(rows[4]))
        for epoch in (0, 1):
            part = batches[2 + epoch * rows[8] : 2 + (epoch + 1) * rows[8]]
            assert sorted(batch.sample_ids.item() for batch in part) == list(range(rows[8]))
        # an epoch keeps its own order, whatever the length of those before it
        plain = list(make(river, seq_len=8, global_batch=1, packing=packing, order="shuffled", epochs=3))
        for got, expected in zip(batches[2:], plain[rows[8] :], strict=True):
            assert got.input_ids.tolist() == expected.input_ids.tolist()
        with pytest.raises(InputError, match=rf"expected a multiple of {rows[4]}, .* change it at step {rows[4]}, or"):
            make(river, global_batch=1, packing=packing, schedule=[(1, {"seq_len": 8})], epochs=2)


def test_mixtures_are_cut_source_by_source() -> None:
    rivers = {"a": (ArrayRiver(41), 1), "b": (ArrayRiver((np.arange(81) + 1000).tolist()), 2)}
    for exhausted, run in (("repeat", {"steps": 30}), ("renormalise", {})):
        mixture = Mixture(cast("Any", rivers), unit="rows", exhausted=exhausted)
        options: dict[str, Any] = {"order": "shuffled", "global_batch": 6, "schedule": [(4, {"seq_len": 4})], **run}
        loader = make(mixture, seq_len=2, **options)
        seen: list[int] = []
        for batch in loader:
            filled = batch.row_numbers >= 0
            width = batch.input_ids.shape[1]
            begins = batch.input_ids[filled, 0]
            assert (begins // 1000 == batch.source_ids[filled]).all()
            assert (begins % 1000 == batch.sample_ids[filled] * width).all()
            seen += [int(begin) + offset for begin in begins for offset in range(width)]
        if exhausted == "renormalise":
            assert sorted(seen) == [*range(40), *range(1000, 1080)]
            assert loader.num_rows == 24 + 18
    curriculum = Mixture(cast("Any", rivers), curriculum=[(8, {"a": 2, "b": 1})])
    with pytest.raises(InputError, match=r"^curriculum: got one, .* beside changes of seq_len"):
        make(curriculum, seq_len=2, steps=9, schedule=[(4, {"seq_len": 4})])
    assert make(curriculum, steps=9, schedule=[(4, {"global_batch": 4})]).num_steps == 9


def test_a_mixture_that_repeats_has_no_end_of_an_epoch() -> None:
    mixture = Mixture({"a": (ArrayRiver(41, [20, 21]), 1)})
    with pytest.raises(InputError, match=r"^schedule: seq_len: got changes in a mixture that repeats"):
        make(mixture, packing="document", steps=9, schedule=[(4, {"seq_len": 8})])


# --------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ([(0, {"global_batch": 3})], r"^schedule: step: got 0, expected an integer from 1"),
        ([(2.5, {"global_batch": 3})], r"^schedule: step: got 2.5, expected an integer"),
        ([(3, {"global_batch": 3}), (3, {"global_batch": 4})], r"^schedule: step: got 3 behind 3, expected steps that"),
        ([(3, {"batch": 3})], r"^schedule: step 3: got 'batch', expected one of global_batch, seq_len, micro_batch"),
        ([(3, {"global_batch": 0})], r"^schedule: step 3: global_batch: got 0, expected an integer from 1"),
        ([(3, {"seq_len": True})], r"^schedule: step 3: seq_len: got True, expected an integer from 1"),
        (3, r"^schedule: got 3, expected a list of"),
        ({3: {"seq_len": 2}}, r"^schedule: got \{3: .*, expected a list of"),
        ([3], r"^schedule: got 3, expected \(step, \{name: size\}\)"),
        ([(3, 4)], r"^schedule: got \(3, 4\), expected"),
        ([(3, {"seq_len": 3})], r"^schedule: seq_len: got 3, expected a divisor of 4, the longest"),
    ],
)
def test_what_is_no_schedule_is_refused(schedule: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(schedule=schedule)


def test_a_length_changes_between_blocks_and_the_nearest_steps_are_named() -> None:
    options: dict[str, Any] = {"seq_len": 1, "global_batch": 3, "epochs": 4}
    with pytest.raises(InputError) as error:
        make(schedule=[(3, {"seq_len": 4})], **options)
    assert str(error.value) == (
        "schedule: step 3: seq_len: got a change 9 rows after the last, expected a multiple of 4, the rows of a whole "
        "block or epoch; change it at step 4, or give step 2 a global_batch of 2"
    )
    with pytest.raises(InputError, match=r"change it at step 4 or 8, or give step 4 a global_batch of 4"):
        make(schedule=[(5, {"seq_len": 4})], seq_len=1, global_batch=3, epochs=4)
    with pytest.raises(InputError, match=r"block or epoch; give step 4 a global_batch of 1"):
        make(schedule=[(1, {"global_batch": 4}), (5, {"seq_len": 4})], seq_len=1, global_batch=3, epochs=4)
    # the way out that the message names
    for cured in ([(4, {"seq_len": 4})], [(2, {"global_batch": 2}), (3, {"global_batch": 3, "seq_len": 4})]):
        assert make(schedule=cured, **options).num_rows > 10


def test_a_batch_of_more_rows_than_an_epoch_is_refused_at_any_step() -> None:
    with pytest.raises(
        LimitError, match=r"^global_batch: got 11 from step 4 on, expected 1 to 10, the rows of one epoch"
    ):
        make(schedule=[(4, {"global_batch": 11})])
    make(seq_len=1, global_batch=40, schedule=[(1, {"seq_len": 4, "global_batch": 10})])
    with pytest.raises(LimitError, match=r"^global_batch: got 40 from step 1 on, expected 1 to 10"):
        make(seq_len=1, global_batch=40, schedule=[(1, {"seq_len": 4})], epochs=2)


def test_a_repeated_batch_has_no_schedule() -> None:
    with pytest.raises(InputError, match=r"^repeat_batch: got it beside a schedule"):
        make(repeat_batch=0, schedule=[(4, {"global_batch": 4})])


def test_paces_keep_what_does_not_change() -> None:
    first = Pace(0, 2, 4, None)
    changes = [(np.int64(3), {"global_batch": np.int64(5)}), (4, {"micro_batch": 1})]
    assert read_changes(first, cast("Any", changes)) == (first, Pace(3, 5, 4, None), Pace(4, 5, 4, 1))
