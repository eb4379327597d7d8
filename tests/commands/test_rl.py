"""`tokenriver rl`: prompts written, rows counted, for people and for machines."""

import json
from pathlib import Path

import pytest

from command_line import tokenriver


def test_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [
        {"question": "q\x1b", "answer": "#### 4", "\x1b[31m": 0},
        {"question": "r"},
        {"question": "s", "answer": "x"},
    ]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n", encoding="utf-8")
    words = ["rl", source, "-o", out, "--arithmetic", "3", "--level", "1"]
    ran = tokenriver(capsys, *words)
    assert (ran.code, ran.err) == (0, "")
    for shown in ("4 examples of 4 rows", "dropped, no-number", "bad, field-missing", "noted, blank", "problems made"):
        assert shown in ran.out
    assert "\x1b" not in ran.out
    value = tokenriver(capsys, *words, "--json").json()
    assert (value["rows"], value["kept"], value["arithmetic"]) == (4, 4, 3)
    assert (value["dropped"], value["bad"], value["notes"]) == ({"no-number": 1}, {"field-missing": 1}, {"blank": 1})
    assert value["num_bytes"] == out.stat().st_size


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["none.jsonl", "-o", "x.jsonl"], 1, "no such file"),
        (["-o", "x.jsonl"], 1, "inputs: got none"),
        (["in.jsonl"], 2, "Missing option"),
        (["-o", "x.jsonl", "--arithmetic", "300", "--level", "1"], 1, "expected at most 200"),
        (["-o", "x.jsonl", "--arithmetic", "3", "--level", "7"], 1, "level: got 7"),
        (["in.jsonl", "-o", "x.jsonl", "--like", "llmc"], 2, "--like"),
    ],
)
def test_refusals(
    words: list[str],
    code: int,
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = tokenriver(capsys, "rl", *words)
    assert (ran.code, ran.out) == (code, "")
    assert what in ran.err
    assert not list(tmp_path.iterdir())
