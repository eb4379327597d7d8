"""Builds on failing disks: run one, look at what it left, run it again, and compare with an undisturbed build.

Every violation is an AssertionError, so that a test of the harness itself can expect one from a sabotaged package.
"""

import importlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tokenriver
from faulty_disks import Died, FaultyDisk, LyingDisk, RecordingDisk, lost_power
from small_builds import QuickDisk, files_of, small_build, some_texts, write_rows
from tokenriver import duplicates, early, files
from tokenriver.build import BuildReport
from tokenriver.convert import ConvertReport
from tokenriver.errors import RiverError
from tokenriver.sft import SftReport

BUILD = importlib.import_module("tokenriver.build")

CORPUS = "corpus"
"""The build's folder, below the place that is recorded."""


@dataclass(frozen=True)
class Scenario:
    """One build: its inputs and options, the files that an earlier build had left, and those that it has to leave."""

    inputs: list[Path]
    options: dict[str, Any]
    old: dict[str, bytes]
    new: dict[str, bytes]
    early: bool = False
    """Shards are begun while units are still being encoded, as they are where workers do the units."""
    convert: bool = False
    """The inputs are corpora that are converted."""
    examples: bool = False
    """The inputs are records of fine-tuning data."""
    run_documents: int | None = None
    """So few documents are looked at in memory for duplicates; the others go through scratch files."""

    def begin(self, place: Path) -> Path:
        """A place with the earlier corpus, if there is one."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, data in self.old.items():
            path = place / CORPUS / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return place / CORPUS

    def build(self, out: Path) -> BuildReport | ConvertReport | SftReport:
        if self.examples:
            return tokenriver.sft(self.inputs, out, **self.options)
        if self.convert:
            return tokenriver.convert(self.inputs, out, **self.options)
        with pytest.MonkeyPatch.context() as patch:
            if self.early:
                begin_shards_early(patch)
            if self.run_documents is not None:
                patch.setattr(duplicates, "RUN_DOCUMENTS", self.run_documents)
            return small_build(self.inputs, out, **self.options)


def one_shot(folder: Path) -> Scenario:
    """A group of small files and a stream, bad rows, two shards."""
    inputs = _inputs(folder)
    options = {"separator": "|", "shard_tokens": 1500}
    small_build(inputs, folder / "undisturbed", **options)
    return Scenario(inputs, options, {}, files_of(folder / "undisturbed"))


def begun_early(folder: Path) -> Scenario:
    """Three shards, of which two are begun while units are still being done, and the second is cut at the end."""
    inputs = _inputs(folder)
    options = {"separator": "|", "shard_tokens": 700}
    small_build(inputs, folder / "undisturbed", **options)
    return Scenario(inputs, options, {}, files_of(folder / "undisturbed"), early=True)


def begin_shards_early(patch: pytest.MonkeyPatch) -> None:
    """Have the shards begun early although the units are done in this process, and that at once instead of in a thread
    beside it, so that a build makes the same calls each time."""
    offer, options = early.EarlyShards.offer, BUILD._early_options

    def at_once(self: early.EarlyShards) -> None:
        failed = self._target and not self._begun
        offer(self)
        if self._options is not None and not failed:
            self._todo.put(None)
            self._run()

    patch.setattr(early, "threading", SimpleNamespace(Thread=_NoThread))
    patch.setattr(early.EarlyShards, "offer", at_once)
    patch.setattr(BUILD, "_early_options", lambda request, before, workers: options(request, before, 1))


class _NoThread:
    def __init__(self, **_: object) -> None:
        pass

    def start(self) -> None:
        pass

    def is_alive(self) -> bool:
        return False


def without_duplicates(folder: Path) -> Scenario:
    """Texts that come again in their own unit, in another and in another input; some units lose all their documents."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = some_texts(12)
    rows = write_rows(folder / "rows.jsonl", [*texts, *texts[3:9], *texts])
    text = folder / "text.txt"
    text.write_bytes("|".join([*texts[:5], *some_texts(6, start=40), *texts]).encode() + b"|\xff\xfe|")
    options = {"separator": "|", "shard_tokens": 700, "filter": "exact-dedup", "max_bad": 1.0}
    small_build([rows, text], folder / "undisturbed", **options)
    return Scenario([rows, text], options, {}, files_of(folder / "undisturbed"), run_documents=17)


