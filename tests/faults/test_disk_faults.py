"""Every call that a build makes to the disk goes wrong once: the process dies before it, the disk takes a part of a
write, is full from there on, or fails. Nothing torn is readable, and the same command ends with the same bytes."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fault_harness import (
    Scenario,
    appended,
    appended_without_duplicates,
    begun_early,
    check_left,
    check_rerun,
    count_calls,
    every_call,
    every_lie,
    one_shot,
    strike,
    without_duplicates,
)
from faulty_disks import DIE, EIO, FULL, SHORT, Died, FaultyDisk
from small_builds import QuickDisk, files_of, small_build
from tokenriver import files
from tokenriver.build import BuildReport
from tokenriver.errors import LimitError, RiverError

Make = Callable[[Path], Scenario]
SCENARIOS: list[Make] = [one_shot, appended, begun_early, without_duplicates, appended_without_duplicates]


pytestmark = pytest.mark.usefixtures("quick_disk")


STEPS: dict[Make, dict[str, int]] = {
    one_shot: {DIE: 1, EIO: 1, FULL: 3, SHORT: 5},
    appended: {DIE: 1, EIO: 2, FULL: 5, SHORT: 3},
    without_duplicates: {DIE: 13, EIO: 19, FULL: 31, SHORT: 23},
    appended_without_duplicates: {DIE: 3, EIO: 7, FULL: 13, SHORT: 11},
    begun_early: {DIE: 2, EIO: 3, FULL: 4, SHORT: 5},
}
"""Every how many calls one goes wrong, so that all of it takes seconds; the slow tests take the others."""
OTHERS = [(make, fault, step) for make, steps in STEPS.items() for fault, step in steps.items() if step > 1]


@pytest.mark.parametrize("make", SCENARIOS)
@pytest.mark.parametrize("fault", [DIE, EIO, FULL, SHORT])
def test_every_call(memory: Path, make: Make, fault: str) -> None:
    step = STEPS[make][fault]
    assert every_call(make(memory / "inputs"), memory / "place", fault, step) * step >= 120


@pytest.mark.slow
@pytest.mark.parametrize(("make", "fault", "step"), OTHERS)
def test_every_other_call(memory: Path, make: Make, fault: str, step: int) -> None:
    """Those that test_every_call leaves out: the two strike every call."""
    faults = every_call(make(memory / "inputs"), memory / "place", fault, step, others=True)
    assert faults >= 120 * (step - 1) // step


@pytest.mark.slow
@pytest.mark.parametrize("make", SCENARIOS)
def test_a_second_fault_during_the_rerun(memory: Path, make: Make) -> None:
    scenario = make(memory / "inputs")
    for first in range(0, len(count_calls(scenario, memory / "place")), 5):
        strike(scenario, memory / "place", first, DIE)
        shutil.rmtree(memory / "struck", ignore_errors=True)
        shutil.copytree(memory / "place", memory / "struck")
        for second in range(first % 7, 120, 11):
            for fault in (DIE, EIO):
                shutil.rmtree(memory / "place")
                shutil.copytree(memory / "struck", memory / "place")
                out = memory / "place" / "corpus"
                disk = FaultyDisk(second, fault)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(files, "system", disk)
                    with suppress(Died, RiverError):
                        scenario.build(out)
                check_left(scenario, out)
                check_rerun(scenario, out)


@pytest.mark.parametrize("make", SCENARIOS)
def test_a_disk_that_writes_something_else(memory: Path, make: Make) -> None:
    """Parts, shards and indexes are compared with what was meant before the manifest is written."""
    assert every_lie(make(memory / "inputs"), memory / "place") >= 15


def test_a_full_disk_is_an_ordinary_error_that_names_path_and_cure(memory: Path) -> None:
    scenario = one_shot(memory / "inputs")
    calls = count_calls(scenario, memory / "place")
    number = calls.index("write", calls.index("copy"))
    _, end = strike(scenario, memory / "place", number, FULL)
    assert "cannot write: No space left on device; free space" in end
    assert str(memory / "place" / "corpus") in end
    disk = FaultyDisk(calls.index("write"), FULL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "system", disk)
        with pytest.raises(LimitError, match="run the same command again"):
            scenario.build(memory / "other")


def test_the_third_of_five_shards_cannot_be_named(memory: Path) -> None:
    """R043: the manifest is not published, the rerun completes."""
    inputs = one_shot(memory / "inputs").inputs
    options = {"separator": "|", "shard_tokens": 300}
    small_build(inputs, memory / "undisturbed", **options)
    assert len([name for name in files_of(memory / "undisturbed") if name.endswith(".bin")]) >= 5
    scenario = Scenario(inputs, options, {}, files_of(memory / "undisturbed"))

    class Broken(QuickDisk):
        def replace(self, source: Path, target: Path) -> None:
            if target.name == "tokens_train_000002.bin":
                raise PermissionError(13, "Permission denied")
            super().replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "system", Broken())
        with pytest.raises(RiverError, match=r"tokens_train_000002\.bin: cannot write"):
            scenario.build(memory / "place" / "corpus")
    check_left(scenario, memory / "place" / "corpus")
    assert (memory / "place" / "corpus" / "tokens_train_000001.bin").exists()
    report = check_rerun(scenario, memory / "place" / "corpus")
    assert isinstance(report, BuildReport)
    assert report.resumed == report.units


def test_a_cleaned_up_corpus_is_told_from_one_that_was_not(memory: Path) -> None:
    """A kill after the commit, at each step of the cleaning up: the rerun finishes it and reports a complete corpus."""
    scenario = one_shot(memory / "inputs")
    calls = count_calls(scenario, memory / "place")
    committed = max(i for i, call in enumerate(calls) if call == "replace") + 1
    for at in range(committed, len(calls)):
        strike(scenario, memory / "place", at, DIE)
        report = check_rerun(scenario, memory / "place" / "corpus")
        assert isinstance(report, BuildReport)
        assert report.complete_before
        assert report.units == 0


def test_shards_that_were_begun_early_are_taken_over(memory: Path) -> None:
    """The scenario does what it is for: two shards are begun, cut to their size, and get their headers at the end."""
    scenario = begun_early(memory / "inputs")
    calls = count_calls(scenario, memory / "place")
    assert calls.count("pwrite") == calls.count("truncate") == 2
    assert calls.index("copy") < calls.index("truncate")
