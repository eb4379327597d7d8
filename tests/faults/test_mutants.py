"""Sabotage: the package is made wrong in one place, and the check that should see it has to fail. A harness is trusted
because its mutants are caught."""

import gzip
import importlib
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fault_harness import Scenario, appended, every_call, every_lie, every_loss_of_power, one_shot
from faulty_disks import DIE, EIO, SHORT
from naive_builds import BAD, Input, Wanted, compare, naive
from small_builds import documents, files_of, framed, must_equal, small_build, some_texts, write_rows
from tokenriver import (
    assembly,
    badrows,
    buildfolder,
    buildplan,
    commit,
    digests,
    feeding,
    files,
    inputs,
    parts,
    sampler,
    shards,
    units,
)
from tokenriver.engines import _unit
from tokenriver.engines._sieve import Sieve
from tokenriver.errors import InputError, LimitError, MismatchError, RiverError
from tokenriver.manifest import Manifest
from tokenriver.parts import Receipt
from tokenriver.sources import text
from tokenriver.tokenizers.byte import BYTE
from tokenriver.types import Bools, Ids, Int64, SourceOptions, UInt64

Patch = pytest.MonkeyPatch
BUILD = importlib.import_module("tokenriver.build")


pytestmark = pytest.mark.usefixtures("quick_disk")


# ------------------------------------------------------------------------------------- the disk and what is left on it


def no_sync_of_files(patch: Patch) -> None:
    patch.setattr(files.AtomicFile, "sync", lambda self: None)


def no_sync_of_folders(patch: Patch) -> None:
    patch.setattr(files, "sync_folder", lambda folder: None)


def rename_before_sync(patch: Patch) -> None:
    def commit_(self: files.AtomicFile, *, synced: bool = False) -> None:
        fd, self._fd = self._fd, -1
        files.system.replace(self._temporary, self.path)
        files.sync_folder(self.path.parent)
        files.system.fsync(fd)
        files.system.close(fd)

    patch.setattr(files.AtomicFile, "commit", commit_)


def written_in_place(patch: Patch) -> None:
    for module in (files, shards):
        patch.setattr(module, "temporary_name", lambda path: path)


def manifest_without_protocol(patch: Patch) -> None:
    def plain(path: Path, data: bytes) -> None:
        fd = files.system.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        files.system.write(fd, memoryview(data))
        files.system.close(fd)

    patch.setattr(files, "write_atomic", plain)


def errors_swallowed(patch: Patch) -> None:
    @contextmanager
    def naming(path: Path, doing: str) -> Iterator[None]:
        with suppress(OSError):
            yield

    patch.setattr(files, "naming", naming)


def short_writes_unseen(patch: Patch) -> None:
    def write(self: files.AtomicFile, data: bytes) -> None:
        view = memoryview(data)
        view = view.cast("B") if view.nbytes else memoryview(b"")
        self._hash.update(view)
        files.system.write(self._fd, view)
        self.num_bytes += len(view)

    patch.setattr(files.AtomicFile, "write", write)


def new_folders_not_synced(patch: Patch) -> None:
    def make_folder(path: Path) -> None:
        if not path.is_dir():
            make_folder(path.parent)
            files.system.mkdir(path)

    for module in (files, buildfolder, BUILD):
        patch.setattr(module, "make_folder", make_folder)


def receipt_before_part(patch: Patch) -> None:
    made = _unit._receipt

    def early(
        given: tuple[_unit.Job, _unit.Work],
        progress: _unit._Progress,
        written: tuple[str, parts.Documents],
        sieve: Sieve,
    ) -> Receipt:
        receipt = made(given, progress, written, sieve)
        parts.write_receipt(given[1].folder, receipt)
        return receipt

    def trusting(folder: Path, key: units.Key, plan: str, item_bytes: int) -> Receipt | None:
        with suppress(OSError):
            return Receipt.from_json(json.loads(parts.receipt_path(folder, key).read_bytes()))
        return None

    patch.setattr(_unit, "_receipt", early)
    patch.setattr(feeding, "read_receipt", trusting)


def nothing_cleaned_up_later(patch: Patch) -> None:
    patch.setattr(buildfolder, "clean_finished", lambda out, before: None)


def bad_rows_listed_twice(patch: Patch) -> None:
    def every(out: Path, before: Manifest | None) -> Iterator[bytes]:
        path = out / "bad_rows.jsonl"
        yield from path.read_bytes().splitlines(keepends=True) if before is not None and path.exists() else []

    patch.setattr(badrows, "_earlier", every)


