"""The example of docs/sft.md does what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

import tokenriver as tr
from tokenriver import registry

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "sft.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    assert "('sums.jsonl', " in capsys.readouterr().out
    assert names["batch"].num_targets == int(names["batch"].loss_mask.sum())
    counts = names["report"].splits
    assert counts["train"]["examples"] + counts["val"]["examples"] == 500
    assert tr.verify("corpus") == []


def test_the_table_names_every_shape() -> None:
    shapes = set(
        re.findall(r"`([a-z0-9-]+)`", "".join(line.split("|")[1] for line in TEXT.splitlines() if "| " in line))
    )
    assert shapes == set(registry.load("examples", "sft").SHAPES)
