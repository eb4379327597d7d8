"""The pool of workers: death, errors and interruption end it within moments, and leave a build that can go on."""

import errno
import gzip
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import tokenriver
from small_builds import QuickDisk, files_of, small_build, some_texts, write_rows
from tokenriver import crew, files
from tokenriver.engines import nursery
from tokenriver.engines._unit import Job
from tokenriver.engines.local import Pool
from tokenriver.engines.nursery import Nursery, TokenizerName
from tokenriver.errors import InputError, RiverError
from tokenriver.feeding import Feeder

OPTIONS: dict[str, object] = {"workers": 3, "unit_bytes": 2048}
PATIENCE = 60


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Pool]:
    """The pools of worker processes, as they are started."""
    found: list[Pool] = []

    def noting(given: Nursery) -> Pool:
        found.append(Pool(given))
        return found[-1]

    monkeypatch.setattr(crew, "Pool", noting)
    monkeypatch.setattr(files, "system", QuickDisk())
    return found


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", some_texts(400))


def gone(pools: list[Pool]) -> bool:
    """Has every process of every pool ended, workers and all?"""
    born = [pool._fates._born for pool in pools]
    pids = [pid for found in born if found is not None for pid in found.pids]
    return not any(alive(pid) for pid in [*pids, *(pool._nursery.process.pid for pool in pools)])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


