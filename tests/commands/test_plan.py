"""`tokenriver plan`: a corpus, a mixture, raw text; warnings, and what is missing."""

from pathlib import Path

import pytest

import tokenriver as tr
from command_line import tokenriver

RATE = ["--seq-len", "16", "--batch-size", "4", "--tokens-per-second", "1000"]


def test_json_has_the_numbers_of_the_function(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = tokenriver(capsys, "plan", small_corpus, *RATE, "--packing", "best_fit", "--steps", "50", "--json").json()
    corpus = tr.open_corpus(small_corpus)
    found = tr.plan(corpus, seq_len=16, global_batch=4, tokens_per_second=1000, packing="best_fit", steps=50)
    assert value["epochs"] == found.epochs
    assert (value["steps"], value["hours"], value["rows_per_epoch"]) == (50, found.hours, found.rows_per_epoch)
    assert value["read_bytes_per_second"] == found.read_bytes_per_second
    assert value["text"] is None


def test_the_table_and_its_warnings(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "plan", small_corpus, *RATE[:-1], "0.01", "--world-size", "3", "--rate-steps", "10")
    corpus = tr.open_corpus(small_corpus)
    assert ran.code == 0
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    rows = (corpus.num_tokens - 1) // 16
    for line in ("tokens a step 64", "rows of a micro-batch 2", f"rows an epoch {rows:,}", "epochs 1"):
        assert line in lines
    assert ran.err.count("warning: ") == ran.err.count("\n") == 3
    for what in ("no length was given", "measured over 10 steps", "2 of 6 rows"):
        assert what in ran.err


def test_a_mixture_shows_its_sources(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", f"a={small_corpus}:0.9", f"b={small_corpus}:1e-1", *RATE, "--token-budget", "64k", "--json"]
    sources = tokenriver(capsys, *words).json()["sources"]
    assert [source["name"] for source in sources] == ["a", "b"]
    assert sum(source["rows"] for source in sources) == 4000
    assert sources[0]["rows"] == pytest.approx(3600, abs=1)
    ran = tokenriver(capsys, *words[:-1])
    assert "rows of the run" in ran.out
    assert "90.00%" in ran.out


def test_raw_text_is_sampled(small_input: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = tokenriver(capsys, "plan", small_input, "--tokenizer", "byte", *RATE, "--json").json()
    found = tr.estimate(small_input, tokenizer="byte")
    assert value["text"]["ids"]["mid"] == found.ids.mid
    assert value["text"]["build_seconds"]["mid"] > 0
    assert value["rows_per_epoch"] == (round(found.ids.mid) - 1) // 16
    ran = tokenriver(capsys, "plan", small_input, "--tokenizer", "byte", *RATE)
    assert (ran.code, ran.err) == (0, "")
    assert "1 files, 1 stretches" in ran.out
    assert "bytes a token" in ran.out
    assert "build, one process" in ran.out


@pytest.mark.parametrize("missing", [0, 2, 4])
def test_what_is_missing_is_named(missing: int, small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "plan", small_corpus, *RATE[:missing], *RATE[missing + 2 :])
    assert ran.code == 2
    assert RATE[missing] in ran.err


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["--epochs", "1", "--steps", "2"], 1, "epochs and steps: got both"),
        (["--world-size", "0"], 1, "world_size: got 0"),
        (["--tokens-per-second", "-1"], 1, "tokens_per_second: got -1"),
        (["--packing", "worst_fit"], 1, "worst_fit"),
        (["--overflow", "drop"], 1, "overflow: got 'drop'"),
        (["--token-budget", "much"], 2, "1000000, 1M or 16MiB"),
        (["no_corpus"], 1, "PATH: got "),
    ],
)
def test_refusals(
    words: list[str], code: int, what: str, small_corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = tokenriver(capsys, "plan", small_corpus, *RATE, *words)
    assert ran.code == code
    assert what in ran.err
    assert ran.out == ""


def test_raw_text_without_a_tokenizer_is_told_how(small_input: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "plan", small_input, *RATE)
    assert ran.code == 1
    assert "if it is raw text, give its --tokenizer" in ran.err


@pytest.mark.parametrize("words", [["a=c:1", "a=c:1"], ["a=c:x", "b=c:1"]])
def test_sources_that_make_no_mixture(
    words: list[str], small_corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small_corpus.parent)
    ran = tokenriver(capsys, "plan", *(word.replace("=c:", f"={small_corpus.name}:") for word in words), *RATE)
    assert ran.code == 1
    assert "expected NAME=PATH:WEIGHT, each name once" in ran.err
