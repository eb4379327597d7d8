"""Units done on this machine: in the calling process, or by the worker processes of a nursery over pipes.

Processes and not threads: the native encoder keeps the interpreter's lock, JSON parsing needs it, and processes scale
with cores (two cores, 215 MB: processes 2.1 s, threads 2.9 s). The text of a stream's unit goes through shared memory:
a pipe would copy it twice more, into memory that is new each time.
"""

import io
import mmap
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from tokenriver.engines._fates import Born, Fates, how
from tokenriver.engines._pipe import receive, send
from tokenriver.engines._unit import Job, Outcome, Work, run_unit
from tokenriver.engines.gate import Gate
from tokenriver.engines.nursery import Ends, Nursery
from tokenriver.engines.worker import job_to_json, keep_memory, read_reply, work_to_json
from tokenriver.errors import RiverError
from tokenriver.types import Tokenizer

IN_FLIGHT = 2
"""Units that a worker holds: one being encoded, one waiting, so that no worker waits for the reader."""

OnOutcome = Callable[[Outcome], None]


def run_here(jobs: Iterator[Job], work: Work, tokenizer: Tokenizer, seen: OnOutcome) -> None:
    """Do all units one after another in this process."""
    for job in jobs:
        seen(run_unit(job, work, tokenizer))


class Pool:
    """The workers of a nursery, which the pool then owns."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._fates = Fates(nursery)
        *ends, last = nursery.ends
        self._members = [_Member(number, pair, self._fates) for number, pair in enumerate(ends)]
        self.gate = Gate(nursery.count, last, self._fates)
        self._desks: memoryview | None = None

    def born(self) -> Born:
        """The processes, once they are there; raises what kept them from being born."""
        return self._fates.born()

    def run(self, jobs: Iterator[Job], work: Work, seen: OnOutcome) -> None:
        """Do all units; `seen` is called for each, one call at a time, in no particular order. Raises the first
        error, after which units in progress are abandoned."""
        todo: queue.Queue[Job | None] = queue.Queue(1)  # the text of one unit more than are being read and sent
        run = _Run(todo, work, seen)
        self._desks = _desks(self._nursery, work.unit_bytes)
        keep_memory()
        for member in self._members:
            member.start(run, self._desks)
        try:
            for job in jobs:
                run.offer(job)
            for _ in self._members:
                run.offer(None)
        except BaseException:
            run.stop.set()
            raise
        finally:
            self._join(kill=run.stop.is_set())
        run.raise_failure()

    def dismiss(self) -> None:
        """Nothing more will be asked of anybody; what is waited for at the end ends meanwhile. The shared memory is let
        go of first: to give it back takes a while, and the last who has it pays."""
        if self._desks is not None:
            memory = self._desks.obj
            assert isinstance(memory, mmap.mmap)
            self._desks.release()
            memory.close()
        self._nursery.forget_memory()
        self._nursery.kill()

    def _join(self, *, kill: bool) -> None:
        if kill:
            self._nursery.kill()
        for member in self._members:
            member.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._join(kill=kind is not None)
        self._nursery.close()


def _desks(nursery: Nursery, size: int) -> memoryview | None:
    """Shared memory with room for IN_FLIGHT units of each worker; None where it cannot be had."""
    if nursery.memory is None:
        return None
    length = nursery.count * IN_FLIGHT * size
    try:
        os.ftruncate(nursery.memory, length)
        return memoryview(mmap.mmap(nursery.memory, length))
    except OSError:  # a limit on the size of files: the texts go over the pipes
        return None


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

    def __init__(self, number: int, ends: Ends, fates: Fates) -> None:
        self._number = number
        self._input = ends.to
        self._output = io.BufferedReader(io.FileIO(ends.back.fileno(), "rb", closefd=False))
        self._fates = fates
        self._room = threading.Semaphore(IN_FLIGHT)
        self._sent: list[Job] = []
        self._desks: memoryview | None = None
        self._threads: Sequence[threading.Thread] = ()

    def start(self, run: _Run, desks: memoryview | None) -> None:
        self._desks = desks
        self._threads = [
            threading.Thread(target=loop, args=(run,), daemon=True) for loop in (self._send, self._receive)
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        self._close_input()

    def _send(self, run: _Run) -> None:
        try:
            send(self._input, {"work": work_to_json(run.work)})
            while True:
                self._room.acquire()
                job = run.take()
                if job is None:
                    break
                self._sent.append(replace(job, data=None))  # for a message about it; its text may go
                self._send_job(job, run.work.unit_bytes)
            send(self._input, {"end": True})
        except OSError:
            pass  # the worker is gone: the receiving thread says so
        except BaseException as error:
            run.fail(error)
        self._close_input()

    def _send_job(self, job: Job, desk: int) -> None:
        """The text is laid on the desk of the unit that was answered last, or sent along if it is too large."""
        head, text = {"job": job_to_json(job)}, job.data or ()
        size = sum(len(part) for part in text)
        if self._desks is None or not text or size > desk:
            send(self._input, head, text)
            return
        start = at = (self._number * IN_FLIGHT + len(self._sent) % IN_FLIGHT) * desk
        for part in text:
            self._desks[at : at + len(part)] = part
            at += len(part)
        send(self._input, head | {"place": [start, size]})

    def _receive(self, run: _Run) -> None:
        done, ended = 0, False
        try:
            while (message := receive(self._output)) is not None:
                if ended := "end" in message[0]:
                    break
                outcome = read_reply(*message)
                done += 1
                run.done(outcome)
                self._room.release()
            code = 0 if ended else self._fates.code(self._number)
            if code or done < len(self._sent):
                self._died(run, done, code)
        except BaseException as error:
            run.fail(error)
            self._room.release()

    def _died(self, run: _Run, done: int, code: int) -> None:
        where = "between units" if done else "at starting"
        if done < len(self._sent):
            job = self._sent[done]
            where = f"at unit {job.key[0]}-{job.key[1]} of {job.lot.pieces[0].path}"
        text = f"worker {self._number}: died ({how(code)}) {where}; run the same command again to resume"
        run.fail(RiverError(text))
        self._room.release()

    def _close_input(self) -> None:
        with suppress(OSError):
            self._input.close()
