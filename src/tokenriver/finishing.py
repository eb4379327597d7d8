"""Whole parts get their names in a thread of its own, so that the next file comes while the disk is waited for.

What came while one lot was synced is the next lot: the more files there are, the fewer waits each of them costs.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tokenriver.partfile import PartFile, commit

MOST = 64
"""Files that wait at the same time, each of them open."""


class Finisher:
    """Takes whole parts from any thread; `failed` is called with each error, from the thread that finishes."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._waiting: list[PartFile] = []
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MOST)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="finish")

    def add(self, part: PartFile) -> None:
        """Take over a part that is whole and right; waits if there are many."""
        self._room.acquire()
        with self._lock:
            self._waiting.append(part)
        self._pool.submit(self._finish)

    def close(self) -> None:
        """Wait until all have their names, or have failed."""
        self._pool.shutdown(wait=True)

    def _finish(self) -> None:
        with self._lock:
            parts, self._waiting = self._waiting, []
        if not parts:
            return  # the lot before took it along
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
