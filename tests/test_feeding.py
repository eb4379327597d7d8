"""Which units come next: resuming inside a stream, changed inputs, bounds, and inputs that break off."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

import tokenriver
from small_builds import files_of, manifest_of, small_build, some_texts, write_rows
from tokenriver.engines._unit import Job, Work
from tokenriver.errors import InputError, MismatchError
from tokenriver.feeding import Feeder
from tokenriver.inputs import InputFile, find_inputs
from tokenriver.parts import receipt_path
from tokenriver.types import SourceOptions
from tokenriver.units import Lot, make_lots

pytestmark = pytest.mark.usefixtures("quick_disk")


def rows_of(texts: list[str]) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "huge.jsonl.gz"
    path.write_bytes(gzip.compress(rows_of(some_texts(200)), mtime=0))
    return path


class Stopped(Exception):
    pass


def stop_after(units: int, out: Path, inputs: Path, **options: object) -> int:
    """A build that ends after some units; receipts that are there then."""
    seen = 0

    def stop(done: int, total: int) -> None:
        nonlocal seen
        seen += 1
        if seen == units:
            raise Stopped

    with pytest.raises(Stopped):
        small_build(inputs, out, progress=stop, **options)
    return len(list((out / ".build").glob("*.receipt")))


def test_one_huge_archive_goes_on_inside_itself(tmp_path: Path, archive: Path) -> None:
    """R041: progress inside a file is monotone, whatever stops the build after a few units each time."""
    total = small_build(archive, tmp_path / "undisturbed").units
    assert total > 12
    done = 0
    while done < total:
        left = min(3, total - done)
        now = stop_after(left, tmp_path / "out", archive)
        assert now == done + left
        done = now
    report = small_build(archive, tmp_path / "out")
    assert (report.units, report.resumed) == (total, total)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def test_a_missing_unit_in_the_middle_is_done_again(tmp_path: Path, archive: Path) -> None:
    total = small_build(archive, tmp_path / "undisturbed").units
    stop_after(total, tmp_path / "out", archive)
    receipt_path(tmp_path / "out" / ".build", (0, 4)).unlink()
    report = small_build(archive, tmp_path / "out")
    assert (report.units, report.resumed) == (total, total - 1)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def test_an_archive_that_was_changed_between_its_edges_is_found_when_it_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "stored.jsonl.gz"
    texts = some_texts(3000)
    path.write_bytes(gzip.compress(rows_of(texts), 0, mtime=0))
    stop_after(100, tmp_path / "out", path, unit_bytes=2048)
    data = path.read_bytes()
    at = data.index(b"abc de", 80_000)
    other = gzip.compress(rows_of(texts).replace(b"abc", b"xyz"), 0, mtime=0)
    path.write_bytes(data[:70_000] + other[70_000 : len(data) - 70_000] + data[len(data) - 70_000 :])
    assert 70_000 < at < len(data) - 70_000
    with pytest.raises(MismatchError, match=r"has changed since the build was begun \(before unit \d+ of it\)"):
        small_build(path, tmp_path / "out", unit_bytes=2048)


def test_a_truncated_archive_fails_after_the_others_are_done(tmp_path: Path) -> None:
    """R024: one of 20 archives is cut at half; it is replaced, and only it is read again."""
    folder = tmp_path / "in"
    folder.mkdir()
    whole = {f"{i:02}.jsonl.gz": gzip.compress(rows_of(some_texts(40, 100 * i)), mtime=0) for i in range(20)}
    for name, data in whole.items():
        (folder / name).write_bytes(data)
    small_build(folder, tmp_path / "undisturbed", unit_bytes=2048)
    (folder / "07.jsonl.gz").write_bytes(whole["07.jsonl.gz"][: len(whole["07.jsonl.gz"]) // 2])
    with pytest.raises(InputError) as error:
        small_build(folder, tmp_path / "out", unit_bytes=2048)
    assert str(error.value).startswith("1 of 20 inputs could not be read: ")
    assert "07.jsonl.gz: the gzip file ends inside a member: truncated at byte" in str(error.value)
    assert "decompressed bytes" in str(error.value)
    done = len(list((tmp_path / "out" / ".build").glob("*.receipt")))
    assert done >= 19
    (folder / "07.jsonl.gz").write_bytes(whole["07.jsonl.gz"])
    report = small_build(folder, tmp_path / "out", unit_bytes=2048)
    assert report.resumed >= 19
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def test_a_truncated_stream_is_replaced_or_removed(tmp_path: Path, archive: Path) -> None:
    whole = archive.read_bytes()
    write_rows(tmp_path / "in" / "rows.jsonl", some_texts(60, start=500))
    small_build(tmp_path / "in", tmp_path / "undisturbed")
    archive.write_bytes(whole[: len(whole) // 2])
    for out in ("replaced", "removed"):
        with pytest.raises(InputError, match=r"1 of 2 inputs could not be read: .*truncated"):
            small_build(tmp_path / "in", tmp_path / out)
    archive.unlink()
    small_build(tmp_path / "in", tmp_path / "removed")
    assert tokenriver.verify(tmp_path / "removed", against_inputs=True, inputs_root=tmp_path / "in") == []
    assert tokenriver.open_corpus(tmp_path / "removed").num_documents == 60
    archive.write_bytes(whole)
    report = small_build(tmp_path / "in", tmp_path / "replaced")
    assert report.resumed >= 3
    assert files_of(tmp_path / "replaced") == files_of(tmp_path / "undisturbed")


def test_only_an_input_that_failed_may_change(tmp_path: Path, archive: Path) -> None:
    other = write_rows(tmp_path / "in" / "rows.jsonl", some_texts(60, start=500))
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="truncated"):
        small_build(tmp_path / "in", tmp_path / "out")
    archive.write_bytes(whole)
    other.write_bytes(other.read_bytes() + b"\n")
    with pytest.raises(MismatchError, match=r"input 'rows\.jsonl' has changed"):
        small_build(tmp_path / "in", tmp_path / "out")


def test_max_tokens_starts_no_further_unit_and_says_what_is_unread(tmp_path: Path, archive: Path) -> None:
    write_rows(tmp_path / "in" / "later.jsonl", some_texts(60, start=500))
    every = small_build(tmp_path / "in", tmp_path / "all")
    report = small_build(tmp_path / "in", tmp_path / "out", max_tokens=3000)
    assert report.units < 6 < every.units
    manifest = manifest_of(tmp_path / "out")
    assert manifest["balance"]["unread_inputs"] == {"after": "huge.jsonl.gz", "inputs": 1, "unit": report.units - 1}
    assert manifest["sources"]["sha256"] == [None, None]
    assert manifest["sources"]["records"][1] == 0
    assert sum(manifest["balance"]["ids"]["kept"].values()) <= 3000
    exact = small_build(tmp_path / "in", tmp_path / "exact", max_tokens=every.num_tokens)
    assert (exact.units, manifest_of(tmp_path / "exact")["balance"]["unread_inputs"]) == (every.units, {})


def test_a_stream_read_to_its_end_is_not_decoded_again(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lots, work, found = _lots(tmp_path, archive)
    feeder = Feeder(lots, found, work, None, False)
    assert len(list(feeder.jobs())) > 12
    assert len(feeder.ends) == 1
    end = json.loads((tmp_path / "parts" / "s000000.end").read_bytes())
    assert end == {"plan": "tag", "units": len(feeder.issued), "sha256": feeder.ends[0]}
    again = Feeder(lots, found, work, None, False)
    assert len(list(again.jobs())) == len(feeder.issued)
    (tmp_path / "parts" / "s000000.end").write_bytes(b"{")
    assert len(list(Feeder(lots, found, work, None, False).jobs())) == len(feeder.issued)


def _lots(tmp_path: Path, path: Path) -> tuple[list[Lot], Work, list[InputFile]]:
    found = find_inputs([path])
    (tmp_path / "parts").mkdir()
    work = Work(tmp_path / "parts", "uint16", None, 256, 0.0, 1024, SourceOptions())
    return [replace(lot, tag="tag") for lot in make_lots(found, work.options, 1024)], work, found


def test_the_gate_samples_ever_fewer_units(tmp_path: Path, archive: Path) -> None:
    lots, work, found = _lots(tmp_path, archive)
    jobs: list[Job] = list(Feeder(lots, found, work, None, True).jobs())
    sampled = [number for number, job in enumerate(jobs, 1) if job.sample_bytes]
    assert sampled == [number for number in (1, 2, 4, 8, 16, 32, 64, 128) if number <= len(jobs)]
    assert all(0 <= job.sample_bytes <= 0.03 * 1024 + 1 for job in jobs)
    assert not any(job.sample_bytes for job in Feeder(lots, found, work, None, False).jobs())


def test_zstd_streams_go_on_too(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl.zst"
    path.write_bytes(zstandard.compress(rows_of(some_texts(200))))
    total = small_build(path, tmp_path / "undisturbed").units
    assert stop_after(5, tmp_path / "out", path) == 5
    assert small_build(path, tmp_path / "out").resumed == 5 < total
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")
