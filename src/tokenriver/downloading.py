"""Many files fetched at once, each from where it stopped: parts, tries, checks, and the rename that is the commit.

A thread takes one file at a time, and another gives them their names. A connection that breaks is taken up at the byte
where it broke, a server that has another version by then gives all of it anew, and a file has its name only when size
and digest are right.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenriver import files, registry
from tokenriver.arrivals import check_present, check_size, is_right, refuse_page
from tokenriver.errors import InputError, MismatchError
from tokenriver.finishing import Finisher
from tokenriver.partfile import PartFile
from tokenriver.room import Room
from tokenriver.wire import Access, Answer, Download, Store, TryAgain, scheme, shown

THREADS = 8
TRIES = 6
"""Tries in a row that bring no byte."""
LONGEST_WAIT = 60.0
PATIENCE = 900.0
"""The longest wait that a server may ask for."""
STORES = {"http": "http", "https": "http", "file": "store", "s3": "store", "gs": "store", "gcs": "store"}
"""Scheme of an address -> key of the registry of stores."""
Sleep = Callable[[float], object]
Progress = Callable[[int, int], None]
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DownloadReport:
    """What a call of `fetch` did."""

    files: int
    fetched_files: int
    fetched_bytes: int
    """That came over the wire in this call."""
    resumed: int
    """Files whose beginning was there from before."""
    tries_again: int


def fetch(
    downloads: Sequence[Download],
    *,
    access: Access,
    sleep: Sleep,
    threads: int = THREADS,
    progress: Progress | None = None,
    note: Note | None = None,
) -> DownloadReport:
    """Fetch the files that are not there yet, `threads` at once. `sleep(seconds)` waits between tries (at most a second
    a call), `progress(done, total)` gets bytes, `note` a line for each new try; both from any thread, one at a time.

    Raises InputError for what cannot be had, MismatchError for a wrong size or digest, LimitError for too little space
    and MissingPackageError. What came by then stays in parts for the next call."""
    _check(downloads)
    run = _Run(access, sleep, progress or _ignore, note or _ignore, sum(item.size or 0 for item in downloads))
    threads = max(1, min(threads, len(downloads)))
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="fetch")
    try:
        items = iter(downloads)
        futures: list[Future[None]] = [pool.submit(_work, run, items) for _ in range(threads)]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            run.result(future)
    finally:
        run.stopped.set()
        run.close()
        pool.shutdown(wait=True, cancel_futures=True)
        run.finisher.close()
    if run.failure is not None:
        raise run.failure
    return DownloadReport(len(downloads), run.fetched_files, run.fetched_bytes, run.resumed, run.tries_again)


def _check(downloads: Sequence[Download]) -> None:
    seen: dict[Path, str] = {}
    for item in downloads:
        if scheme(item.url) not in STORES:
            raise InputError(f"{shown(item.url)}: got no address of {', '.join(sorted(STORES))}; check the address")
        if item.path in seen:
            raise InputError(f"{item.path}: wanted twice, from {shown(seen[item.path])} and {shown(item.url)}")
        seen[item.path] = item.url


def _ignore(*_: object) -> None:
    """Nobody wants to know."""


@dataclass(slots=True)
class _Run:
    """What the threads of one call share."""

    access: Access
    sleep: Sleep
    progress: Progress
    note: Note
    total: int
    done: int = 0
    fetched_files: int = 0
    fetched_bytes: int = 0
    resumed: int = 0
    tries_again: int = 0
    seen: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """(bytes that are there, bytes of the whole) of each file, as far as they are known."""
    folders: set[Path] = field(default_factory=set)
    room: Room = field(default_factory=Room)
    stores: dict[str, Store] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None
    lock: Any = field(default_factory=threading.Lock)
    finisher: Finisher = field(init=False)

    def __post_init__(self) -> None:
        self.finisher = Finisher(self.fail)

    def store(self, url: str) -> Store:
        """The store of an address, opened once."""
        key = STORES[scheme(url)]
        with self.lock:
            if self.stopped.is_set():
                raise TryAgain("the download was stopped")
            if key not in self.stores:
                self.stores[key] = registry.load("remotes", key).open_store(self.access)
            return self.stores[key]

    def make_folder(self, folder: Path) -> None:
        """Once each: it is a wait for the disk."""
        with self.lock:
            if folder not in self.folders:
                files.make_folder(folder)
                self.folders.add(folder)

    def close(self) -> None:
        """Break off what is still open."""
        with self.lock:
            for store in self.stores.values():
                store.close()

    def tell(self, wanted: Download, have: int, size: int | None, fetched: int = 0) -> None:
        """How far a file is, and how many bytes of it came over the wire just now."""
        with self.lock:
            before, whole = self.seen.get(wanted.path, (0, wanted.size or 0))
            if not fetched and (have, size or whole) == (before, whole):
                return
            self.seen[wanted.path] = have, size or whole
            self.done += have - before
            self.total += (size or whole) - whole
            self.fetched_bytes += fetched
            self.progress(self.done, max(self.total, self.done))

    def wait(self, seconds: float, why: str) -> None:
        """Sleep in steps short enough that Ctrl-C is heard."""
        with self.lock:
            self.tries_again += 1
            self.note(f"{why}; trying again in {seconds:g} s")
        while seconds > 0 and not self.stopped.is_set():
            self.sleep(min(seconds, 1.0))
            seconds -= 1.0

    def fail(self, error: BaseException) -> None:
        """Stop the others; the first failure is the one that is told, not what it brought about."""
        with self.lock:
            self.failure = self.failure or error
        self.stopped.set()
        self.close()

    def result(self, future: "Future[None]") -> None:
        """Raise what a file failed of."""
        try:
            future.result()
        except BaseException:
            if self.failure is not None:
                raise self.failure from None
            raise


def _work(run: _Run, items: Iterator[Download]) -> None:
    """Take one after another until none is left."""
    while True:
        with run.lock:
            item = next(items, None)
        if item is None:
            return
        _one(run, item)


def _one(run: _Run, wanted: Download) -> None:
    if run.stopped.is_set():
        return
    try:
        if wanted.path.exists():
            check_present(wanted)
            size = wanted.path.stat().st_size
            run.tell(wanted, size, size)
            return
        run.make_folder(wanted.path.parent)
        _fetch(run, wanted)
    except BaseException as error:
        run.fail(error)
        raise


def _fetch(run: _Run, wanted: Download) -> None:
    part = PartFile(wanted.path)
    try:
        resumed = part.num_bytes > 0 and _goes_on(wanted, part)
        _stream_all(run, wanted, part)
        if resumed and not is_right(wanted, part.sha256):
            part.forget()  # it was of another version, or somebody meddled with it: once more, from nothing
            _stream_all(run, wanted, part)
        if not is_right(wanted, part.sha256):
            raise MismatchError(
                f"{shown(wanted.url)}: sha256: got {part.sha256}, expected {wanted.sha256}; the file has "
                "changed there or was damaged on the way; try again, or another --base-url"
            )
        part.hurry()
    except BaseException as error:
        part.set_aside(error)
        raise
    run.finisher.add(part)
    with run.lock:
        run.fetched_files += 1
        run.resumed += resumed


def _goes_on(wanted: Download, part: PartFile) -> bool:
    """Can more be added to this part? Not if nothing would show that it is of another version."""
    return bool(part.tag or wanted.sha256)


def _stream_all(run: _Run, wanted: Download, part: PartFile) -> None:
    """Try until the file is whole."""
    idle, furthest = 0, part.num_bytes
    while part.size is None or part.num_bytes < part.size or not part.num_bytes:
        try:
            _stream(run, wanted, part)
            return
        except TryAgain as reason:
            idle = 0 if part.num_bytes > furthest else idle + 1
            furthest = max(furthest, part.num_bytes)
            if run.stopped.is_set():
                raise
            pause = min(2.0**idle, LONGEST_WAIT) if reason.wait is None else reason.wait
            if idle >= TRIES or pause > PATIENCE:
                asked = f" (the server asks to wait {pause:g} s)" if pause > PATIENCE else f" after {TRIES} tries"
                raise InputError(
                    f"{shown(wanted.url)}: {reason}{asked}; {part.num_bytes} bytes are kept, run the same command later"
                ) from reason
            run.wait(pause, f"{shown(wanted.url)}: {reason}")


def _stream(run: _Run, wanted: Download, part: PartFile) -> None:
    """One try, from where the part ends."""
    store = run.store(wanted.url)
    answer = store.open(wanted.url, part.num_bytes if _goes_on(wanted, part) else 0, wanted.token)
    try:
        if answer.start and (answer.tag, answer.size) != (part.tag, part.size):
            answer.close()
            answer = store.open(wanted.url, 0, wanted.token)
        if not answer.start:
            check_size(wanted, answer.size)
            part.begin(answer.size, answer.tag)
        run.tell(wanted, part.num_bytes, answer.size)
        run.room.take(wanted.path, (answer.size or 0) - part.num_bytes)
        _copy(run, wanted, part, answer)
    finally:
        answer.close()


def _copy(run: _Run, wanted: Download, part: PartFile, answer: Answer) -> None:
    most = answer.size if answer.size is not None else wanted.size
    while data := answer.read():
        if not part.num_bytes:
            refuse_page(wanted, data)
        if most is not None and part.num_bytes + len(data) > most:
            raise MismatchError(
                f"{shown(wanted.url)}: size: got more than the {most} bytes expected; try another mirror"
            )
        part.write(data)
        run.tell(wanted, part.num_bytes, answer.size, len(data))
        if run.stopped.is_set():
            raise TryAgain("the download was stopped")
    if answer.size is not None and part.num_bytes < answer.size:
        raise TryAgain(f"got {part.num_bytes} of {answer.size} bytes")
    check_size(wanted, part.num_bytes)
