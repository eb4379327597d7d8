"""A file of examples on a failing disk: the old one or the new one, never a part, and a rerun gives the same bytes."""

from contextlib import suppress
from pathlib import Path

import pytest

import tokenriver as tr
from choice_cases import HELLASWAG, MMLU, write_lines
from faulty_disks import DIE, EIO, FULL, SHORT, Died, FaultyDisk
from small_builds import files_of
from tokenriver import files

pytestmark = pytest.mark.usefixtures("quick_disk")


@pytest.mark.parametrize(("fault", "old"), [(DIE, False), (DIE, True), (EIO, True), (FULL, True), (SHORT, True)])
def test_every_call(memory: Path, fault: str, old: bool) -> None:
    before = write_lines(memory / "before.jsonl", [MMLU])
    after = write_lines(memory / "after.jsonl", [*HELLASWAG, {"none": 1}])

    def build(records: Path, place: Path) -> None:
        tr.build_choices(records, place / "out", tokenizer="byte")

    for name in ("undisturbed", "place"):
        (memory / name).mkdir()
    build(before, memory / "undisturbed")
    first = files_of(memory / "undisturbed")
    build(after, memory / "undisturbed")
    expected = files_of(memory / "undisturbed")
    assert set(expected) == {"out", "out.bad_rows.jsonl"}
    place = memory / "place"
    calls = 0
    while True:
        for path in place.iterdir():
            path.unlink()
        if old:
            build(before, place)
        disk = FaultyDisk(calls, fault)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "system", disk)
            with suppress(Died, tr.RiverError):
                build(after, place)
        if not disk.struck:
            break
        assert files_of(place).get("out") in (first["out"] if old else None, expected["out"])
        build(after, place)
        assert files_of(place) == expected
        calls += 1
    assert calls >= 12
