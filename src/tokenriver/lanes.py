"""Work on the items of a stream in several threads, the results in the order of the items."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from tokenriver.errors import RiverError

AHEAD = 2
"""Items that wait for a thread, so that none of them waits for the stream."""
Item = TypeVar("Item")
Result = TypeVar("Result")


def in_lanes(
    items: Iterator[Item], work: Callable[[Item], Result], check: Callable[[], object], lanes: int
) -> Iterator[tuple[Item, Result]]:
    """(item, what `work` makes of it) of all items, in order; with `check` done beside them, whose error comes as soon
    as it is known, and before the end. A RiverError of the stream comes behind the items before it. So many threads
    work (0: the caller's), and a few items more than threads are held."""
    if not lanes:
        check()
        yield from ((item, work(item)) for item in items)
        return
    threads = ThreadPoolExecutor(lanes)
    try:
        checked = threads.submit(check)
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        failure: RiverError | None = None
        more = True
        while more or waiting:
            try:
                item = next(items, None)
            except RiverError as error:
                failure, item = error, None
            more = item is not None
            if item is not None:
                waiting.append((item, threads.submit(work, item)))
            if waiting and (not more or len(waiting) > lanes + AHEAD):
                first, result = waiting.popleft()
                yield first, result.result()
            if checked.done():
                checked.result()
        checked.result()
        if failure is not None:
            raise failure
    finally:
        threads.shutdown(cancel_futures=True)
