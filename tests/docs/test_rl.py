"""The example of docs/rl.md does what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

from tokenriver.arithmetic import LEVELS
from tokenriver.examples.rl import DROPS

DOCUMENT = (Path(__file__).resolve().parent.parent.parent / "docs" / "rl.md").read_text(encoding="utf-8")


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL):
        exec(example, names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["101 {}", "1.2"]
    assert lines[2].endswith("] 0")
    assert set(names["earned"]) <= {0.2, 1.2}


def test_reasons_and_levels_are_those_of_the_code() -> None:
    reasons, levels = DOCUMENT.partition("## Arithmetic")[::2]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", reasons, re.MULTILINE)) == set(DROPS)
    assert [int(level) for level in re.findall(r"^\| (\d) \|", levels, re.MULTILINE)] == sorted(LEVELS)
