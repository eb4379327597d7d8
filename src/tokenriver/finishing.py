"""Whole parts get their names in a thread of its own, so that the next file comes while the disk is waited for.

What came while one lot was synced is the next lot: the more files there are, the fewer waits each of them costs.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from tokenriver.partfile import PartFile, commit

MOST = 64
"""Files that wait at the same time, each of them open."""


class Finisher:
    """Takes whole parts from any thread; `failed` is called with each error, from the thread that finishes."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._waiting: SimpleQueue[PartFile | None] = SimpleQueue()
        self._room = threading.Semaphore(MOST)
        self._thread = threading.Thread(target=self._work, name="finish", daemon=True)
        self._thread.start()

    def add(self, part: PartFile) -> None:
        """Take over a part that is whole and right; waits if there are many."""
        self._room.acquire()
        self._waiting.put(part)

    def close(self) -> None:
        """Wait until all have their names, or have failed."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        last = False
        while not last:
            lot = [self._waiting.get()]
            with suppress(Empty):
                while True:
                    lot.append(self._waiting.get_nowait())
            parts = [part for part in lot if part is not None]
            last = len(parts) < len(lot)
            if parts:
                self._finish(parts)

    def _finish(self, parts: list[PartFile]) -> None:
        try:
            commit(parts)
        except BaseException as error:
            self._failed(error)
            for part in parts:
                self._set_aside(part, error)
        finally:
            self._room.release(len(parts))

    def _set_aside(self, part: PartFile, error: BaseException) -> None:
        try:
            part.set_aside(error)
        except BaseException as another:
            self._failed(another)
