"""What becomes of the processes of a nursery, as it tells it: that they were born, and how each of them ended."""

import io
import threading
from dataclasses import dataclass

from tokenriver.engines._pipe import receive
from tokenriver.engines.nursery import Nursery
from tokenriver.engines.worker import raise_error
from tokenriver.errors import RiverError


@dataclass(frozen=True, slots=True)
class Born:
    """Processes that have the tokenizer (or will load it themselves)."""

    pids: list[int]
    encoder: str | None
    """What they encode with; None if each of them loads a tokenizer of someone else's making."""
    warnings: list[str]


class Fates:
    """Answers questions about the processes from any thread; waits until the answer is known."""

    def __init__(self, nursery: Nursery) -> None:
        assert nursery.process.stdout is not None
        self._process = nursery.process
        self._reader = io.BufferedReader(io.FileIO(nursery.process.stdout.fileno(), "rb", closefd=False))
        self._lock = threading.Lock()
        self._born: Born | None = None
        self._codes: dict[int, int] = {}
        self._stillborn: dict[str, str] = {}

    def born(self) -> Born:
        """The processes, once they are there; raises what kept them from being born."""
        found = self._born
        if found is None:
            with self._lock:
                found = self._wait_for_birth()
        return found

    def code(self, number: int) -> int:
        """The exit code of a process, negative for a signal, once it has ended; the nursery's if that died first."""
        with self._lock:
            while number not in self._codes:
                if not self._hear():
                    return self._process.wait()
            return self._codes[number]

    def _wait_for_birth(self) -> Born:
        while self._born is None:
            if not self._hear():
                code = self._process.wait()
                raise RiverError(f"workers: died ({how(code)}) at starting; run the same command again to resume")
        return self._born

    def _hear(self) -> bool:
        raise_error(self._stillborn)
        message = receive(self._reader)
        if message is None:
            return False
        head = message[0]
        if "error" in head:
            self._stillborn = head
        elif "born" in head:
            self._born = Born(head["born"], head["encoder"], head["warnings"])
        else:
            self._codes[head["ended"]] = head["code"]
        return True


def how(code: int) -> str:
    """An exit code in words."""
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"