DYING = """
import os, pathlib
def keep(texts):
    if {marker!r} in texts and pathlib.Path({order!r}).exists():
        os.kill(os.getpid(), {number})
    return [True] * len(texts)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_is_killed_is_named_with_its_unit(
    tmp_path: Path, rows: Path, started: list[Pool], number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R135. It dies inside a unit, of a filter that is told to."""
    order, name = tmp_path / "die", f"dying_of_{int(number)}"
    marker = some_texts(400)[300].encode()
    (tmp_path / f"{name}.py").write_text(DYING.format(marker=marker, order=str(order), number=int(number)))
    monkeypatch.syspath_prepend(tmp_path)
    options = {**OPTIONS, "filter": f"{name}.keep"}
    small_build(rows, tmp_path / "undisturbed", **{**options, "workers": 1})
    started.clear()
    order.touch()
    with pytest.raises(RiverError) as error:
        small_build(rows, tmp_path / "out", **options)
    expected = rf"worker [0-2]: died \(killed by signal {int(number)}\) at unit \d+-0 of "
    assert re.match(expected + re.escape(str(rows)), str(error.value))
    assert "run the same command again" in str(error.value)
    assert len(started[0].born().pids) == 3 + 1  # and the gate's
    assert gone(started)
    order.unlink()
    assert small_build(rows, tmp_path / "out", **options).resumed >= 2
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def test_a_worker_that_is_killed_between_units_is_named(
    tmp_path: Path, rows: Path, started: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = threading.Event()
    jobs = Feeder.jobs

    def first_alone(feeder: Feeder) -> Iterator[Job]:
        every = jobs(feeder)
        yield next(every)
        assert seen.wait(PATIENCE)
        number = next(number for number, member in enumerate(started[0]._members) if member._sent)
        os.kill(started[0].born().pids[number], signal.SIGKILL)
        started[0]._members[number]._threads[1].join()  # what it did not answer is noticed before anything else is sent
        yield from every

    monkeypatch.setattr(Feeder, "jobs", first_alone)
    with pytest.raises(RiverError, match=r"worker [0-2]: died \(killed by signal 9\) between units; run the same"):
        small_build(rows, tmp_path / "out", progress=lambda *_: seen.set(), **OPTIONS)
    assert gone(started)


def test_a_worker_that_cannot_start_is_named(
    tmp_path: Path, rows: Path, started: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nursery, "BOOT", "import sys; sys.exit(3)")
    with pytest.raises((RiverError, BrokenPipeError), match=r"worker \d: died \(exit status 3\)"):
        small_build(rows, tmp_path / "out", **OPTIONS)
    assert gone(started)


def test_an_error_in_a_worker_is_the_builds(tmp_path: Path, rows: Path, started: list[Pool]) -> None:
    taken = tmp_path / "out" / ".build" / ".u000015-000000.part.tmp"

    def spoil(done: int, total: int) -> None:
        taken.mkdir(exist_ok=True)

    with pytest.raises(InputError, match=r"u000015-000000\.part: cannot create: Is a directory"):
        small_build(rows, tmp_path / "out", progress=spoil, **OPTIONS)
    assert gone(started)
    taken.rmdir()
    assert small_build(rows, tmp_path / "out", **OPTIONS).resumed >= 5
    with pytest.raises(InputError, match="no-such-encoding"):
        small_build(rows, tmp_path / "other", tokenizer="no-such-encoding", **OPTIONS)
    assert gone(started)


def test_an_exception_of_the_caller_ends_the_workers(tmp_path: Path, rows: Path, started: list[Pool]) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_build(rows, tmp_path / "out", progress=interrupt, **OPTIONS)
    assert gone(started)
    report = small_build(rows, tmp_path / "out", **OPTIONS)
    assert report.resumed >= 1
    assert tokenriver.verify(tmp_path / "out") == []


def test_a_signal_in_the_middle_of_a_build(tmp_path: Path, rows: Path, started: list[Pool]) -> None:
    """Control-C reaches the main thread while it waits for its workers."""
    first = threading.Event()

    def seen(done: int, total: int) -> None:
        if not first.is_set():
            first.set()
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        small_build(write_rows(tmp_path / "more.jsonl", some_texts(4000)), tmp_path / "out", progress=seen, **OPTIONS)
    assert gone(started)
    assert not any("tokenriver" in thread.name for thread in threading.enumerate())


def test_a_complete_corpus_lets_the_workers_go(tmp_path: Path, rows: Path, started: list[Pool]) -> None:
    small_build(rows, tmp_path / "out", unit_bytes=2048)
    assert small_build(rows, tmp_path / "out", **OPTIONS).complete_before
    assert len(started) == 1
    assert gone(started)
    with pytest.raises(InputError):
        small_build(tmp_path / "missing", tmp_path / "out", **OPTIONS)
    assert len(started) == 1


def test_the_callers_settings_are_left_alone(tmp_path: Path, rows: Path) -> None:
    """R131, R138: encoding in the parent first, a start method that was set already, two builds in a row, one from a
    thread: nothing hangs and nothing global has changed."""
    tokenriver.load_tokenizer("gpt2").encode("once in the parent")
    before: list[Callable[[], object]] = [
        lambda: multiprocessing.get_start_method(allow_none=True),
        lambda: signal.getsignal(signal.SIGINT),
        lambda: signal.getsignal(signal.SIGCHLD),
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, []),
        lambda: sys.getswitchinterval(),
        lambda: dict(os.environ),
    ]
    values = [value() for value in before]
    for number in range(2):
        small_build(rows, tmp_path / f"{number}", **OPTIONS)
    thread = threading.Thread(target=small_build, args=(rows, tmp_path / "thread"), kwargs=OPTIONS)
    thread.start()
    thread.join()
    assert files_of(tmp_path / "0") == files_of(tmp_path / "1") == files_of(tmp_path / "thread")
    assert [value() for value in before] == values


SCRIPT = """
import multiprocessing
import sys
import tokenriver

multiprocessing.set_start_method("fork")
print("script")
for out in sys.argv[2:]:
    tokenriver.build(sys.argv[1], out, tokenizer="byte", unit_bytes=2048, workers=2)
"""


def test_an_unguarded_script_is_not_run_again_by_its_workers(tmp_path: Path, rows: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, str(tmp_path / "script.py"), str(rows), str(tmp_path / "a"), str(tmp_path / "b")]
    ran = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "script\n"
    assert ran.stderr == ""
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_the_gates_process_that_is_killed_stops_the_build(tmp_path: Path, rows: Path, started: list[Pool]) -> None:
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if not killed:
            killed.append(started[0].born().pids[-1])
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(RiverError, match=r"encoder check: its process died \(killed by signal 9\); run the same"):
        small_build(rows, tmp_path / "out", progress=kill, tokenizer="gpt2", workers=2, unit_bytes=1 << 14)
    assert gone(started)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_build_outlives_its_nursery_but_not_its_workers(tmp_path: Path, rows: Path, started: list[Pool]) -> None:
    """What the nursery knows of its workers is asked only about those that did not say that they had ended."""

    def kill(done: int, total: int) -> None:
        pids = started[-1].born().pids
        started[-1]._nursery.process.kill()
        if len(started) > 1:
            with suppress(ProcessLookupError):
                os.kill(pids[0], signal.SIGKILL)

    small_build(rows, tmp_path / "outlived", progress=kill, **OPTIONS)
    with pytest.raises(RiverError, match=r"worker 0: died \(killed by signal 9\) (at|between) "):
        small_build(rows, tmp_path / "out", progress=kill, **OPTIONS)
    assert small_build(rows, tmp_path / "out", **OPTIONS).resumed >= 1
    assert files_of(tmp_path / "out") == files_of(tmp_path / "outlived")


