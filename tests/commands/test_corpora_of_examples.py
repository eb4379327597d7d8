"""Commands on corpora of examples: each counts what is trained, or says what such a corpus is read with."""

import json
from pathlib import Path

import pytest

import tokenriver as tr
from command_line import tokenriver

ROW = ("--seq-len", "16")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`masked` and `pairs`, of byte ids."""
    folder = tmp_path_factory.mktemp("examples")
    chats = [{"prompt": "q" * (n % 9 + 1), "completion": "a" * (n % 4 + 1)} for n in range(30)]
    pairs = [{"prompt": f"q{n}", "chosen": "good", "rejected": "bad"} for n in range(30)]
    for name, rows in (("chats", chats), ("pairs", pairs)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    tr.sft(folder / "chats.jsonl", folder / "masked", tokenizer="byte", val_fraction=0.2)
    tr.preference(folder / "pairs.jsonl", folder / "pairs", tokenizer="byte")
    return folder


def trained(path: Path) -> int:
    """The bits of the mask files."""
    return sum(byte.bit_count() for file in path.glob("*_train_*.mask") for byte in file.read_bytes())


@pytest.mark.parametrize("name", ["masked", "pairs"])
def test_stats_count_what_is_trained(corpora: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tr.open_corpus(corpora / name)
    count = trained(corpora / name)
    assert 0 < count < corpus.num_tokens
    value = tokenriver(capsys, "stats", corpora / name, *ROW, "--json").json()
    assert (value["trained"], bool(value["rows"])) == (count, name == "masked")
    ran = tokenriver(capsys, "stats", corpora / name, *ROW)
    assert f"{count:,}, {count / corpus.num_tokens:.1%} of the ids" in ran.out
    assert ("PairLoader reads them" in ran.out) == (name == "pairs")


def test_a_converted_corpus_counts_the_same(corpora: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tr.convert(corpora / "masked", tmp_path / "out", format="native", shard_tokens=100)
    assert len(tr.open_corpus(tmp_path / "out").shards) > 2
    assert tr.stats(tmp_path / "out").trained == trained(corpora / "masked")


def test_stats_of_a_corpus_of_texts_have_no_such_number(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tr.stats(small_corpus).trained is None
    assert "trained" not in tokenriver(capsys, "stats", small_corpus).out


def test_a_plan_has_the_share(corpora: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", corpora / "masked", *ROW, "--batch-size", "2", "--tokens-per-second", "1e3"]
    share = trained(corpora / "masked") / tr.open_corpus(corpora / "masked").num_tokens
    assert tokenriver(capsys, *words, "--json").json()["trained_share"] == share
    assert f"{share:.1%} of the ids" in tokenriver(capsys, *words).out


def test_what_a_trainer_would_miss(corpora: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("masked", "pairs"):
        found = tokenriver(capsys, "info", corpora / name, "--for", "llmc", "--json").json()["for"]
        assert any("loss masks: the trainers read none" in remark for remark in found["remarks"])
    lines = [line.split() for line in tokenriver(capsys, "info", corpora / "pairs").out.splitlines()]
    assert ["samples", "2", "documents", "each,"] in [line[:4] for line in lines]
    assert ["train", "30"] in [line[:2] for line in lines]


ROWS = (*ROW, "--batch-size", "2")
ON_PAIRS = {
    "plan": (*ROWS, "--tokens-per-second", "1e3"),
    "pack": (*ROW, "--packing", "best_fit"),
    "batches": ROWS,
    "trace": (*ROWS, "--row-number", "1"),
    "when": (*ROWS, "--document", "1"),
    "bench": ROWS,
}


@pytest.mark.parametrize("command", ON_PAIRS)
def test_rows_of_documents_that_stay_together_are_refused(
    corpora: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = tokenriver(capsys, command, corpora / "pairs", *ON_PAIRS[command])
    assert (ran.code, ran.out) == (1, "")
    assert "2 documents a sample that stay together" in ran.err
    assert "read it with PairLoader" in ran.err
    assert not (corpora / "pairs" / "plans").exists()


@pytest.mark.parametrize("name", ["masked", "pairs"])
def test_what_reads_documents_alone_reads_them(corpora: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tokenriver(capsys, "verify", corpora / name).out == f"{corpora / name}: no findings\n"
    ran = tokenriver(capsys, "verify", corpora / name, "--against-inputs")
    assert (ran.code, "got a corpus of examples" in ran.err) == (1, True)
    other = corpora / ("pairs" if name == "masked" else "masked")
    ran = tokenriver(capsys, "leak", corpora / name, other, "--json")
    assert (ran.code, ran.json()["found"]) == (0, 0)


def test_rows_of_masked_documents_are_traced(corpora: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = tokenriver(capsys, "trace", corpora / "masked", *ROWS, "--row-number", "1", "--json").json()
    assert "chats.jsonl" in json.dumps(row)
    ran = tokenriver(capsys, "when", corpora / "masked", *ROWS, "--document", "1")
    assert ran.code == 0
    assert "document 1: chats.jsonl, record 1: in " in ran.out


@pytest.mark.parametrize("command", [*(name for name in ON_PAIRS if name != "pack"), "stats", "leak"])
def test_a_file_of_choices_is_no_corpus(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.jsonl").write_text('{"context": "a", "choices": ["b", "c"], "label": 1}\n')
    tr.build_choices(tmp_path / "in.jsonl", tmp_path / "x.choice", tokenizer="byte")
    ran = tokenriver(capsys, command, tmp_path / "x.choice", *ON_PAIRS.get(command, ()))
    assert (ran.code, ran.out) == (1, "")
    assert "got multiple-choice examples, expected a corpus; show them with tokenriver choice" in ran.err
