"""`tokenriver tokenizer`: its actions, for people and for machines."""

from pathlib import Path

import pytest

import tokenriver as tr
from command_line import tokenriver
from tokenriver.commands.tokenizer import ACTIONS


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_help_with_one_example(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "tokenizer", action, "--help")
    assert ran.code == 0
    assert ran.out.count("Example:") == 1
    assert f"tokenriver tokenizer {action}" in ran.out.partition("Example:")[2]


@pytest.mark.parametrize("words", [[], ["chars"]])
def test_an_action_is_needed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert tokenriver(capsys, "tokenizer", *words).code == 2


def test_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("to be\n\x1b[31m", encoding="utf-8")
    words = ["tokenizer", "characters", tmp_path / "a.txt", "-o", tmp_path / "meta.pkl"]
    ran = tokenriver(capsys, *words)
    assert (ran.code, ran.err) == (0, "")
    assert "\\n\\x1b 13[bemot" in ran.out
    value = tokenriver(capsys, *words, "--json").json()
    assert value["characters"] == "\n\x1b 13[bemot"
    assert (value["vocab_size"], value["documents"], value["bad_rows"]) == (11, 1, 0)
    assert tr.load_tokenizer(tmp_path / "meta.pkl").encode("to be").tolist() == [10, 9, 2, 6, 7]
    ran = tokenriver(capsys, *words[:2], tmp_path / "none", "-o", tmp_path / "x.pkl")
    assert (ran.code, ran.out) == (1, "")
    assert "no such file" in ran.err


def test_a_build_by_command_finds_its_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("to be\n", encoding="utf-8")
    words = ["build", tmp_path / "a.txt", "-o", tmp_path / "c", "--tokenizer", "char", "--like", "nanogpt"]
    ran = tokenriver(capsys, *words, "--workers", "1", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "manifest.json",
        "meta.pkl",
        "train.bin",
        "train.docs",
    ]
