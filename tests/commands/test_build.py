"""`tokenriver build`: what it prints, for people and for machines, and how it refuses."""

from pathlib import Path

import pytest

import tokenriver as tr
from command_line import tokenriver


def test_json_is_one_object_on_standard_output(
    small_input: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["build", small_input, "-o", tmp_path / "c", "--tokenizer", "byte", "--json"]
    ran = tokenriver(capsys, *words)
    assert (ran.code, ran.err) == (0, "")
    value = ran.json()
    assert value["num_documents"] == 200
    assert value["num_tokens"] == tr.open_corpus(tmp_path / "c").num_tokens
    assert not value["complete_before"]
    assert tokenriver(capsys, *words).json()["complete_before"]


def test_the_summary_accounts_for_every_row_and_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "abc"}\n\n{"text": ""}\nno json\n{"text": "de"}\n{"other": 1}\n')
    ran = tokenriver(capsys, "build", rows, "-o", tmp_path / "c", "--tokenizer", "byte")
    assert ran.code == 0
    said = [" ".join(line.split()) for line in ran.out.splitlines()]
    for line in (
        "rows read 6",
        "bad: not-json 1",
        "bad: field-missing 1",
        "skipped: blank 1",
        "skipped: empty 1",
        "documents encoded 2 7",
        "train 2 7 1",
        "2 of the ids are framing",
    ):
        assert line in said
    assert "bad_rows.jsonl" in ran.out


def test_what_filters_drop_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "abc"}\n{"text": "x"}\n{"text": "abcdefgh"}\n')
    words = ["--tokenizer", "byte", "--filter", "length:min_chars=2", "--max-document-tokens", "5"]
    ran = tokenriver(capsys, "build", rows, "-o", tmp_path / "c", *words)
    assert ran.code == 0
    for out in (ran.out, tokenriver(capsys, "info", tmp_path / "c").out):
        said = [" ".join(line.split()) for line in out.splitlines()]
        lines = ["rows read 3", "filtered: min_chars 1", "filtered: max_document_tokens 1 9", "documents that stay 1 4"]
        for line in lines:
            assert line in said


def test_the_same_options_as_the_function(
    small_input: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--tokenizer", "byte", "--framing", "eos-before", "--val-tokens", "1k", "--max-tokens", "4_000"]
    words += ["--shard-tokens", "2kib", "--name", "part", "--unit-bytes", "2000", "--encoder-check", "off"]
    assert tokenriver(capsys, "build", small_input, "-o", tmp_path / "a", *words).code == 0
    tr.build(
        small_input,
        tmp_path / "b",
        tokenizer="byte",
        framing="eos-before",
        val_tokens=1000,
        max_tokens=4000,
        shard_tokens=2048,
        name="part",
        unit_bytes=2000,
    )
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in "ab")
    assert first == second
    assert len(first) > 4


def test_the_summary_counts_spelled_control_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a <|endoftext|>"}\n{"text": "b"}\n')
    for words in (["build", rows, "-o", tmp_path / "c"], ["info", tmp_path / "c"]):
        out = tokenriver(capsys, *words).out
        assert "1 documents spell a control token, which is text in them" in out
        assert "mended" not in out


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["--text-field", "txt"], 1, "'txt'"),
        (["--tokenizer", "no_such_encoding"], 1, "no_such_encoding"),
        (["--val-fraction", "0.1", "--val-tokens", "5"], 1, "val_"),
        (["--max-tokens", "many"], 2, "1000000, 1M or 16MiB"),
        (["--framing", "middle"], 2, "eos-before"),
        (["--filter", "no-such"], 1, "expected one of exact-dedup, length"),
        (["--filter", "length:min_chars=x"], 1, "min_chars: got 'x'"),
        (["--max-document-tokens", "0"], 1, "max_document_tokens: got 0"),
        (["--wrong"], 2, "--wrong"),
    ],
)
def test_refusals(
    words: list[str], code: int, what: str, small_input: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = tokenriver(capsys, "build", small_input, "-o", tmp_path / "c", *words)
    assert ran.code == code
    assert what in ran.err
    assert ran.out == ""
    assert not (tmp_path / "c" / "manifest.json").exists()
    if code == 1:
        assert ran.err.startswith("error: ")
        assert ran.err.count("\n") == 1


def test_help_shows_six_options_first_and_groups_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    panels: dict[str, list[str]] = {}
    panel: list[str] = []
    for line in tokenriver(capsys, "build", "--help").out.splitlines():
        words = line.strip("│ *").split()
        if line.startswith("╭─"):
            panel = panels.setdefault(line.split()[1], [])
        elif words and words[0].startswith("--"):
            panel.append(words[0])
    assert panels["Options"] == ["--out", "--tokenizer", "--like", "--val-fraction", "--workers", "--json", "--help"]
    assert list(panels) == ["Arguments", "Options", "Input", "Output", "Checks"]
    assert "--text-field" in panels["Input"]
    assert "--shard-tokens" in panels["Output"]
    assert panels["Checks"] == ["--encoder", "--encoder-check"]
