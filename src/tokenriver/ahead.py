"""Batches made ahead of their use by a thread."""

from collections.abc import Generator
from queue import Empty, SimpleQueue
from threading import Thread

from tokenriver.batch import Batch
from tokenriver.errors import InputError


def run_ahead(batches: Generator[Batch, None, None], depth: int) -> Generator[Batch, None, None]:
    """The same batches, up to `depth` of them made ahead by a thread, which ends with this iterator; its errors come
    out here."""
    ready: SimpleQueue[Batch | BaseException | None] = SimpleQueue()
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


def _next_of(ready: "SimpleQueue[Batch | BaseException | None]", thread: Thread) -> Batch | BaseException | None:
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
    batches: Generator[Batch, None, None],
    wanted: "SimpleQueue[bool]",
    ready: "SimpleQueue[Batch | BaseException | None]",
) -> None:
    try:
        while wanted.get():
            ready.put(next(batches, None))
    except BaseException as error:
        ready.put(error)