def appended_without_duplicates(folder: Path) -> Scenario:
    """Texts that come again, in the corpus that is appended to and in what is appended."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = some_texts(12)
    first = write_rows(folder / "first.jsonl", [*texts[:6], *texts[3:8]])
    second = write_rows(folder / "second.jsonl", [*texts[5:], *texts])
    options = {"val_fraction": 0.25, "filter": "exact-dedup"}
    out = folder / "undisturbed"
    small_build(first, out, **options)
    old = files_of(out)
    small_build(second, out, append=True, **options)
    return Scenario([second], {**options, "append": True}, old, files_of(out), run_documents=5)


def appended(folder: Path) -> Scenario:
    """A stream with a bad row behind a corpus that has bad rows too, both with a validation split."""
    inputs = _inputs(folder)
    options = {"separator": "|", "val_fraction": 0.25}
    out = folder / "undisturbed"
    small_build(inputs[:1], out, **options)
    old = files_of(out)
    small_build(inputs[1:], out, append=True, **options)
    return Scenario(inputs[1:], {**options, "append": True}, old, files_of(out))


def converted(folder: Path, format: str) -> Scenario:
    """Two corpora with a validation split, joined in another format."""
    inputs = _inputs(folder)
    corpora = [folder / "first", folder / "second"]
    for data, corpus in zip(inputs, corpora, strict=True):
        small_build(data, corpus, separator="|", val_fraction=0.25)
    options = {"format": format}
    tokenriver.convert(corpora, folder / "undisturbed", format=format)
    return Scenario(corpora, options, {}, files_of(folder / "undisturbed"), convert=True)


def examples(folder: Path) -> Scenario:
    """A corpus with loss masks, two splits and several shards, and a bad row."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"prompt": text, "completion": text.upper()} for text in some_texts(12)]
    lines = [json.dumps(row) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join([*lines, "no row"]))
    options: dict[str, Any] = {"tokenizer": "byte", "val_fraction": 0.3, "shard_tokens": 400}
    tokenriver.sft([folder / "rows.jsonl"], folder / "undisturbed", **options)
    return Scenario([folder / "rows.jsonl"], options, {}, files_of(folder / "undisturbed"), examples=True)


def built_as(folder: Path, format: str) -> Scenario:
    """A build that writes another format, with a validation split and several shards."""
    inputs = _inputs(folder)
    options = {"separator": "|", "val_fraction": 0.25, "format": format}
    small_build(inputs, folder / "undisturbed", **options)
    return Scenario(inputs, options, {}, files_of(folder / "undisturbed"))


