"""Workers that begin before the command line is understood."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_builds import files_of
from tokenriver.commands import _early
from tokenriver.defaults import SMALL_INPUT

CORES = os.cpu_count() or 1


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("build in -o out --workers 3", 3),
        ("build in -o out --workers=3", 3),
        ("build --workers 3 in -o out --workers 2", 2),
        ("build in -o out --workers many", 0),
        ("build in -o out --workers", 0),
        ("build large -o out", CORES),
        ("build small -o out", 0),
        ("build missing -o out", 0),
        ("build large --help", 0),
        ("build -h large", 0),
        ("verify large --workers 3", 0),
        ("--help", 0),
        ("", 0),
    ],
)
def test_what_the_words_will_want(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, count: int) -> None:
    monkeypatch.chdir(tmp_path)
    for name, size in (("large", SMALL_INPUT), ("small", SMALL_INPUT - 1)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    assert _early.guess(words.split()) == count


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("build in -o out", "gpt2"),
        ("build in -o out --tokenizer gpt2", "gpt2"),
        ("build in -o out --tokenizer gpt2 --tokenizer byte", None),
        ("build in -o out --tokenizer=byte", None),
        ("build in --tokenizer", "gpt2"),
    ],
)
def test_the_tokenizer_that_the_words_let_expect(words: str, expected: str | None) -> None:
    assert _early.expected(words.split()) == expected


def test_the_command_builds_with_them(small_input: Path, tmp_path: Path) -> None:
    for number, workers in enumerate((["--workers", "2"], [])):
        words = ["build", str(small_input), "-o", str(tmp_path / str(number)), "--tokenizer", "byte", *workers]
        subprocess.run([sys.executable, "-m", "tokenriver", *words], check=True, capture_output=True, timeout=60)
    assert files_of(tmp_path / "0") == files_of(tmp_path / "1")


def test_a_wrong_guess_is_ended(tmp_path: Path) -> None:
    words = ["build", "missing", "-o", str(tmp_path / "out"), "--workers", "2", "--nonsense"]
    ran = subprocess.run([sys.executable, "-m", "tokenriver", *words], check=False, capture_output=True, timeout=60)
    assert ran.returncode == 2
    assert b"nonsense" in ran.stderr
