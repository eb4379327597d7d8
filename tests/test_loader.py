import json
import os
import pickle
import threading
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from rivers import ArrayRiver, HugeRiver
from tokenriver.batch import Batch
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.loader import Loader
from tokenriver.types import Int64

TEN = ArrayRiver(41)
"""Ten rows of four ids."""


def make(river: ArrayRiver | HugeRiver = TEN, **options: object) -> Loader:
    given: dict[str, Any] = {"seq_len": 4, "global_batch": 1, "seed": 1, "prefetch": 0, **options}
    return Loader(river, **given)


def samples(batches: Iterator[Batch] | Loader) -> list[list[int]]:
    return [batch.sample_ids.tolist() for batch in batches]


def take(loader: Loader, count: int) -> list[list[int]]:
    return [batch.sample_ids.tolist() for _, batch in zip(range(count), loader, strict=False)]


# --------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("rows", range(1, 41))
def test_all_ranks_take_as_many_batches_of_one_shape(rows: int) -> None:
    for world_size in (1, 2, 3, 8):
        for micro_batch in (1, 3, 4):
            batch = min(rows, 6)
            counts = set()
            for rank in range(world_size):
                loader = make(
                    ArrayRiver(rows * 4 + 1),
                    global_batch=batch,
                    micro_batch=micro_batch,
                    rank=rank,
                    world_size=world_size,
                )
                shapes = [got.input_ids.shape for got in loader]
                assert set(shapes) == {(micro_batch, 4)}
                assert len(shapes) == loader.steps_per_epoch * loader.micros_per_step
                counts.add(len(shapes))
            assert len(counts) == 1


def test_sizes_of_a_run() -> None:
    loader = make(global_batch=4, micro_batch=1, world_size=3, epochs=2)
    assert (loader.num_rows, loader.steps_per_epoch, loader.num_steps, loader.micros_per_step) == (10, 3, 5, 2)
    assert make(epochs=None).num_steps is None
    assert make(global_batch=4, steps=100).num_steps == 100
    assert loader.balance == {"river": 41, "served": 41, "unused": 0}
    assert "5 steps" in repr(loader)
    assert "endless" in repr(make(epochs=None))


def test_micro_batch_is_a_ranks_whole_share_unless_given() -> None:
    assert [b.input_ids.shape for b in make(global_batch=5, world_size=2, rank=0, steps=1)] == [(3, 4)]


def test_a_batch_goes_straight_through_the_end_of_an_epoch() -> None:
    loader = make(global_batch=4, epochs=2, order="sequential")
    assert samples(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1], [2, 3, 4, 5], [6, 7, 8, 9]]


def test_one_pass_for_validation() -> None:
    """Every row once, the end filled with ignored rows, as many batches on all ranks; again and again."""
    loaders = [make(global_batch=4, order="sequential", rank=rank, world_size=2) for rank in (0, 1)]
    for _ in range(3):
        assert samples(loaders[0]) == [[0, 1], [4, 5], [8, 9]]
        assert samples(loaders[1]) == [[2, 3], [6, 7], [-1, -1]]
    assert [batch.num_targets for batch in loaders[1]] == [8, 8, 0]