def _inputs(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    rows = write_rows(folder / "rows.jsonl", some_texts(9))
    rows.write_bytes(rows.read_bytes() + b"no row\n")
    text = folder / "text.txt"
    text.write_bytes("|".join(some_texts(12, start=40)).encode() + b"|\xff\xfe|")
    return [rows, text]


# ------------------------------------------------------------------------------------------------ what must hold


def check_left(scenario: Scenario, out: Path, *, new: bool = False) -> None:
    """Nothing torn is readable: no corpus, the earlier one, or the new one, each whole. `new`: only that will do."""
    left = files_of(out) if out.exists() else {}
    manifest = left.get("manifest.json")
    if manifest is None:
        assert not new, "the finished corpus is gone"
        assert not scenario.old, "the earlier corpus is gone"
        _refuses(out)
        return
    if manifest == scenario.new["manifest.json"]:
        expected = scenario.new
    else:
        assert scenario.old, "a manifest of no corpus"
        assert not new, "the finished corpus is the earlier one"
        expected = scenario.old
    for name, data in expected.items():
        found = left.get(name, b"")
        whole = found == data or (name == "bad_rows.jsonl" and found.startswith(data))
        assert whole, f"{name} is torn"
    corpus = tokenriver.open_corpus(out)
    corpus.read(0, corpus.num_tokens)
    corpus.document(0)
    findings = tokenriver.verify(out)
    assert not findings, f"verify found {findings[0]}"


def _refuses(out: Path) -> None:
    try:
        tokenriver.open_corpus(out)
    except RiverError:
        return
    raise AssertionError("opened without a manifest")


def check_rerun(scenario: Scenario, out: Path) -> BuildReport | ConvertReport | SftReport:
    """The same command again ends with the files of the undisturbed build and no other."""
    try:
        report = scenario.build(out)
    except RiverError as error:
        raise AssertionError(f"the rerun failed: {error}") from error
    found = files_of(out)
    assert found.keys() == scenario.new.keys(), f"other files: {sorted(found.keys() ^ scenario.new.keys())}"
    for name, data in scenario.new.items():
        same = found[name] == data
        assert same, f"{name} differs"
    return report


# ------------------------------------------------------------------------------------------------ every call


def count_calls(scenario: Scenario, place: Path) -> list[str]:
    """Names of all calls that an undisturbed build makes."""
    disk = FaultyDisk()
    out = scenario.begin(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "system", disk)
        scenario.build(out)
    return disk.calls


def strike(scenario: Scenario, place: Path, at: int, fault: str) -> tuple[FaultyDisk, str]:
    """A build during which call `at` goes wrong, and how it ended: "done", "died" or the error's text."""
    disk = FaultyDisk(at, fault)
    out = scenario.begin(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "system", disk)
        try:
            scenario.build(out)
        except Died:
            return disk, "died"
        except RiverError as error:
            return disk, str(error)
    return disk, "done"


def every_call(scenario: Scenario, place: Path, fault: str, step: int = 1, *, others: bool = False) -> int:
    """Let every `step`-th call of a build go wrong in turn, or all the `others`, check what is left and run again;
    number of faults."""
    assert step > 1 or not others
    struck, at = 0, int(others)
    while True:
        disk, end = strike(scenario, place, at, fault)
        out = place / CORPUS
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "system", QuickDisk())
            if not disk.struck:
                assert end == "done"
                return struck
            context = f"call {at} ({disk.calls[at]}), {fault}"
            try:
                _judge(scenario, out, fault, (disk.calls[at], end))
                check_rerun(scenario, out)
            except AssertionError as error:
                raise AssertionError(f"{context}: {error}") from error
        struck, at = struck + 1, at + 1
        while (at % step > 0) is not others:
            at += 1


def _judge(scenario: Scenario, out: Path, fault: str, what: tuple[str, str]) -> None:
    call, end = what
    # a head start that fails is done again; only a disk that stays full stops the build
    once = call in HARD and not scenario.early
    must_fail = {"die": True, "short": False, "full": call in HARD, "eio": once}[fault]
    assert end != "done" or not must_fail, "the build went on as if nothing had happened"
    check_left(scenario, out, new=end == "done")


HARD = ("create", "write", "pwrite", "copy", "truncate", "fsync", "replace", "mkdir")
"""Calls without which there is no file: their failure is never passed over."""


def every_lie(scenario: Scenario, place: Path) -> int:
    """A disk that writes something else than it was given, at each writing call: no corpus comes of it; number of
    lies."""
    at = 0
    while True:
        disk = LyingDisk(at)
        out = scenario.begin(place)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "system", disk)
            try:
                scenario.build(out)
                told = ""
            except RiverError as error:
                told = str(error)
            patch.setattr(files, "system", QuickDisk())
            if disk.calls <= at:
                assert not told
                return at
            assert not told or "run the same command again" in told, f"lie {at}: got {told!r}"
            check_left(scenario, out, new=not told)
            check_rerun(scenario, out)
        at += 1


# ------------------------------------------------------------------------------------------------ lost power


def record(scenario: Scenario, place: Path) -> Iterator[tuple[bool, Path]]:
    """(the build had returned, folder) of every state in which lost power may leave the disk of a build."""
    scenario.begin(place / "live")
    disk = RecordingDisk(place / "live")
    initial = disk.initial()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "system", disk)
        scenario.build(place / "live" / CORPUS)
    for number, state in lost_power(initial, disk.log):
        root = place / "state"
        shutil.rmtree(root, ignore_errors=True)
        state.write_to(root)
        yield number == len(disk.log), root


def every_loss_of_power(scenario: Scenario, place: Path) -> int:
    """Check every state after lost power, and run the build again in it; number of states."""
    count = 0
    for returned, root in record(scenario, place):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "system", QuickDisk())
            check_left(scenario, root / CORPUS, new=returned)
            check_rerun(scenario, root / CORPUS)
        count += 1
    return count
