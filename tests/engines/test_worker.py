"""A worker process by itself: what it answers, in which order, and when it ends."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from small_builds import EOS, some_texts, write_rows
from tokenriver.engines._fates import Fates
from tokenriver.engines._pipe import receive, send
from tokenriver.engines._unit import Done, Job, Unreadable, Work
from tokenriver.engines.nursery import Nursery, TokenizerName
from tokenriver.engines.worker import job_from_json, job_to_json, read_reply, work_from_json, work_to_json
from tokenriver.errors import InputError, LimitError, RiverError
from tokenriver.types import Piece, SourceOptions
from tokenriver.units import Lot


class Worker:
    """The only worker of a nursery, without a pool."""

    def __init__(self, tokenizer: str) -> None:
        self.nursery = Nursery(1, TokenizerName(tokenizer, (), "fast"))
        self.fates = Fates(self.nursery)
        self.stdin = self.nursery.ends[0].to
        self.stdout = io.BufferedReader(self.nursery.ends[0].back)

    def send(self, head: dict[str, Any], payload: bytes = b"") -> None:
        send(self.stdin, head, [payload])

    def reply(self) -> Done | Unreadable:
        message = receive(self.stdout)
        assert message is not None
        return read_reply(*message)


@pytest.fixture
def worker() -> Iterator[Worker]:
    with opened("byte") as found:
        yield found


@contextmanager
def opened(tokenizer: str) -> Iterator[Worker]:
    found = Worker(tokenizer)
    with found.nursery:
        yield found


def work(folder: Path) -> Work:
    return Work(folder, "uint16", None, EOS, 0.25, 1024, SourceOptions("text", b"\n\xff", True, 99))


def a_job(number: int, path: Path, sample_bytes: int = 0, data: bytes | None = None, offset: int = 0) -> Job:
    piece = Piece(0, path, 0, path.stat().st_size if path.exists() else 9)
    lot = Lot(number, "jsonl", (piece,), ("",), ((0, 1),), data is not None, 0, "tag")
    return Job((number, 0), lot, sample_bytes, None if data is None else [data], offset, "ff" * offset)


def test_work_and_jobs_cross_as_plain_data(tmp_path: Path) -> None:
    assert work_from_json(work_to_json(work(tmp_path))) == work(tmp_path)
    job = a_job(3, tmp_path / "a", sample_bytes=5, offset=7)
    assert job_from_json(job_to_json(job), [b""]) == job
    stream = a_job(3, tmp_path / "a", data=b"text")
    assert job_from_json(job_to_json(stream), [b"text"]) == stream
    empty = a_job(3, tmp_path / "a", data=b"")
    assert job_from_json(job_to_json(empty), [b""]).data == [b""]


def test_answers_come_in_the_order_of_the_units(tmp_path: Path, worker: Worker) -> None:
    worker.send({"work": work_to_json(work(tmp_path))})
    paths = [write_rows(tmp_path / f"{i}.jsonl", some_texts(30, start=i)) for i in range(6)]
    paths[2] = tmp_path / "missing.jsonl"
    for number, path in enumerate(paths):
        worker.send({"job": job_to_json(a_job(number, path, sample_bytes=400))})
    worker.send({"end": True})
    answers = [worker.reply() for _ in paths]
    assert [a.key if isinstance(a, Unreadable) else a.receipt.key for a in answers] == [(i, 0) for i in range(6)]
    assert isinstance(answers[2], Unreadable)
    assert "missing.jsonl: cannot read" in answers[2].errors[0][1]
    first = answers[0]
    assert isinstance(first, Done)
    assert first.sample.ids.tolist() == list(b"".join(first.sample.texts))
    assert worker.fates.code(0) == 0


def test_errors_come_back_as_their_own_kind(tmp_path: Path, worker: Worker) -> None:
    with opened("no-such-encoding") as other, pytest.raises(InputError, match="no-such-encoding"):
        other.fates.born()
    with opened("no_such_package.tokenizer") as other, pytest.raises(InputError, match=r"no_such_package\.tokenizer"):
        other.reply()
    worker.send({"work": work_to_json(work(tmp_path / "missing"))})
    path = write_rows(tmp_path / "a.jsonl", ["a"])
    worker.send({"job": job_to_json(a_job(0, path))})
    with pytest.raises(InputError, match=r"u000000-000000\.part: cannot create"):
        worker.reply()
    worker.send({"job": {**job_to_json(a_job(0, path)), "key": None}})
    with pytest.raises(RiverError, match="worker: unexpected TypeError"):
        worker.reply()


def test_kinds_of_errors() -> None:
    with pytest.raises(LimitError, match="full"):
        read_reply({"error": "LimitError", "text": "full"}, b"")
    with pytest.raises(RiverError, match="strange"):
        read_reply({"error": "NoSuchError", "text": "strange"}, b"")


def test_a_worker_whose_parent_is_gone_ends_at_once(tmp_path: Path, worker: Worker) -> None:
    """Without the announced end a closed pipe means a dead parent: nothing half done is finished beside the rerun."""
    worker.stdin.close()
    assert worker.fates.code(0) == 1


def test_the_announced_end_lets_it_finish(tmp_path: Path, worker: Worker) -> None:
    worker.send({"work": work_to_json(work(tmp_path))})
    worker.send({"job": job_to_json(a_job(0, write_rows(tmp_path / "a.jsonl", some_texts(500))))})
    worker.send({"end": True})
    worker.stdin.close()
    assert isinstance(worker.reply(), Done)
    assert worker.fates.code(0) == 0
    assert (tmp_path / "u000000-000000.receipt").exists()
