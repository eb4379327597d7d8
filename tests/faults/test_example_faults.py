"""Corpora of examples on failing disks: nothing torn is readable, and the same command ends with the same bytes."""

from pathlib import Path

import pytest

from fault_harness import every_call, examples
from faulty_disks import DIE, EIO, FULL, SHORT

pytestmark = pytest.mark.usefixtures("quick_disk")


@pytest.mark.parametrize(("fault", "step"), [(DIE, 19), (EIO, 37)])
def test_calls(memory: Path, fault: str, step: int) -> None:
    assert every_call(examples(memory / "inputs"), memory / "place", fault, step) * step >= 60


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "step"), [(DIE, 11), (FULL, 17), (SHORT, 23)])
def test_more_calls(memory: Path, fault: str, step: int) -> None:
    assert every_call(examples(memory / "inputs"), memory / "place", fault, step) * step >= 60
