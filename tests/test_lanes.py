"""Threads that work on a stream: its order, its failures and its memory are those of one that works alone."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest

from tokenriver.errors import InputError, MismatchError
from tokenriver.lanes import AHEAD, in_lanes
from tokenriver.steps import Steps

LANES = pytest.mark.parametrize("lanes", [0, 1, 3])
Result = TypeVar("Result")


def worked(items: Iterator[int], work: Callable[[int], Result], lanes: int) -> Iterator[tuple[int, Steps[Result]]]:
    """What the first thread makes of each item, the others handing it on."""
    for item in items:
        yield item, Steps([partial(work, item), *[same] * (lanes - 1)])


def same(made: Result) -> Result:
    return made


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.enumerate()
    yield
    assert set(threading.enumerate()) <= set(before)


def fine() -> None: ...


def until_it_fails(results: Iterator[tuple[int, object]]) -> tuple[list[int], Exception | None]:
    """The items that came, and what came then."""
    seen = []
    try:
        for item, _ in results:
            seen.append(item)
    except Exception as error:
        return seen, error
    return seen, None


@LANES
def test_results_come_in_order_and_few_items_are_held(lanes: int) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        while taken < 40:
            taken += 1
            yield taken

    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3 == 0))
        return item * item

    given = 0
    for given, (item, result) in enumerate(in_lanes(worked(items(), work, lanes), fine, lanes), 1):
        assert (item, result) == (given, given * given)
        assert taken - given <= AHEAD
    assert given == 40


@LANES
def test_a_failure_of_the_stream_comes_behind_what_was_before(lanes: int) -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise InputError("cut")

    seen, error = until_it_fails(in_lanes(worked(items(), str, lanes), fine, lanes))
    assert seen == list(range(5))
    assert isinstance(error, InputError)


@LANES
def test_failures_of_the_work_and_of_the_check(lanes: int) -> None:
    def work(item: int) -> int:
        if item == 3:
            raise ValueError("three")
        return item

    def wrong() -> None:
        raise MismatchError("other ids")

    seen, error = until_it_fails(in_lanes(worked(iter(range(9)), work, lanes), fine, lanes))
    assert seen == [0, 1, 2]
    assert isinstance(error, ValueError)
    with pytest.raises(MismatchError, match="other ids"):
        list(in_lanes(worked(iter(range(3)), str, lanes), wrong, lanes))
    with pytest.raises(MismatchError, match="other ids"):
        list(in_lanes(worked(iter([]), str, lanes), wrong, lanes))


def test_one_who_stops_early_leaves_nothing_at_work() -> None:
    done: list[int] = []
    for item, _ in in_lanes(worked(iter(range(1000)), done.append, 2), fine, 2):
        if item == 3:
            break
    assert len(done) < 20