def shards_not_read_back(patch: Patch) -> None:
    patch.setattr(shards.ShardMaker, "_compare", lambda self, job, header: None)


def indexes_not_read_back(patch: Patch) -> None:
    class Whatever(str):
        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = str.__hash__

    read = digests.sha256_file
    patch.setattr(shards, "sha256_file", lambda path, name=None: Whatever() if name is None else read(path, name))


def documents_not_compared(patch: Patch) -> None:
    def unchecked(folder: Path, receipt: Receipt, item_bytes: int) -> parts.Documents:
        k = receipt.num_documents
        data = parts.part_path(folder, receipt.key).read_bytes()[receipt.num_ids * item_bytes :]
        ends, records = (np.frombuffer(data, "<i8", k, at * k) for at in (0, 8))
        return parts.Documents(
            ends, records, np.frombuffer(data, "<i4", k, 16 * k), np.frombuffer(data, np.bool_, k, 20 * k)
        )

    patch.setattr(assembly, "read_documents", unchecked)


dies = partial(every_call, fault=DIE)
fails = partial(every_call, fault=EIO)
is_short = partial(every_call, fault=SHORT)

OnDisk = tuple[Callable[[Patch], None], Callable[[Path], Scenario], Callable[[Scenario, Path], object]]
ON_DISK: list[OnDisk] = [
    (no_sync_of_files, one_shot, every_loss_of_power),
    (no_sync_of_folders, one_shot, every_loss_of_power),
    (rename_before_sync, one_shot, every_loss_of_power),
    (written_in_place, appended, dies),
    (manifest_without_protocol, appended, every_loss_of_power),
    (errors_swallowed, one_shot, fails),
    (short_writes_unseen, one_shot, is_short),
    (new_folders_not_synced, one_shot, every_loss_of_power),
    (receipt_before_part, one_shot, dies),
    (nothing_cleaned_up_later, one_shot, dies),
    (bad_rows_listed_twice, appended, dies),
    (shards_not_read_back, one_shot, every_lie),
    (indexes_not_read_back, one_shot, every_lie),
    (documents_not_compared, one_shot, every_lie),
]


@pytest.mark.parametrize(("mutate", "make", "check"), ON_DISK, ids=lambda value: getattr(value, "__name__", "check"))
def test_sabotage_of_the_disk_is_seen(
    memory: Path,
    mutate: Callable[[Patch], None],
    make: Callable[[Path], Scenario],
    check: Callable[[Scenario, Path], object],
) -> None:
    scenario = make(memory / "inputs")
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        with pytest.raises((AssertionError, RiverError)):
            check(scenario, memory / "place")


# ------------------------------------------------------------------------------------- what comes out


INPUTS = [
    Input("0.jsonl", (*some_texts(14), BAD, "", *some_texts(9, 40))),
    Input("1.txt", tuple(some_texts(25, 60))),
    Input("2.jsonl.zst", tuple(some_texts(9, 90))),
]


def conserves(folder: Path, wanted: Wanted) -> None:
    paths = [one.write(folder) for one in INPUTS]
    cuts = {name: getattr(wanted, name) for name in ("max_tokens", "val_tokens", "val_fraction", "shard_tokens")}
    small_build(paths, folder / "out", separator="|", format="llmc" if wanted.exact else "native", **cuts)
    compare(folder / "out", naive(INPUTS, wanted))


whole = partial(conserves, wanted=Wanted())
sharded = partial(conserves, wanted=Wanted(shard_tokens=700))
split = partial(conserves, wanted=Wanted(val_fraction=0.3))
bounded = partial(conserves, wanted=Wanted(max_tokens=2000))


def refuses_other_options(folder: Path) -> None:
    rows = write_rows(folder / "a.jsonl", some_texts(20))
    small_build(rows, folder / "out")
    for options in ({"val_fraction": 0.5}, {"framing": "none"}, {"shard_tokens": 500}):
        try:
            small_build(rows, folder / "out", **options)
        except MismatchError:
            continue
        raise AssertionError(f"not refused: {options}")


