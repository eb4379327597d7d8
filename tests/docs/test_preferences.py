"""The example of docs/preferences.md does what it says, and its reasons are those of the code."""

import re
from pathlib import Path
from typing import Any

import pytest

from tokenriver.examples.preference import DROPS
from tokenriver.pairloader import CUTS

DOCUMENT = (Path(__file__).resolve().parent.parent.parent / "docs" / "preferences.md").read_text(encoding="utf-8")


def test_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quick_disk: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    out = capsys.readouterr().out.split()
    assert out[:2] == ["20", "3"]
    assert names["state"]["row"] == 20


def test_reasons_and_cuts_are_those_of_the_code() -> None:
    table = DOCUMENT.partition("| a sound row")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z]+-[a-z]+)`", table)) == set(DROPS)
    table = DOCUMENT.partition("| `cut` |")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"^\| `([a-z]+)`", table, re.MULTILINE)) == CUTS
