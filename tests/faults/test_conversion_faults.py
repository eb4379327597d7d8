"""Conversions, and builds that write another format, on failing disks: nothing torn is readable, and the same command
ends with the same bytes."""

from pathlib import Path

import pytest

from fault_harness import built_as, converted, every_call, every_loss_of_power
from faulty_disks import DIE, EIO, FULL, SHORT

pytestmark = pytest.mark.usefixtures("quick_disk")

FORMATS = ["megatron", "mds", "olmo"]
"""Two files a shard; an index file in a folder a split; a compressed companion."""
CONVERSION = [(DIE, 2), (EIO, 3), (FULL, 5), (SHORT, 4)]
BUILD = [(DIE, 5), (EIO, 7), (FULL, 13), (SHORT, 11)]
"""Every how many calls one goes wrong; the slow tests take the others."""


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("fault", "step"), CONVERSION)
def test_every_call_of_a_conversion(memory: Path, format: str, fault: str, step: int) -> None:
    assert every_call(converted(memory / "inputs", format), memory / "place", fault, step) * step >= 40


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("fault", "step"), BUILD)
def test_every_call_of_a_build(memory: Path, format: str, fault: str, step: int) -> None:
    assert every_call(built_as(memory / "inputs", format), memory / "place", fault, step) * step >= 120


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("fault", "step"), CONVERSION)
def test_every_other_call_of_a_conversion(memory: Path, format: str, fault: str, step: int) -> None:
    faults = every_call(converted(memory / "inputs", format), memory / "place", fault, step, others=True)
    assert faults >= 40 * (step - 1) // step


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("fault", "step"), BUILD)
def test_every_other_call_of_a_build(memory: Path, format: str, fault: str, step: int) -> None:
    faults = every_call(built_as(memory / "inputs", format), memory / "place", fault, step, others=True)
    assert faults >= 120 * (step - 1) // step


@pytest.mark.parametrize("format", ["megatron", "mds"])
def test_every_loss_of_power_during_a_conversion(memory: Path, format: str) -> None:
    assert every_loss_of_power(converted(memory / "inputs", format), memory / "place") >= 40


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_every_loss_of_power_during_a_build(memory: Path, format: str) -> None:
    assert every_loss_of_power(built_as(memory / "inputs", format), memory / "place") >= 120
