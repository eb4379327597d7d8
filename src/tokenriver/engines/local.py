"""Units done on this machine: in the calling process, or by a pool of worker processes over pipes.

Processes and not threads: the native encoder keeps the interpreter's lock, JSON parsing needs it, and processes scale
with cores (two cores, 215 MB: processes 2.1 s, threads 2.9 s). They are started with a fresh interpreter: nothing is
forked after threads, and the user's script is not imported again.
"""

import fcntl
import io
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tokenriver.engines._pipe import receive, send
from tokenriver.engines._unit import Job, Outcome, Unreadable, Work, run_unit
from tokenriver.engines.worker import BOOT, job_to_json, read_reply, work_to_json
from tokenriver.errors import RiverError
from tokenriver.types import Tokenizer

PIPE_BYTES = 1 << 20
IN_FLIGHT = 2
"""Units that a worker holds: one being encoded, one waiting, so that no worker waits for the reader."""

OnOutcome = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class TokenizerName:
    """How a worker finds the tokenizer that the build uses."""

    name: str
    search: tuple[str, ...]
    encoder: str


def run_here(jobs: Iterator[Job], work: Work, tokenizer: Tokenizer, seen: OnOutcome) -> None:
    """Do all units one after another in this process."""
    for job in jobs:
        unit = run_unit(job, work, tokenizer)
        seen(unit if isinstance(unit, Unreadable) else unit.commit())


class Pool:
    """Worker processes, started at once so that they load the tokenizer while the build is still planning."""

    def __init__(self, count: int, name: TokenizerName) -> None:
        self._members = [_Member(number, name) for number in range(count)]

    def run(self, jobs: Iterator[Job], work: Work, seen: OnOutcome) -> None:
        """Do all units; `seen` is called for each, one call at a time, in no particular order. Raises the first
        error, after which units in progress are abandoned."""
        todo: queue.Queue[Job | None] = queue.Queue(len(self._members))
        run = _Run(todo, work, seen)
        for member in self._members:
            member.start(run)
        try:
            for job in jobs:
                run.offer(job)
            for _ in self._members:
                run.offer(None)
        except BaseException:
            run.stop.set()
            raise
        finally:
            for member in self._members:
                member.join(kill=run.stop.is_set())
        run.raise_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members:
            member.join(kill=kind is not None)


class _Run:
    """What the threads of one run share."""

    def __init__(self, todo: "queue.Queue[Job | None]", work: Work, seen: OnOutcome) -> None:
        self.todo = todo
        self.work = work
        self.stop = threading.Event()
        self._seen = seen
        self._lock = threading.Lock()
        self._failure: BaseException | None = None

    def offer(self, job: Job | None) -> None:
        while not self.stop.is_set():
            try:
                self.todo.put(job, timeout=0.1)
            except queue.Full:
                continue
            return
        self.raise_failure()

    def take(self) -> Job | None:
        while not self.stop.is_set():
            try:
                return self.todo.get(timeout=0.1)
            except queue.Empty:
                continue
        return None

    def done(self, outcome: Outcome) -> None:
        with self._lock:
            self._seen(outcome)

    def fail(self, error: BaseException) -> None:
        with self._lock:
            self._failure = self._failure or error
        self.stop.set()

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


class _Member:
    """One worker process and the two threads that talk to it."""

    def __init__(self, number: int, name: TokenizerName) -> None:
        self._number = number
        self._process = _start_process()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        _widen(self._input)
        self._pipe = self._process.stdout
        self._output = io.BufferedReader(io.FileIO(self._pipe.fileno(), "rb", closefd=False))
        self._room = threading.Semaphore(IN_FLIGHT)
        self._sent: list[Job] = []
        self._threads: Sequence[threading.Thread] = ()
        self._load = {"load": name.name, "search": name.search, "encoder": name.encoder}
        send(self._input, self._load)

    def start(self, run: _Run) -> None:
        self._threads = [
            threading.Thread(target=loop, args=(run,), daemon=True) for loop in (self._send, self._receive)
        ]
        for thread in self._threads:
            thread.start()

    def join(self, *, kill: bool) -> None:
        if kill:
            self._process.kill()
        for thread in self._threads:
            thread.join()
        if not self._input.closed:
            self._close_input()
        self._process.wait()
        self._output.close()
        self._pipe.close()

    def _send(self, run: _Run) -> None:
        try:
            send(self._input, {"work": work_to_json(run.work)})
            while True:
                self._room.acquire()
                job = run.take()
                if job is None:
                    break
                self._sent.append(replace(job, data=None))  # for a message about it; its text may go
                send(self._input, {"job": job_to_json(job)}, job.data or ())
            send(self._input, {"end": True})
        except OSError:
            pass  # the worker is gone: the receiving thread says so
        except BaseException as error:
            run.fail(error)
        self._close_input()

    def _receive(self, run: _Run) -> None:
        done = 0
        try:
            while (message := receive(self._output)) is not None:
                outcome = read_reply(*message)
                done += 1
                run.done(outcome)
                self._room.release()
            if done < len(self._sent) or self._process.wait() != 0:
                self._died(run, done)
        except BaseException as error:
            run.fail(error)
            self._room.release()

    def _died(self, run: _Run, done: int) -> None:
        code = self._process.wait()
        how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
        what = "starting"
        if done < len(self._sent):
            job = self._sent[done]
            what = f"unit {job.key[0]}-{job.key[1]} of {job.lot.pieces[0].path}"
        run.fail(RiverError(f"worker {self._number}: died ({how}) at {what}; run the same command again to resume"))
        self._room.release()

    def _close_input(self) -> None:
        with suppress(OSError):
            self._input.close()


def _start_process() -> "subprocess.Popen[bytes]":
    """A worker is born deaf to the keyboard: the parent hears it, and ends its workers."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-W", "ignore", "-c", BOOT, *_search_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _widen(pipe: IO[bytes]) -> None:
    """Let a pipe hold a megabyte where the system can: fewer turns between writer and reader."""
    size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if size is not None:
        with suppress(OSError):
            fcntl.fcntl(pipe.fileno(), size, PIPE_BYTES)


def _search_path() -> list[str]:
    """This process's module search path, absolute, so that a worker imports the same files."""
    return [str(Path(entry or ".").absolute()) for entry in sys.path]
