"""Questions become prompts or are counted by reason, with file and line."""

import json
from pathlib import Path
from typing import Any

import pytest

import tokenriver as tr
from tokenriver.errors import InputError

RECORDS: list[Any] = [
    {"question": " What? ", "answer": "#### 1,234", "level": "x"},
    {"prompt": "Which?", "gold": 7},
    {"problem": "How?", "solution": -0.5, "level": 1},
    {"question": "a", "answer": "3 or 4"},
    {"question": "a", "answer": "none"},
    {"question": "a", "answer": "#### 12,5"},
    {"question": " ", "answer": "1"},
    {"question": "a", "answer": 10**400},
    {"question": "a", "answer": 9007199254740993},
    {"question": "a"},
    {"answer": "1"},
    {"question": None, "answer": "1"},
    {"question": "a", "answer": None},
    {"question": ["a"], "answer": "1"},
    {"question": "a", "answer": True},
    {"question": "a", "answer": {"text": "1"}},
]


def _write(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_every_row_has_one_fate(tmp_path: Path) -> None:
    source = _write(tmp_path / "in.jsonl", [*RECORDS, *[{"prompt": "p", "answer": str(i)} for i in range(9)]])
    report = tr.rl_prompts(source, tmp_path / "out.jsonl", max_rows=10)
    rows = _rows(tmp_path / "out.jsonl")
    assert rows[:3] == [
        {"prompt": "What?", "gold": 1234.0},
        {"prompt": "Which?", "gold": 7.0},
        {"prompt": "How?", "gold": -0.5},
    ]
    assert len(rows) == report.kept == 10
    assert report.dropped == {
        "beyond-max-rows": 2,
        "empty-prompt": 1,
        "malformed-number": 2,
        "no-number": 1,
        "several-numbers": 1,
    }
    # a whole number that no float holds is none of JSON to the parser
    assert report.bad == {"field-missing": 2, "not-a-string": 3, "not-json": 1, "null": 2}
    assert report.rows == report.kept + sum(report.dropped.values()) + sum(report.bad.values())
    assert report.unused_fields == {"level": 2}
    assert report.side_file == tmp_path / "out.dropped.jsonl"
    listed = _rows(report.side_file)
    assert listed[0] == {"file": "in.jsonl", "line": 4, "reason": "several-numbers"}
    assert [row["line"] for row in listed] == list(range(4, 17))


def test_named_fields_are_insisted_on(tmp_path: Path) -> None:
    source = _write(
        tmp_path / "in.jsonl", [{"q": "a", "question": "b", "r": 1, "answer": 2}, {"question": "b", "r": 1}]
    )
    report = tr.rl_prompts(source, tmp_path / "out.jsonl", prompt_field="q", answer_field="r")
    assert _rows(tmp_path / "out.jsonl") == [{"prompt": "a", "gold": 1.0}]
    assert report.bad == {"field-missing": 1}


def test_limits(tmp_path: Path) -> None:
    good, out = [{"prompt": "p", "answer": "1"}] * 20, tmp_path / "out.jsonl"
    source = _write(tmp_path / "in.jsonl", [*good, *[{"prompt": "p"}] * 10])
    with pytest.raises(
        InputError, match=r"got 10 bad rows of 30 \(10 field-missing\), expected at most 1\.00%.*in\.jsonl line 21"
    ):
        tr.rl_prompts(source, out)
    assert not out.exists()
    assert tr.rl_prompts(source, out, max_bad=0.5).kept == 20
    assert (tmp_path / "out.dropped.jsonl").exists()
    with pytest.raises(InputError, match=r"in\.jsonl: line 21: got field-missing, expected no bad row"):
        tr.rl_prompts(source, out, on_bad="fail")
    assert tr.rl_prompts(_write(source, good), out).side_file is None
    assert not (tmp_path / "out.dropped.jsonl").exists()
    with pytest.raises(InputError, match=r"got 1 rows, none with an example \(1 no-number\), expected some"):
        tr.rl_prompts(_write(source, [{"prompt": "p", "answer": "x"}]), out)
    assert len(_rows(out)) == 20


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    source, out = _write(tmp_path / "in.jsonl", [{"prompt": "p", "answer": 1}]), tmp_path / "out.jsonl"
    with pytest.raises(InputError, match="like: got 'x', expected pile-hdf5"):
        tr.rl_prompts(source, out, like="x")
    with pytest.raises(InputError, match="inputs: got none"):
        tr.rl_prompts([], out)
    with pytest.raises(InputError, match="arithmetic, max_rows: got -1, None"):
        tr.rl_prompts(source, out, arithmetic=-1)
    with pytest.raises(InputError, match="on_bad: got 'x'"):
        tr.rl_prompts(source, out, on_bad="x")
    with pytest.raises(InputError, match="max_bad: got 2"):
        tr.rl_prompts(source, out, max_bad=2)
    with pytest.raises(InputError, match="is one of the inputs"):
        tr.rl_prompts(source, source)
    assert list(tmp_path.iterdir()) == [source]


def test_problems_stand_behind_the_questions(tmp_path: Path) -> None:
    source, out = _write(tmp_path / "in.jsonl", [{"prompt": "p", "answer": 1}]), tmp_path / "out.jsonl"
    report = tr.rl_prompts(source, out, arithmetic=5, seed=3, level=1)
    rows = _rows(out)
    assert (report.rows, report.kept, len(rows), rows[0]["prompt"]) == (1, 6, 6, "p")
    assert report.as_dict()["arithmetic"] == 5
    tr.rl_prompts([], out, arithmetic=4, seed=3, level=tr.Level(0, 9, "+-"))
    assert _rows(out) == rows[1:5]
