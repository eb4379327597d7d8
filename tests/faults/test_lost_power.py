"""The power goes after any call of a build, and with it any of what was not synced: contents are lost, cut or zeros,
names are there or not. Nothing torn is readable, what was reported as done is done, and a rerun completes the rest."""

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from fault_harness import CORPUS, Scenario, appended, check_left, every_loss_of_power, one_shot
from faulty_disks import Died, Op, RecordingDisk, lost_power
from tokenriver import files

pytestmark = pytest.mark.usefixtures("quick_disk")


Make = Callable[[Path], Scenario]


@pytest.mark.parametrize("make", [one_shot, appended])
def test_every_state(memory: Path, make: Make) -> None:
    assert every_loss_of_power(make(memory / "inputs"), memory / "place") >= 100


def what_is_left_after_a_kill_and_a_rerun(scenario: Scenario, place: Path, at: int) -> bool:
    """The build dies before change `at` of the disk, the same command runs to its end, and the power goes: the corpus
    is there in every state. False if the build was done before."""
    scenario.begin(place / "live")
    disk = _Dying(place / "live", at)
    initial = disk.initial()
    out = place / "live" / CORPUS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "system", disk)
        try:
            scenario.build(out)
        except Died:
            disk.at = -1
        else:
            return False
        scenario.build(out)
    for number, state in lost_power(initial, disk.log):
        if number == len(disk.log):
            shutil.rmtree(place / "state", ignore_errors=True)
            state.write_to(place / "state")
            check_left(scenario, place / "state" / CORPUS, new=True)
    return True


class _Dying(RecordingDisk):
    """A recording disk on which the process dies before change number `at`."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(root)
        self.at = at

    def note(self, op: Op) -> None:
        super().note(op)
        if len(self.log) == self.at:
            raise Died


@pytest.mark.parametrize("make", [one_shot, appended])
def test_a_corpus_that_a_rerun_reports_is_on_the_disk(memory: Path, make: Make) -> None:
    scenario = make(memory / "inputs")
    kills = 0
    for at in range(1, 1000, 5):
        if not what_is_left_after_a_kill_and_a_rerun(scenario, memory / "place", at):
            break
        kills += 1
    assert kills >= 15


@pytest.mark.slow
@pytest.mark.parametrize("make", [one_shot, appended])
def test_a_corpus_that_a_rerun_reports_is_on_the_disk_at_every_other_kill(memory: Path, make: Make) -> None:
    """The kills between those of the test above."""
    scenario = make(memory / "inputs")
    kills = 0
    for at in (at for at in count(1) if at % 5 != 1):
        if not what_is_left_after_a_kill_and_a_rerun(scenario, memory / "place", at):
            break
        kills += 1
    assert kills >= 48


def test_the_model_of_lost_power(tmp_path: Path) -> None:
    """The harness itself: what a careless writer and a careful one leave, by hand."""
    disk = RecordingDisk(tmp_path)
    initial = disk.initial()
    fd = disk.open(tmp_path / ".a.tmp", 0o101)
    disk.write(fd, memoryview(b"four"))
    careless = list(disk.log)
    disk.fsync(fd)
    disk.close(fd)
    disk.replace(tmp_path / ".a.tmp", tmp_path / "a")
    fd = disk.open(tmp_path, 0)
    before = list(disk.log)
    disk.fsync(fd)
    disk.close(fd)
    assert {tuple(state.files) for _, state in lost_power(initial, careless)} == {
        (),
        ((".a.tmp", b""),),
        ((".a.tmp", b"fo"),),
        ((".a.tmp", b"four"),),
        ((".a.tmp", b"\0\0\0\0"),),
    }
    renamed = {tuple(state.files) for number, state in lost_power(initial, before) if number == len(before)}
    assert renamed == {(), ((".a.tmp", b"four"),), (("a", b"four"),)}
    assert [tuple(s.files) for n, s in lost_power(initial, disk.log) if n == len(disk.log)] == [(("a", b"four"),)]
