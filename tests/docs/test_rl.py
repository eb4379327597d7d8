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
    (example, *_) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    assert capsys.readouterr().out == "101 {}\n1.2\n"


def test_reasons_and_levels_are_those_of_the_code() -> None:
    reasons, levels = DOCUMENT.partition("## Arithmetic")[::2]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", reasons, re.MULTILINE)) == set(DROPS)
    assert [int(level) for level in re.findall(r"^\| (\d) \|", levels, re.MULTILINE)] == sorted(LEVELS)
