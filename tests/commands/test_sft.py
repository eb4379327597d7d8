"""`tokenriver sft`: what is kept, what is dropped, and what the corpus looks like."""

import json
from pathlib import Path

import pytest

from chat_cases import toy_file
from command_line import tokenriver


def test_the_table_and_the_object(tmp_path: Path, quick_disk: None, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"prompt": "Q" * i, "completion": "A"} for i in range(30)]
    (tmp_path / "a.jsonl").write_text("\n".join([*map(json.dumps, rows), "{"]))
    given = (tmp_path / "a.jsonl", "-o", tmp_path / "c", "--tokenizer", "byte", "--max-length", 50, "--seq-len", 64)
    ran = tokenriver(capsys, "sft", *given, "--workers", 2)
    assert ran.code == 0
    assert [line.split() for line in ran.out.splitlines()[3:7]] == [
        ["rows", "read", "31"],
        ["bad:", "not-json", "1"],
        ["dropped:", "too-long", "5"],
        ["train", "25", "950", "5.3%"],
    ]
    assert "rows of 64 by best_fit:" in ran.out
    again = tokenriver(capsys, "sft", *given, "--json").json()
    assert again["complete_before"]
    assert again["splits"] == {"train": {"ids": 950, "trained": 50, "examples": 25}}
    shown = tokenriver(capsys, "info", tmp_path / "c").out
    assert "loss mask" in shown
    assert "5.3%" in shown
    assert tokenriver(capsys, "verify", tmp_path / "c").code == 0


def test_options_of_a_template(tmp_path: Path, quick_disk: None, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.jinja").write_text(
        "{% for m in messages %}{{ m.role + mark + m.content + '<|endoftext|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant' + mark }}{% endif %}"
    )
    (tmp_path / "a.jsonl").write_text(json.dumps({"prompt": "Q", "completion": "A"}))
    made_by = ("--tokenizer", toy_file())
    given = ("sft", tmp_path / "a.jsonl", "-o", tmp_path / "c", "--template", tmp_path / "t.jinja", *made_by)
    assert tokenriver(capsys, *given, "--template-option", "mark=>").code == 0
    shown = tokenriver(capsys, "batches", tmp_path / "c", "--seq-len", 12, "--batch-size", 1, *made_by).out
    assert "|user>Q" in shown
    ran = tokenriver(capsys, *given, "--template-option", "mark=:")
    assert (ran.code, "holds another corpus" in ran.err) == (1, True)


def test_packed_rows(tmp_path: Path, quick_disk: None, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"prompt": "Q", "completion": "A" * i} for i in range(30)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    given = (tmp_path / "a.jsonl", "-o", tmp_path / "c", "--tokenizer", "byte", "--seq-len", 60)
    ran = tokenriver(capsys, "sft", *given, "--like", "sft-hdf5", "--val-fraction", 0.1)
    assert ran.code == 0
    assert "ids behind the last one are dropped" in ran.out
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["sft_dev_packed.h5", "sft_packed.h5"]