def test_epochs_are_ordered_anew_and_each_is_whole() -> None:
    got = [row for batch in make(epochs=4) for row in batch.sample_ids.tolist()]
    epochs = [tuple(got[i : i + 10]) for i in range(0, 40, 10)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 4
    assert len(set(epochs)) == 4


def test_the_phase_of_the_windows_changes_with_the_epoch_if_asked() -> None:
    loader = make(ArrayRiver(43), epochs=6, order="sequential", phase_shift=True)
    firsts = [int(batch.input_ids[0, 0]) for batch in loader]
    shifts = firsts[::10]
    assert set(shifts) == {0, 1, 2}
    assert firsts == [shift + 4 * row for shift in shifts for row in range(10)]


def test_steps_is_the_whole_length_whatever_the_epochs() -> None:
    assert len(samples(make(steps=25))) == 25
    assert len(samples(make(steps=3))) == 3
    assert samples(make(steps=25)) == samples(make(epochs=3))[:25]


def test_one_batch_again_and_again() -> None:
    reference = make(global_batch=4, micro_batch=2).batch(1, 0).sample_ids.tolist()
    loader = make(global_batch=4, micro_batch=2, repeat_batch=1)
    got = list(loader)
    assert [batch.sample_ids.tolist() for batch in got[::2]] == [reference] * 3
    assert [batch.row_numbers.tolist() for batch in got] == [[4, 5], [6, 7]] * 3
    assert [batch.step for batch in got] == [0, 0, 1, 1, 2, 2]
    assert got[-1].state["step"] == 3
    assert len(samples(make(global_batch=4, repeat_batch=0, steps=50))) == 50
    # the run's rows stand still meanwhile, so a resume without it starts where it began
    loader = make(global_batch=4)
    loader.load_state_dict(got[-1].state)
    assert loader.batch(3).row_numbers.tolist() == [0, 1, 2, 3]


def test_one_batch_again_and_again_behind_a_state(tmp_path: Path) -> None:
    loader = make(global_batch=4, repeat_batch=5, epochs=3)
    loader.load_state_dict(make(global_batch=4).batch(1).state)
    assert loader.state_dict()["row"] == 8
    for step in (0, 1, 2, 4):
        batch = loader.batch(step)
        assert (batch.step, batch.row_numbers.tolist()) == (step, [20, 21, 22, 23])
    # its rows have no place of their own in the run
    with pytest.raises(InputError, match="run log: got a run with repeat_batch"):
        _ = loader.places
    with pytest.raises(InputError, match="run log: got a run with repeat_batch"):
        loader.log_start(tmp_path / "log")


# ------------------------------------------------------------------------------------------ prefetch


@pytest.mark.parametrize("prefetch", [1, 2, 7])
def test_prefetch_changes_nothing_but_time(prefetch: int) -> None:
    def run(depth: int) -> list[tuple[Any, ...]]:
        loader = make(global_batch=3, micro_batch=2, epochs=3, prefetch=depth)
        return [(b.input_ids.tolist(), b.targets.tolist(), b.state, loader.state_dict()) for b in loader]

    assert run(prefetch) == run(0)


def test_a_loop_left_early_leaves_no_thread() -> None:
    before = threading.active_count()
    loader = make(epochs=None, prefetch=3)
    for batch in loader:
        if batch.step == 5:
            break
    assert threading.active_count() == before
    assert loader.state_dict()["step"] == 6


def test_an_error_of_the_prefetch_thread_comes_out_in_the_loop() -> None:
    class Broken(ArrayRiver):
        def gather(self, starts: Int64, n: int, out: Int64) -> None:
            if self.gathered > 5:
                raise OSError("the disk is gone")
            super().gather(starts, n, out)

    before = threading.active_count()
    stream = iter(make(Broken(41), prefetch=2))
    assert [next(stream).step for _ in range(6)] == list(range(6))
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)
    assert threading.active_count() == before


