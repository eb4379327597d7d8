"""Work on the items of a stream in several threads, each of which does one step of every item, the results in the order
of the items.

Threads that have much to do without the interpreter's lock: one that comes back from there waits for the lock for up to
5 ms, which is a third of what it takes to encode a megabyte of text.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

from tokenriver.errors import RiverError
from tokenriver.steps import Steps

AHEAD = 10
"""Items that wait for a thread, so that none of them waits for the stream, nor for the thread that checks first."""
Item = TypeVar("Item")
Made = TypeVar("Made")


def in_lanes(
    items: Iterator[tuple[Item, Steps[Made]]], check: Callable[[], object], lanes: int
) -> Iterator[tuple[Item, Made]]:
    """(item, what its steps make) of all items, in order. So many threads do the steps of each item, one each (0: the
    caller does all); the last of them does `check` before anything else, whose error comes as soon as it is known, and
    before the end. A RiverError of the stream comes behind the items before it. AHEAD items and one are held."""
    if not lanes:
        check()
        yield from ((item, steps.run()) for item, steps in items)
        return
    with ExitStack() as stack:
        threads = [ThreadPoolExecutor(1) for _ in range(lanes)]
        for thread in threads:
            stack.callback(thread.shutdown, cancel_futures=True)
        checked = threads[-1].submit(check)
        waiting: deque[tuple[Item, Future[Made]]] = deque()
        failure: RiverError | None = None
        more = True
        while more or waiting:
            try:
                found = next(items, None)
            except RiverError as error:
                failure, found = error, None
            more = found is not None
            if found is not None:
                waiting.append((found[0], _begin(found[1], threads)))
            if waiting and (not more or len(waiting) > AHEAD):
                first, made = waiting.popleft()
                yield first, made.result()
            if checked.done():
                checked.result()
        checked.result()
        if failure is not None:
            raise failure


def _begin(steps: Steps[Made], threads: Sequence[ThreadPoolExecutor]) -> "Future[Made]":
    begun: Future[Any] | None = None
    for thread, step in zip(threads, steps.steps, strict=True):
        begun = thread.submit(_do, step, begun)
    assert begun is not None, "there is a step at least"
    return begun


def _do(step: Callable[..., Any], before: "Future[Any] | None") -> object:
    return step() if before is None else step(before.result())