def redoes_a_replaced_input(folder: Path) -> None:
    """The unreadable archive is replaced by another one: nothing of the first is in the corpus."""

    def archive(start: int) -> bytes:
        return gzip.compress(b"".join(json.dumps({"text": t}).encode() + b"\n" for t in some_texts(90, start)), mtime=0)

    path = folder / "a.jsonl.gz"
    path.write_bytes(archive(0)[:-4])
    with pytest.raises(InputError, match="truncated"):
        small_build(path, folder / "out")
    path.write_bytes(archive(500))
    small_build(path, folder / "out")
    must_equal([ids for ids, _, _ in documents(folder / "out")], framed(some_texts(90, 500)), "documents")


def sees_a_changed_stream(folder: Path) -> None:
    path = folder / "a.txt"
    data = "|".join(some_texts(2500)).encode()
    path.write_bytes(data)

    def stop(done: int, total: int) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        small_build(path, folder / "out", separator="|", unit_bytes=80_000, progress=stop)
    path.write_bytes(data[:70_000] + data[70_000:75_000].upper() + data[75_000:])
    with pytest.raises(MismatchError, match="has changed"):
        small_build(path, folder / "out", separator="|", unit_bytes=80_000)


def ignores_the_order_of_listings(folder: Path) -> None:
    (folder / "in").mkdir()
    for number in range(9):
        write_rows(folder / "in" / f"{number}.jsonl", some_texts(5, 10 * number))
    small_build(folder / "in", folder / "out")
    texts = [text for number in range(9) for text in some_texts(5, 10 * number)]
    must_equal([ids for ids, _, _ in documents(folder / "out")], framed(texts), "documents")


def keeps_a_second_build_out(folder: Path) -> None:
    rows = write_rows(folder / "a.jsonl", some_texts(20))

    def meanwhile(done: int, total: int) -> None:
        with pytest.raises(InputError, match="another build is at work"):
            small_build(rows, folder / "out")

    small_build(rows, folder / "out", progress=meanwhile)


def appends(folder: Path) -> None:
    one, two = (write_rows(folder / f"{i}.jsonl", some_texts(9, 50 * i)) for i in range(2))
    small_build(one, folder / "out")
    old = files_of(folder / "out")
    small_build(two, folder / "out", append=True)
    new = files_of(folder / "out")
    assert all(new[name] == data for name, data in old.items() if name != "manifest.json")


def refuses_ids_outside_the_vocabulary(folder: Path) -> None:
    job = _unit.Work(folder, "uint16", None, None, 0.0, 1024, SourceOptions())
    with pytest.raises(LimitError):
        _unit._narrow(np.array([65536 + 97], np.uint32), job, BYTE)


def has_an_order_of_its_own_for_every_seed_and_epoch(folder: Path) -> None:
    keys = {sampler.epoch_keys("d", seed, epoch, "s").tobytes() for seed in range(20) for epoch in range(20)}
    assert len(keys) == 400


def serves_every_row_once(folder: Path) -> None:
    for size in (65_536, 65_537, 100_003, (1 << 18) + 1):
        rows = sampler.permute(np.arange(size), size, sampler.epoch_keys("d", 1, 0, "s"))
        assert (np.bincount(rows, minlength=size) == 1).all()


def shards_cut_a_document_early(patch: Patch) -> None:
    cut = assembly.cut_segment
    patch.setattr(assembly, "cut_segment", lambda ends, segment, ids, how: cut(ends, segment, ids, "down"))


def last_segment_lost(patch: Patch) -> None:
    divide = assembly.divide

    def careless(
        found: assembly.Parts, segments: list[assembly.Segment], targets: list[int], how: str
    ) -> tuple[list[list[assembly.Segment]], int]:
        lists, cut = divide(found, segments, targets, how)
        return [part[:-1] if len(part) > 1 else part for part in lists], cut

    patch.setattr(assembly, "divide", careless)


def framing_swapped(patch: Patch) -> None:
    ids = buildplan.framing_ids
    patch.setattr(buildplan, "framing_ids", lambda framing, tokenizer: ids(framing, tokenizer)[::-1])


def records_count_from_the_unit(patch: Patch) -> None:
    def zeros(receipts: Iterable[Receipt]) -> Iterator[Int64]:
        return (np.zeros(len(receipt.pieces), np.int64) for receipt in receipts)

    patch.setattr(commit, "rows_before", zeros)


def validation_by_position(patch: Patch) -> None:
    def third(texts: list[bytes], fraction: float) -> Bools:
        return np.array([i % 3 == 0 for i in range(len(texts))], np.bool_)

    patch.setattr(_unit, "held_out", third)