def test_a_loop_taken_into_a_fork_ends_with_an_error() -> None:
    stream = iter(make(epochs=None, prefetch=1))
    next(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            for _ in range(3):
                next(stream)
        except InputError as error:
            code = 42 if "as after a fork" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


def test_the_prefetch_thread_makes_no_more_than_its_depth() -> None:
    river = ArrayRiver(401)
    stream = iter(make(river, prefetch=3))
    for taken in range(1, 50):
        next(stream)
        assert taken <= river.gathered <= taken + 3 + 1
    del stream
    assert river.gathered <= 49 + 3 + 1


# --------------------------------------------------------------------------------------------- state


def test_a_restored_loader_goes_on_with_the_next_row() -> None:
    whole = samples(make())
    loader = make()
    assert take(loader, 5) == whole[:5]
    fresh = make()
    fresh.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert samples(fresh) == whole[5:]


@pytest.mark.parametrize("stop", range(11))
def test_the_same_object_and_a_new_one_go_on_alike(stop: int) -> None:
    whole = samples(make(epochs=2))
    loader = make(epochs=2)
    states = [loader.state_dict(), *(batch.state for batch in loader)]
    loader.load_state_dict(states[stop])
    assert samples(loader) == whole[stop:]
    loader.load_state_dict(states[stop])
    assert samples(loader) == whole[stop:]


def test_after_a_resume_later_passes_are_whole() -> None:
    loader = make()
    loader.load_state_dict(make().batch(6).state)
    passes = [samples(loader) for _ in range(4)]
    assert [len(rows) for rows in passes] == [3, 10, 10, 10]
    assert [row for rows in passes for row in rows] == samples(make(epochs=4))[7:]


def test_a_loop_left_early_is_taken_up_where_it_was_left() -> None:
    whole = samples(make(epochs=2))
    loader = make(epochs=2)
    got = [take(loader, 4) for _ in range(5)]
    assert [row for rows in got for row in rows] == whole
    loader.load_state_dict(make(epochs=2).batch(2).state)
    assert take(loader, 4) == whole[3:7]


def test_a_finished_run_stays_finished_when_restored_and_goes_on_when_longer() -> None:
    loader = make(global_batch=4)
    *_, last = loader
    assert last.state == {**last.state, "row": 10, "step": 3}
    fresh = make(global_batch=4)
    fresh.load_state_dict(last.state)
    assert samples(fresh) == []
    longer = make(global_batch=4, epochs=2, order="shuffled")
    longer.load_state_dict(last.state)
    assert [row for rows in samples(longer) for row in rows if row >= 0] == [
        row for rows in samples(make(epochs=2))[10:] for row in rows
    ]


@pytest.mark.parametrize("world_sizes", [(4, 1), (4, 2), (4, 8), (4, 8, 4, 3, 1)])
def test_global_batches_do_not_depend_on_the_world(world_sizes: tuple[int, ...]) -> None:
    river = ArrayRiver(64 * 4 + 1)
    whole = samples(make(river, global_batch=8, epochs=2))
    got: list[list[int]] = []
    state = None
    for world_size in world_sizes:
        loaders = [make(river, global_batch=8, rank=r, world_size=world_size, epochs=2) for r in range(world_size)]
        for loader in loaders:
            if state:
                loader.load_state_dict(state)
        parts = [take(loader, 3) for loader in loaders]
        states = [json.dumps(loader.state_dict()) for loader in loaders]
        assert len(set(states)) == 1
        state = json.loads(states[0])
        got += [[row for part in step for row in part if row >= 0] for step in zip(*parts, strict=True)]
    assert got == whole[: len(got)]


def test_another_batch_size_goes_on_at_the_same_row() -> None:
    river = ArrayRiver(64 * 4 + 1)
    first = make(river, global_batch=8)
    take(first, 3)
    second = make(river, global_batch=4)
    second.load_state_dict(first.state_dict())
    batch = next(iter(second))
    assert batch.row_numbers.tolist() == [24, 25, 26, 27]
    assert batch.step == 3
    assert second.batch(4).row_numbers.tolist() == [28, 29, 30, 31]
    with pytest.raises(InputError, match=r"step: got 2, expected 3 or more.* 24 rows in 3 steps"):
        second.batch(2)
    first.load_state_dict(second.state_dict())
    assert next(iter(first)).row_numbers.tolist() == list(range(28, 36))


def test_the_state_within_a_step_is_the_steps_start() -> None:
    loader = make(global_batch=4, micro_batch=2, order="sequential")
    stream = iter(loader)
    start = loader.state_dict()
    first = next(stream)
    assert first.state == loader.state_dict() == start
    second = next(stream)
    assert second.state == loader.state_dict() == {**start, "row": 4, "step": 1}
    assert (first.micro, second.micro) == (0, 1)
    # in the object itself a loop goes on with the very next micro-batch
    next(stream)
    assert take(loader, 1) == [[6, 7]]
    loader.load_state_dict(first.state)
    assert take(loader, 1) == [[0, 1]]


def test_a_state_is_small_and_plain() -> None:
    river = HugeRiver(10**15)
    loader = make(river, seq_len=1, global_batch=10**6, micro_batch=1, world_size=10**6, epochs=None, seed=2**60)
    loader.skip(900_000_000)
    text = json.dumps(loader.state_dict())
    assert len(text) < 256
    assert json.loads(text) == loader.state_dict()


def test_another_corpus_packing_order_or_seed_is_refused_by_name() -> None:
    state = make().batch(0).state
    others = {
        "corpus": make(ArrayRiver(42)),
        "packing": make(seq_len=5),
        "order": make(order="sequential"),
        "seed": make(seed=2),
    }
    for name, loader in others.items():
        with pytest.raises(MismatchError, match=f"^state: {name}: got "):
            loader.load_state_dict(state)
        assert loader.state_dict()["row"] == 0
        with pytest.warns(UserWarning, match=f"^state: {name}: got .*as allowed") as warned:
            loader.load_state_dict(state, allow=[name])
        assert warned[0].filename == __file__, "the warning names the line that allows it"
        assert loader.state_dict()["row"] == 1
    with pytest.raises(MismatchError, match=r"^state: packing: "):
        make(phase_shift=True).load_state_dict(state)


def test_a_state_may_meet_another_machine_and_run_length() -> None:
    state = make(global_batch=4).batch(0).state
    others: list[dict[str, Any]] = [
        {"rank": 2, "world_size": 3},
        {"micro_batch": 2},
        {"global_batch": 5},
        {"prefetch": 3},
        {"epochs": None},
        {"epochs": 7},
        {"steps": 20},
    ]
    for options in others:
        loader = make(**{"global_batch": 4, **options})
        loader.load_state_dict(state)
        assert loader.state_dict() == state


GOOD = make().state_dict()


@pytest.mark.parametrize(
    "state",
    [
        {},
        None,
        [],
        "state",
        {**GOOD, "row": -1},
        {**GOOD, "row": 1.0},
        {**GOOD, "row": "1"},
        {**GOOD, "row": True},
        {**GOOD, "step": 1 << 70},
        {**GOOD, "plan": GOOD["plan"][:3]},
        {**GOOD, "plan": None},
        {**GOOD, "plan": "1234"},
        {key: GOOD[key] for key in ("v", "row", "step", "corpus")},
    ],
)
def test_what_is_no_state_is_refused(state: object) -> None:
    loader = make()
    with pytest.raises(InputError, match=r"^state: got "):
        loader.load_state_dict(cast("dict[str, Any]", state))


def test_a_state_of_a_later_version_is_refused() -> None:
    with pytest.raises(MismatchError, match=r"^state: v: got 2, expected 1"):
        make().load_state_dict({**GOOD, "v": 2})


def test_an_older_loop_cannot_go_on_beside_a_newer_position() -> None:
    loader = make()
    older = iter(loader)
    next(older)
    take(loader, 1)
    with pytest.raises(InputError, match="make a new iterator"):
        next(older)
    assert loader.state_dict()["row"] == 2
    newer = iter(loader)
    next(newer)
    loader.load_state_dict(GOOD)
    with pytest.raises(InputError, match="make a new iterator"):
        next(newer)
    assert loader.state_dict() == GOOD


# ----------------------------------------------------------------------------------------- other ways


def test_skip_passes_over_steps_as_if_they_had_been_served() -> None:
    whole = samples(make(global_batch=2))
    loader = make(global_batch=2)
    assert take(loader, 1) == whole[:1]
    loader.skip(2)
    state = loader.state_dict()
    assert samples(loader) == whole[3:]
    fresh = make(global_batch=2)
    fresh.load_state_dict(state)
    assert samples(fresh) == whole[3:]
    fresh.load_state_dict(state)
    with pytest.raises(LimitError, match="steps: got 3, expected at most 2"):
        fresh.skip(3)


@pytest.mark.parametrize("options", [{}, {"rank": 1, "world_size": 2}, {"micro_batch": 3}, {"epochs": 3}])
def test_any_batch_at_once(options: dict[str, Any]) -> None:
    loader = make(**{"global_batch": 7, **options})
    for served in make(**{"global_batch": 7, **options}):
        batch = loader.batch(served.step, served.micro)
        assert batch.input_ids.tolist() == served.input_ids.tolist()
        assert batch.targets.tolist() == served.targets.tolist()
        assert batch.state == served.state
        assert batch.row_numbers.tolist() == served.row_numbers.tolist()
    assert loader.state_dict()["row"] == 0


def test_no_batch_after_the_end_and_no_micro_batch_beside_the_step() -> None:
    with pytest.raises(LimitError, match="step: got 10, expected 0 to 9"):
        make().batch(10)
    with pytest.raises(LimitError, match="micro: got 1, expected 0 to 0"):
        make().batch(0, 1)
    with pytest.raises(InputError, match="step: got -1"):
        make().batch(-1)
    assert make(epochs=None).batch(10**15).step == 10**15


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_workers_divide_a_ranks_batches(stride: int) -> None:
    loader = make(global_batch=3, micro_batch=1, epochs=3)
    loader.skip(2)
    parts = [list(loader.strided(first, stride)) for first in range(stride)]
    assert loader.state_dict()["step"] == 2
    whole = list(loader)
    for first, part in enumerate(parts):
        assert [batch.state for batch in part] == [batch.state for batch in whole[first::stride]]
        assert [b.input_ids.tolist() for b in part] == [b.input_ids.tolist() for b in whole[first::stride]]


def test_workers_begin_at_the_start_of_an_unfinished_step() -> None:
    loader = make(global_batch=6, micro_batch=2, order="sequential")
    assert take(loader, 1) == [[0, 1]]
    assert samples(loader.strided(0, 2)) == [[0, 1], [4, 5], [8, 9]]
    assert take(loader, 1) == [[2, 3]]


def test_a_loader_travels_and_stays_where_it_is() -> None:
    loader = make(global_batch=2)
    take(loader, 2)
    there = pickle.loads(pickle.dumps(loader))
    assert there.state_dict() == loader.state_dict()
    assert samples(there) == samples(loader)


@pytest.mark.parametrize("num_tokens", [10**9, 10**12, 2**50])
def test_a_start_costs_the_same_in_any_corpus_and_at_any_place(num_tokens: int) -> None:
    river = HugeRiver(num_tokens)
    tracemalloc.start()
    try:
        loader = make(river, seq_len=1024, global_batch=32, epochs=None)
        loader.skip(num_tokens // 50_000)
        batch = next(iter(loader))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert batch.input_ids[:, 0].tolist() == (batch.sample_ids * 1024 % 50_000).tolist()


OPTIONS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"seq_len": 0}, InputError, "seq_len: got 0"),
    ({"seq_len": 2.0}, InputError, "seq_len: got 2.0"),
    ({"seq_len": 41}, LimitError, "needs at least 42 ids, and the corpus has 41"),
    ({"global_batch": 0}, InputError, "global_batch: got 0"),
    ({"global_batch": 11}, LimitError, "global_batch: got 11, expected 1 to 10"),
    ({"micro_batch": 0}, InputError, "micro_batch: got 0"),
    ({"epochs": 0}, InputError, "epochs: got 0"),
    ({"steps": 0}, InputError, "steps: got 0"),
    ({"steps": True}, InputError, "steps: got True"),
    ({"prefetch": -1}, InputError, "prefetch: got -1"),
    ({"seed": 1.5}, InputError, "seed: got 1.5"),
    ({"seed": None}, InputError, "seed: got None"),
    ({"repeat_batch": -1}, InputError, "repeat_batch: got -1"),
    ({"rank": 1}, InputError, "rank, world_size: got 1, 1"),
    ({"order": "random"}, InputError, "order: got 'random', expected one of shuffled, sequential"),
    ({"packing": "nope"}, InputError, "packing: got 'nope', expected one of "),
    ({"overflow": "drop"}, InputError, "overflow: got 'drop'"),
]


@pytest.mark.parametrize(("options", "kind", "text"), OPTIONS, ids=[str(options) for options, _, _ in OPTIONS])
def test_options_that_make_no_sense(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as error:
        make(**options)
    assert text in str(error.value)


def test_negative_and_numpy_seeds() -> None:
    assert samples(make(seed=-5)) != samples(make(seed=5))
    assert samples(make(seed=np.int64(5))) == samples(make(seed=5))
