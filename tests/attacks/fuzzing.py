"""A coverage-guided fuzzer of every parser: python -m attacks.fuzzing [--runs N | --seconds S] [PARSER...]

A seed is a folder of files below corpus/PARSER. Copies of seeds are changed and read; one that reaches lines, or ends
in an error, that none before it did is changed further. Allowed is what `fuzz_parsers` allows: an error of tokenriver's
own, or a sound reading. Anything else (another exception, a hang, more memory than the limit, a process that dies) is
a finding: its files are kept as a new seed, which the default suite reads from then on.
"""

import argparse
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import tokenriver
from attacks.mutations import Files, mutate
from fuzz_parsers import PARSERS, Parser
from tokenriver.errors import RiverError

CORPUS = Path(__file__).resolve().parent / "corpus"
SOURCE = str(Path(tokenriver.__file__).parent)
EXTRA_MEMORY = 1 << 30
PATIENCE_S = 10
LONGEST_MESSAGE = 10_000
"""A path alone may have 4096 characters."""
_MEMORY = Path("/dev/shm")
Trace = Callable[[FrameType, str, Any], Any]


class Hang(BaseException):
    """A reading took more than PATIENCE_S of the processor's time; no handler of Exception swallows it."""


def load(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def store(files: Files, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def seeds(parser: str, corpus: Path = CORPUS) -> list[Path]:
    folder = corpus / parser
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def judge(read: Parser, folder: Path) -> str:
    """What came of a reading: "read", or the class of a refusal. Raises whatever is a finding."""
    handler = signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    try:
        read(folder)
    except RiverError as error:
        text = str(error)
        if len(text) > LONGEST_MESSAGE:
            raise AssertionError(f"a message of {len(text)} characters") from error
        return type(error).__name__
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    return "read"


def _give_up(number: int, frame: FrameType | None) -> None:
    raise Hang(f"after {PATIENCE_S} s")


class Coverage:
    """The lines of tokenriver that were reached; settrace costs what it costs, on our own lines only."""

    def __init__(self) -> None:
        self.seen: set[object] = set()
        self._new = False

    def during(self, call: Callable[[], str]) -> bool:
        """Did the call reach anything new, its outcome included?"""
        self._new = False
        sys.settrace(self._enter)
        try:
            outcome = call()
        finally:
            sys.settrace(None)
        self._add(outcome)
        return self._new

    def _add(self, what: object) -> None:
        if what not in self.seen:
            self.seen.add(what)
            self._new = True

    def _enter(self, frame: FrameType, event: str, argument: object) -> Trace | None:
        return self._line if frame.f_code.co_filename.startswith(SOURCE) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Trace:
        if event == "line":
            self._add((frame.f_code, frame.f_lineno))
        return self._line


def explore(parser: str, corpus: Path, work: Path, more: Iterable[object]) -> tuple[int, int]:
    """Change and read as long as `more` goes on; (readings, lines reached). Raises what is found; `work` has it."""
    read, coverage, chance = PARSERS[parser], Coverage(), random.Random(parser)
    pool = [load(seed) for seed in seeds(parser, corpus)]
    if not pool:
        raise RuntimeError(f"{parser}: no seeds in {corpus}")
    tried = 0
    for files in pool:
        store(files, work)
        coverage.during(lambda: judge(read, work))
    for _ in more:
        tried += 1
        # the newest half the time: what has just led somewhere leads further
        files = mutate(chance.choice(pool[-8:] if chance.random() < 0.5 else pool), chance.choice(pool), chance)
        store(files, work)
        if coverage.during(lambda: judge(read, work)):
            pool.append(files)
    return tried, len(coverage.seen)


def timed(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def limit_memory() -> None:
    """More than EXTRA_MEMORY beyond what the process has now cannot be had."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 1 << 20
    limit = pages * resource.getpagesize() + EXTRA_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def keep(parser: str, work: Path, corpus: Path = CORPUS) -> Path:
    """Keep a finding's files as a seed, named by their contents."""
    files = load(work)
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]
    store(files, corpus / parser / f"found-{digest}")
    return corpus / parser / f"found-{digest}"


def _child(options: argparse.Namespace) -> int:
    limit_memory()
    more = range(options.runs) if options.runs else timed(options.seconds)
    [parser] = options.parsers
    tried, reached = explore(parser, options.corpus, options.child, more)
    sys.stdout.write(f"{parser}: {tried} readings, {reached} lines and outcomes reached\n")
    return 0


def fuzz(parser: str, arguments: list[str], corpus: Path = CORPUS) -> tuple[Path | None, str]:
    """Run one parser's fuzzing in a process of its own; (where the finding is kept, output)."""
    base = tempfile.mkdtemp(prefix="fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)
    work = Path(base) / "set"
    command = [
        sys.executable,
        "-m",
        "attacks.fuzzing",
        *arguments,
        "--corpus",
        str(corpus),
        "--child",
        str(work),
        parser,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if ran.returncode == 0:
            return None, ran.stdout.strip()
        text = f"{parser}: exit code {ran.returncode}\n{ran.stderr[-4000:]}"
        if not work.is_dir():
            raise RuntimeError(text)
        return keep(parser, work, corpus), text
    finally:
        shutil.rmtree(base)


def main() -> int:
    asked = argparse.ArgumentParser(description="Fuzz parsers of tokenriver.")
    asked.add_argument("--runs", type=int, default=0, help="readings of each parser, the same ones every time")
    asked.add_argument("--seconds", type=float, default=60, help="time of each parser, without --runs")
    asked.add_argument("--corpus", type=Path, default=CORPUS)
    asked.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked.add_argument("parsers", nargs="*", metavar="PARSER", help=f"of {', '.join(PARSERS)}; all without one")
    options = asked.parse_args()
    if options.child is not None:
        return _child(options)
    arguments = ["--runs", str(options.runs), "--seconds", str(options.seconds)]
    failed = False
    for parser in options.parsers or PARSERS:
        found, text = fuzz(parser, arguments, options.corpus)
        sys.stdout.write(f"{text}\n" if found is None else f"{text}\nkept in {found}\n")
        sys.stdout.flush()
        failed |= found is not None
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