@pytest.mark.parametrize("broken", ["memfd_create", "ftruncate"])
def test_without_shared_memory_text_goes_over_the_pipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """A system that has no files in memory, and a limit on the size of files."""
    path = write_rows(tmp_path / "rows.jsonl", some_texts(400))
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    shorten = os.ftruncate

    def refuse(fd: int, size: int) -> None:
        if "memfd" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EFBIG, "File too large")
        shorten(fd, size)

    small_build(packed, tmp_path / "shared", **OPTIONS)
    if broken == "ftruncate":
        monkeypatch.setattr(os, "ftruncate", refuse)
    else:
        monkeypatch.delattr(os, broken)
    assert small_build(packed, tmp_path / "piped", **OPTIONS).units > 10
    assert files_of(tmp_path / "piped") == files_of(tmp_path / "shared")


def test_a_nursery_begun_before_is_the_builds(tmp_path: Path, rows: Path, started: list[Pool]) -> None:
    begun = Nursery(2, TokenizerName("byte", (), "fast"))
    small_build(rows, tmp_path / "out", **{**OPTIONS, "workers": begun})
    assert [pool._nursery for pool in started] == [begun]
    assert gone(started)
    begun.close()
    with Nursery(2, TokenizerName("byte", (), "fast")) as unused:
        pass
    assert unused.process.returncode is not None


def test_a_nursery_may_be_told_later_which_tokenizer_it_is(tmp_path: Path, rows: Path, started: list[Pool]) -> None:
    with Nursery(2, None) as begun:
        small_build(rows, tmp_path / "out", **{**OPTIONS, "workers": begun})
        assert [pool._nursery for pool in started] == [begun]
    small_build(rows, tmp_path / "undisturbed", unit_bytes=2048)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")
    with Nursery(2, None) as unused:
        assert unused.process.poll() is None
    assert unused.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("expected", ["gpt2", "there-is-none"])
def test_a_nursery_may_expect_a_tokenizer_rightly_or_not(
    tmp_path: Path, rows: Path, started: list[Pool], expected: str
) -> None:
    with Nursery(2, None, expected) as begun:
        small_build(rows, tmp_path / "out", tokenizer="gpt2", workers=begun, unit_bytes=1 << 15)
        assert started[0].born().encoder == "fast"
    small_build(rows, tmp_path / "undisturbed", tokenizer="gpt2", unit_bytes=1 << 15)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def test_what_is_expected_starts_no_thread_which_a_fork_would_not_survive() -> None:
    code = "import os; from tokenriver.engines import _hatch; assert _hatch._ready('gpt2')"
    code += "; print(len(os.listdir('/proc/self/task')))"
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, env=environment, timeout=PATIENCE
    )
    assert ran.stdout == b"1\n"


def test_a_tokenizer_of_someone_elses_is_loaded_by_every_worker(
    tmp_path: Path, rows: Path, monkeypatch: pytest.MonkeyPatch, started: list[Pool]
) -> None:
    """It may start threads, which would not survive a fork."""
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "words.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    small_build(rows, tmp_path / "out", **{**OPTIONS, "tokenizer": "my_lab.words"})
    assert started[0].born().encoder is None
    small_build(rows, tmp_path / "byte", **OPTIONS)
    ids = {name: data for name, data in files_of(tmp_path / "out").items() if name.endswith(".bin")}
    assert ids == {name: data for name, data in files_of(tmp_path / "byte").items() if name.endswith(".bin")}


OWN = """
import threading
from tokenriver.tokenizers import byte

threading.Thread(target=threading.Event().wait, daemon=True).start()
load = byte.load
"""