def bound_passed(patch: Patch) -> None:
    divide = assembly.divide

    def careless(
        found: assembly.Parts, segments: list[assembly.Segment], targets: list[int], how: str
    ) -> tuple[list[list[assembly.Segment]], int]:
        return divide(found, segments, targets, "up")

    patch.setattr(assembly, "divide", careless)


def units_cut_inside_records(patch: Patch) -> None:
    cut = text.cut
    patch.setattr(text, "cut", lambda block, options: min(len(block), cut(block, options) + 1))


def last_unit_forgotten(patch: Patch) -> None:
    ordered = feeding.Feeder.ordered
    patch.setattr(feeding.Feeder, "ordered", lambda self: ordered(self)[:-1])


def options_forgotten(patch: Patch) -> None:
    patch.setattr(buildplan.BuildPlan, "digest", property(lambda self: "0" * 64))


def receipts_of_any_plan(patch: Patch) -> None:
    def trusting(folder: Path, key: units.Key, plan: str, item_bytes: int) -> Receipt | None:
        with suppress(OSError):
            return Receipt.from_json(json.loads(parts.receipt_path(folder, key).read_bytes()))
        return None

    patch.setattr(feeding, "read_receipt", trusting)


def changed_streams_unseen(patch: Patch) -> None:
    patch.setattr(feeding.Feeder, "_same_input", lambda self, receipt, prefix, lot: None)


def listings_as_they_come(patch: Patch) -> None:
    dice = random.Random(3)

    def shuffled(path: Path) -> list[str]:
        names = os.listdir(path)
        dice.shuffle(names)
        return names

    patch.setattr(inputs, "list_folder", shuffled)
    patch.setattr(inputs, "sorted", lambda found, key=None: list(found), raising=False)


def lock_ignored(patch: Patch) -> None:
    @contextmanager
    def anyone(path: Path) -> Iterator[bool]:
        yield True

    patch.setattr(buildfolder, "hold_lock", anyone)


def appended_shards_numbered_anew(patch: Patch) -> None:
    jobs = commit._shard_jobs
    patch.setattr(commit, "_shard_jobs", lambda ending, plan: jobs(replace(ending, before=None), plan))


def ids_wrapped(patch: Patch) -> None:
    def narrow(ids: Ids, work: _unit.Work, tokenizer: object) -> Ids:
        return ids.astype(work.dtype)

    patch.setattr(_unit, "_narrow", narrow)


def seed_plus_epoch(patch: Patch) -> None:
    keys = sampler.epoch_keys
    patch.setattr(sampler, "epoch_keys", lambda domain, seed, epoch, source: keys(domain, seed + epoch, 0, source))


def points_past_the_end_folded(patch: Patch) -> None:
    def walk(points: UInt64, size: int, keys: UInt64, *, backwards: bool) -> None:
        sampler._feistel(points, size, keys, backwards)
        points %= np.uint64(size)

    patch.setattr(sampler, "_walk", walk)


COMES_OUT: list[tuple[Callable[[Patch], None], Callable[[Path], None]]] = [
    (shards_cut_a_document_early, sharded),
    (last_segment_lost, sharded),
    (framing_swapped, whole),
    (records_count_from_the_unit, whole),
    (validation_by_position, split),
    (bound_passed, bounded),
    (units_cut_inside_records, whole),
    (last_unit_forgotten, whole),
    (options_forgotten, refuses_other_options),
    (receipts_of_any_plan, redoes_a_replaced_input),
    (changed_streams_unseen, sees_a_changed_stream),
    (listings_as_they_come, ignores_the_order_of_listings),
    (lock_ignored, keeps_a_second_build_out),
    (appended_shards_numbered_anew, appends),
    (ids_wrapped, refuses_ids_outside_the_vocabulary),
    (seed_plus_epoch, has_an_order_of_its_own_for_every_seed_and_epoch),
    (points_past_the_end_folded, serves_every_row_once),
]


@pytest.mark.parametrize(("mutate", "check"), COMES_OUT, ids=lambda value: getattr(value, "__name__", "check"))
def test_sabotage_of_what_comes_out_is_seen(
    tmp_path: Path, mutate: Callable[[Patch], None], check: Callable[[Path], None]
) -> None:
    (tmp_path / "well").mkdir()
    (tmp_path / "ill").mkdir()
    check(tmp_path / "well")
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        with pytest.raises((AssertionError, RiverError, pytest.fail.Exception)):
            check(tmp_path / "ill")
