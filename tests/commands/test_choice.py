"""`tokenriver choice`: a summary that adds up, rows as a person reads them, JSON, the other format, and refusals."""

from pathlib import Path

import pytest

from chat_cases import toy_file
from choice_cases import HELLASWAG, LLMC_SHA256, MMLU, write_lines
from command_line import tokenriver
from tokenriver.digests import sha256_file

HOSTILE = {"context": "a\x1b[31m", "choices": ["b\nc", "d"], "label": 1}


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "in.jsonl", [*HELLASWAG, MMLU, HOSTILE, {"text": "none"}])


def test_summary_and_rows(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.choice"
    ran = tokenriver(capsys, "choice", records, "-o", out, "--tokenizer", "byte", "--show", "9", "--seq-len", "60")
    assert (ran.code, ran.err) == (0, "")
    lines = [line.strip() for line in ran.out.splitlines()]
    assert lines[0] == f"{out}: 9 multiple-choice examples, format native"
    for words in (
        "rows read 10",
        "hellaswag examples 7",
        "mmlu examples 1",
        "plain examples 1",
        "bad: unknown-fields 1",
    ):
        assert words in [" ".join(line.split()) for line in lines]
    assert f"bad rows are listed in {out}.bad_rows.jsonl" in lines
    assert "34 rows of 9 examples; " in ran.out
    assert "example 5 (in.jsonl line 6): 1 ids of context; choice 2 is right" in lines
    assert "*  2      2 ids  x| w|" in lines
    room = 60 + 1 - len(HELLASWAG[1]["endings"][1]) - 1  # ids and bytes are one here
    cut = f"{room} ids of context, {len(HELLASWAG[1]['ctx']) - room} more are cut"
    assert f"example 1 (in.jsonl line 2): {cut}; choice 1 is right" in lines
    assert "UNSCORABLE" in next(line for line in lines if line.startswith("example 2 "))
    assert "0      4 ids  a\\x1b[31m| b⏎c|" in lines
    assert "\x1b" not in ran.out


def test_a_template(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["choice", records, "-o", tmp_path / "out", "--tokenizer", "byte", "--template", "plain"]
    value = tokenriver(capsys, *words, "-n", "1", "--json").json()
    assert value["options"]["template"] == "plain"
    (shown,) = value["examples"]
    assert shown["context"]["text"] == f"<|user|>\n{HELLASWAG[0]['ctx']}<|endoftext|><|assistant|>\n"
    assert [choice["text"] for choice in shown["choices"]] == HELLASWAG[0]["endings"]
    ran = tokenriver(capsys, *words, "--format", "llmc")
    assert ran.code == 1
    assert "template: got plain with format 'llmc'" in ran.err
    assert tokenriver(capsys, "choice", tmp_path / "out", "-o", tmp_path / "x", "--format", "llmc").code == 1


def test_options_of_a_template(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = tmp_path / "t.jinja"
    template.write_text(
        "{{ n + 1 }}{{ today }}{% for m in messages %}{{ m.role + ':' + m.content + '<|endoftext|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
    )
    words = ["choice", records, "-o", tmp_path / "out", "--tokenizer", toy_file(), "--template", template, "-n", "1"]
    given = ["--template-option", "n=1", "--template-option", "today=1 May = NaN "]
    value = tokenriver(capsys, *words, *given, "--json").json()
    assert value["options"]["template_options"] == {"n": 1, "today": "1 May = NaN "}
    assert value["examples"][0]["context"]["text"].startswith("21 May = NaN user:")
    for more, code, named in (
        (["--template-option", "m"], 2, "got 'm', expected NAME=VALUE"),
        (["--template-option", "n=2"], 2, "got n twice, expected NAME=VALUE, each name once"),
        (["--template-option", "no=2"], 1, "got 'no', which the template does not read, expected one of n, today;"),
    ):
        ran = tokenriver(capsys, *words, *given, *more)
        assert (ran.code, named in " ".join(ran.err.replace("│", " ").split())) == (code, True)
    idle = {
        "--template": template,
        "--template-option": "a=1",
        "--style": "plain",
        "--answers": "full",
        "--join": "none",
    }
    for name, unused in idle.items():
        refused = tokenriver(capsys, "choice", tmp_path / "out", name, unused)
        assert (refused.code, name in refused.err) == (2, True), refused.err


def test_json_has_the_same_numbers(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["choice", records, "-o", tmp_path / "out", "--tokenizer", "byte", "--json"]
    value = tokenriver(capsys, *words).json()
    assert value["balance"]["rows"] == 10
    assert (value["lengths"]["examples"], value["lengths"]["choices"], value["examples"]) == (9, 34, [])
    assert value["bad_rows"].endswith("out.bad_rows.jsonl")
    shown = tokenriver(capsys, "choice", tmp_path / "out", "-n", "1", "--json", "--seq-len", "1k").json()
    assert shown["tokenizer"] == value["tokenizer"]
    assert shown["balance"] == value["balance"]
    assert shown["lines"]["scored"] == 9
    (example,) = shown["examples"]
    assert example["context"]["text"] == HELLASWAG[0]["ctx"]
    assert [choice["text"] for choice in example["choices"]] == [f" {ending}" for ending in HELLASWAG[0]["endings"]]
    assert (example["label"], example["line"]) == (0, 1)


def test_the_other_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records, own, other = write_lines(tmp_path / "in.jsonl", HELLASWAG), tmp_path / "own", tmp_path / "eval.bin"
    tokenriver(capsys, "choice", records, "-o", own)
    assert tokenriver(capsys, "choice", own, "-o", other, "--format", "llmc").code == 0
    assert sha256_file(other) == LLMC_SHA256
    ran = tokenriver(capsys, "choice", other, "-n", "1")
    assert "*  0      8 ids  The baker opened the oven and| took out a tray of warm bread.|" in ran.out
    assert "format llmc" in tokenriver(capsys, "info", other).out
    assert tokenriver(capsys, "verify", other).out == f"{other}: no findings\n"
    ran = tokenriver(capsys, "verify", other, "--against-inputs")
    assert "got multiple-choice examples, expected a corpus" in ran.err
    other.write_bytes(other.read_bytes()[:-2])
    ran = tokenriver(capsys, "verify", other)
    assert ran.code == 1
    assert "1 finding" in ran.out
    own.write_bytes(own.read_bytes()[:-1] + b"x")
    assert tokenriver(capsys, "verify", own, "--json").json()["findings"][0]["what"] == "sha256"


def test_without_its_tokenizer_ids_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = write_lines(tmp_path / "in.jsonl", [HELLASWAG[5]])
    tokenriver(capsys, "choice", records, "-o", tmp_path / "out", "--tokenizer", "byte")
    ran = tokenriver(capsys, "choice", tmp_path / "out", "--tokenizer", "byte-shifted")
    assert "byte-shifted is not the tokenizer that made them" in ran.err
    assert "*  2      2 ids  120|32 119|" in ran.out


def test_refusals(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "choice", records, "-o", tmp_path / "out", "--tokenizer", "byte", "--format", "llmc")
    assert (ran.code, ran.out) == (1, "")
    assert "example 8 (in.jsonl line 9): choices: got 2, expected 4 in llm.c's file" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    ran = tokenriver(capsys, "choice", records)
    assert ran.code == 1
    assert "expected a file of examples" in ran.err
    assert tokenriver(capsys, "choice", records, records).code == 2
    tokenriver(capsys, "choice", records, "-o", tmp_path / "out", "--tokenizer", "byte")
    assert tokenriver(capsys, "choice", tmp_path / "out", "-o", tmp_path / "out").code == 2
    assert tokenriver(capsys, "info", tmp_path / "out", "--for", "llmc").code == 2
