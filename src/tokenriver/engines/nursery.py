"""Workers before anybody has asked for anything: one fresh interpreter loads all that a worker needs and then forks.

What every worker needs (numpy, the native encoder, its rank table: half a second of a core) is loaded once, while the
build itself is still importing and planning; this file therefore imports next to nothing. Which tokenizer it is may be
said later, so that the loading begins before the command line is understood. The interpreter is a new one and has one
thread, so its forks are safe whatever the caller's process does, and the caller's script is not run again.
`_hatch` is the other side.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from io import FileIO
from types import TracebackType
from typing import NamedTuple, Self

BOOT = (
    "import gc, os, sys; gc.set_threshold(100_000); os.environ['OPENBLAS_NUM_THREADS'] = '1'; "
    "given = sys.argv[1]; sys.path[:] = sys.argv[2:]; from tokenriver.engines._hatch import main; main(given)"
)
"""Run with `python -I -B -c`: the same search path as the parent, its script not imported again, and no bytecode
written, which a limit on the size of files would cut. A worker multiplies no matrices, and starting threads for it
costs 0.1 s; importing makes no garbage, and looking for it costs as much."""


class TokenizerName(NamedTuple):
    """How a worker finds the tokenizer that the build uses."""

    name: str
    search: tuple[str, ...]
    encoder: str


class Ends(NamedTuple):
    """The caller's ends of one worker's two pipes, unbuffered."""

    to: FileIO
    back: FileIO

    def close(self) -> None:
        for end in (self.to, self.back):
            with suppress(OSError):
                end.close()


class Nursery:
    """`count` workers and one more process for the gate, all starting up; a context manager, since it owns processes.
    Without a name they wait for `call`, and have `expected` ready by then, a tokenizer that comes with the package.

    `memory` is a file in memory that all of them share (None where the system has none): text goes to them by it."""

    def __init__(self, count: int, name: TokenizerName | None, expected: str | None = None) -> None:
        self.count = count
        self.name: TokenizerName | None = None
        self.memory = os.memfd_create("tokenriver", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else None
        theirs: list[tuple[int, int]] = []
        self.ends: list[Ends] = []
        for _ in range(count + 1):
            (read, to), (back, write) = os.pipe(), os.pipe()
            theirs.append((read, write))
            self.ends.append(Ends(FileIO(to, "wb"), FileIO(back, "rb")))
        inherited = [end for pair in theirs for end in pair] + ([] if self.memory is None else [self.memory])
        try:
            given = {"pipes": theirs, "memory": self.memory, "expected": expected}
            self.process = _start_process(json.dumps(given), inherited)
        finally:
            for end in inherited:
                if end != self.memory:
                    os.close(end)
        if name is not None:
            self.call(name)

    def call(self, name: TokenizerName) -> None:
        """Say which tokenizer is wanted, once."""
        assert self.name is None, "a nursery has one tokenizer"
        assert self.process.stdin is not None
        self.name = name
        given = {"load": name.name, "search": name.search, "encoder": name.encoder}
        with suppress(OSError):  # it has died, which those who wait for its workers will be told
            self.process.stdin.write(json.dumps(given).encode() + b"\n")

    def kill(self) -> None:
        """End all that is still alive."""
        assert self.process.stdin is not None
        if self.name is None:
            self.process.kill()  # it has no workers yet, and is still loading what nobody will use
        with suppress(OSError):
            self.process.stdin.close()  # the sign for it

    def close(self) -> None:
        """End all that is still alive, and wait for it."""
        assert self.process.stdout is not None
        self.kill()
        for ends in self.ends:
            ends.close()
        self.process.wait()
        self.process.stdout.close()
        self.forget_memory()

    def forget_memory(self) -> None:
        """Let go of the shared memory."""
        if self.memory is not None:
            os.close(self.memory)
            self.memory = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _start_process(given: str, inherited: list[int]) -> "subprocess.Popen[bytes]":
    """A worker is born deaf to the keyboard: the parent hears it, and ends its workers."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-B", "-W", "ignore", "-c", BOOT, given, *_search_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=inherited,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _search_path() -> list[str]:
    """This process's module search path, absolute, so that a worker imports the same files."""
    return [entry if os.path.isabs(entry) else os.path.join(os.getcwd(), entry or ".") for entry in sys.path]
