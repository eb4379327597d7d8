"""Batches as a loop gives them out, some of them made ahead of their use by a thread."""

from collections.abc import Callable, Generator
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from tokenriver.errors import InputError

B = TypeVar("B")


def in_turn(
    batches: Generator[B, None, None], depth: int, current: Callable[[], bool], passed: Callable[[B], None]
) -> Generator[B, None, None]:
    """The batches of one loop, up to `depth` of them made ahead; `passed` is told of each before it is given out.
    InputError when the loop is no longer the `current` one: its loader was moved, or is looped over by another."""
    with closing(run_ahead(batches, depth) if depth else batches) as source:
        for batch in source:
            if not current():
                raise InputError("loader: got another loop or state since this loop began; make a new iterator")
            passed(batch)
            yield batch


def run_ahead(batches: Generator[B, None, None], depth: int) -> Generator[B, None, None]:
    """The same batches, up to `depth` of them made ahead by a thread, which ends with this iterator; its errors come
    out here."""
    ready: SimpleQueue[B | BaseException | None] = SimpleQueue()
    wanted: SimpleQueue[bool] = SimpleQueue()
    for _ in range(depth):
        wanted.put(True)
    thread = Thread(target=_produce, args=(batches, wanted, ready), name="tokenriver-prefetch", daemon=True)
    thread.start()
    try:
        while (item := _next_of(ready, thread)) is not None:
            if isinstance(item, BaseException):
                raise item
            wanted.put(True)
            yield item
            # not to hold the last batch's buffer while waiting for the next
            del item
    finally:
        # what is asked for already is made, at most `depth` batches, and thrown away
        wanted.put(False)
        thread.join()


def _next_of(ready: "SimpleQueue[B | BaseException | None]", thread: Thread) -> B | BaseException | None:
    while True:
        try:
            return ready.get(timeout=1.0)
        except Empty:
            # a thread does not follow its process into a fork; waiting for it would never end
            if not thread.is_alive():
                raise InputError(
                    "loader: its prefetch thread is gone, as after a fork; make a new iterator in this process"
                ) from None


def _produce(
    batches: Generator[B, None, None],
    wanted: "SimpleQueue[bool]",
    ready: "SimpleQueue[B | BaseException | None]",
) -> None:
    try:
        while wanted.get():
            ready.put(next(batches, None))
    except BaseException as error:
        ready.put(error)
