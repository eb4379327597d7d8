"""The example of docs/trace.md does what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

from rivers import ArrayRiver

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "trace.md"


def test_the_example_traces_a_row_and_finds_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    (example, *_) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"corpus": ArrayRiver(64 * 120 + 1, [100] * 76 + [81])}
    exec(example, names)
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert 1 <= len(shown) <= 2
    loader, rows, steps = (names[name] for name in ("loader", "rows", "steps"))
    for row, step in zip(rows.tolist(), steps.tolist(), strict=True):
        assert 17 in {origin.document for origin in loader.trace(row)}
        assert row in loader.batch(step).row_numbers
