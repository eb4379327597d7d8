"""`tokenriver trace` and `when`: what the loader says, with sources, texts, steps and ranks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenriver as tr
from command_line import tokenriver
from tokenriver.runlog import Start, append_to_log

SHAPE = ("--seq-len", 64, "--batch-size", 4, "--seed", 5)


@pytest.fixture
def loader(small_corpus: Path) -> tr.Loader:
    return tr.Loader(tr.open_corpus(small_corpus), seq_len=64, global_batch=4, seed=5, prefetch=0)


def texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_row_names_its_documents(
    small_corpus: Path, small_input: Path, loader: tr.Loader, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = texts(small_input)
    value = tokenriver(
        capsys, "trace", small_corpus, *SHAPE, "--row-number", 9, "--source-root", small_input.parent, "--json"
    ).json()
    (row,) = value["rows"]
    assert (row["row_number"], row["epoch"], row["step"], row["rank"], row["index"]) == (9, 0, 2, 0, 1)
    assert [document["document"] for document in row["documents"]] == [origin.document for origin in loader.trace(9)]
    batch = loader.batch(2)
    shown = [*batch.input_ids[1].tolist(), int(batch.targets[1, -1])]
    text = "".join(document["text"] for document in row["documents"])
    assert text == tr.open_corpus(small_corpus).decode(np.array(shown, np.uint32))
    for document in row["documents"]:
        assert document["path"] == small_input.name
        assert document["source_text"] == rows[document["record"]]
        framed = rows[document["record"]] + tr.open_corpus(small_corpus).decode([256])
        assert document["text"] in framed
        assert document["cut_start"] == (not framed.startswith(document["text"]))
        assert document["cut_end"] == (not framed.endswith(document["text"]))


def test_a_step_by_rank_and_index(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*words: object) -> list[dict[str, Any]]:
        found = tokenriver(capsys, "trace", small_corpus, *SHAPE, "--step", 3, "--json", *words).json()["rows"]
        assert isinstance(found, list)
        return found

    assert [row["row_number"] for row in rows()] == [12, 13, 14, 15]
    ranks = ("--world-size", 3, "--rank")
    assert [[row["row_number"] for row in rows(*ranks, rank)] for rank in range(3)] == [[12], [13], [14, 15]]
    assert [(row["rank"], row["index"]) for row in rows(*ranks, 2)] == [(2, 0), (2, 1)]
    assert [row["row_number"] for row in rows(*ranks, 2, "--index", 1)] == [15]


def test_when_is_the_way_back(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = tokenriver(capsys, "when", small_corpus, *SHAPE, "--document", 11, "--epochs", 3, "--json").json()
    (found,) = value["documents"]
    corpus = tr.open_corpus(small_corpus)
    loader = tr.Loader(corpus, seq_len=64, global_batch=4, seed=5, prefetch=0, epochs=3)
    assert [row["row_number"] for row in found["rows"]] == loader.when(11).tolist()
    assert [row["epoch"] for row in found["rows"]] == (loader.when(11) // loader.num_rows).tolist()
    for row in found["rows"]:
        words = ("--step", row["step"], "--rank", row["rank"], "--index", row["index"])
        (traced,) = tokenriver(capsys, "trace", small_corpus, *SHAPE, *words, "--json").json()["rows"]
        assert traced["row_number"] == row["row_number"]
        assert 11 in {document["document"] for document in traced["documents"]}


def test_rows_in_buckets(small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ("--seq-len", 64, "--packing", "document", "--buckets", "16,48", "--max-tokens-per-batch", 200, "--json")
    options: dict[str, Any] = {"seq_len": 64, "packing": "document", "world_size": 2, "prefetch": 0, "epochs": 2}
    options["packing_options"] = {"buckets": [16, 48], "max_tokens_per_batch": 200}
    ranks = [tr.Loader(tr.open_corpus(small_corpus), rank=rank, **options) for rank in range(2)]
    for step in (0, 1, ranks[0].steps_per_epoch + 2):
        for rank, loader in enumerate(ranks):
            words = (*shape, "--world-size", 2, "--step", step, "--rank", rank)
            rows = tokenriver(capsys, "trace", small_corpus, *words).json()["rows"]
            numbers = loader.batch(step).row_numbers
            assert [row["row_number"] for row in rows] == numbers[numbers >= 0].tolist()
            assert [(row["step"], row["rank"], row["index"]) for row in rows] == [
                (step, rank, index) for index in range(len(rows))
            ]
    words = (*shape, "--world-size", 2, "--document", 11, "--epochs", 2)
    (found,) = tokenriver(capsys, "when", small_corpus, *words).json()["documents"]
    assert [row["row_number"] for row in found["rows"]] == ranks[0].when(11).tolist()
    failed = tokenriver(capsys, "trace", small_corpus, *shape, "--step", 0, "--run", tmp_path / "log")
    assert (failed.code, "in buckets, which needs no log" in failed.err) == (1, True)
    for command, asked in (("trace", "--step"), ("when", "--document")):
        assert tokenriver(capsys, command, small_corpus, "--seq-len", 64, asked, 0).code == 2


def test_a_document_by_its_record_or_its_text(
    small_corpus: Path, small_input: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tr.open_corpus(small_corpus)
    documents = {corpus.source(i)[1]: i for i in range(corpus.num_documents or 0)}
    record = 14 if 14 in documents else 15
    value = tokenriver(capsys, "when", small_corpus, *SHAPE, "--record", f"small.jsonl:{record}", "--json").json()
    assert [found["document"] for found in value["documents"]] == [documents[record]]
    value = tokenriver(capsys, "when", small_corpus, *SHAPE, "--text", f"t {record}\nhas", "--json").json()
    assert [(found["document"], found["record"]) for found in value["documents"]] == [(documents[record], record)]
    value = tokenriver(capsys, "when", small_corpus, *SHAPE, "--text", "two lines", "--json").json()
    assert len(value["documents"]) == corpus.num_documents
    ran = tokenriver(capsys, "when", small_corpus, *SHAPE, "--text", "not there", "--json")
    assert (ran.code, ran.json()["documents"]) == (1, [])
    assert "no such document" in ran.err
    absent = next(n for n in range(len(texts(small_input))) if n not in documents)
    assert tokenriver(capsys, "when", small_corpus, *SHAPE, "--record", f"small.jsonl:{absent}").code == 1


def test_a_run_that_changed_its_shape(small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "run.jsonl"
    append_to_log(log, Start(0, 0, 4, 1))
    append_to_log(log, Start(5, 20, 6, 2))
    value = tokenriver(capsys, "trace", small_corpus, *SHAPE, "--step", 6, "--rank", 1, "--run", log, "--json").json()
    assert [row["row_number"] for row in value["rows"]] == [29, 30, 31]
    value = tokenriver(capsys, "trace", small_corpus, *SHAPE, "--row-number", 30, "--run", log, "--json").json()
    assert [(row["step"], row["rank"], row["index"]) for row in value["rows"]] == [(6, 1, 1)]


def test_for_people(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "trace", small_corpus, *SHAPE, "--row-number", 3, "--characters", 0)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "small.jsonl, record" in ran.out
    assert "cut at its end" in ran.out
    ran = tokenriver(capsys, "when", small_corpus, *SHAPE, "--document", 3, "--epochs", 30)
    assert "more; --limit 0 prints all" in ran.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("trace",), 2, "give either --row-number or --step"),
        (("trace", "--row-number", 1, "--step", 1), 2, "give either"),
        (("trace", "--row-number", 1, "--rank", 1), 2, "of a --step"),
        (("trace", "--step", 1, "--index", 4), 1, "--index: got 4, expected 0 to 3"),
        (("trace", "--step", 1, "--rank", 4), 1, "rank, world_size: got 4, 1"),
        (("when",), 2, "give one of"),
        (("when", "--document", 1, "--text", "a"), 2, "give one of"),
        (("when", "--document", 10**6), 1, "document: got 1000000"),
        (("when", "--record", "small.jsonl"), 2, "expected SOURCE:N"),
        (("when", "--record", "other.jsonl:3"), 1, "source 'other.jsonl': got none of the 1 inputs"),
        (("when", "--text", ""), 1, "text: got an empty one"),
    ],
)
def test_wrong_arguments(
    words: tuple[object, ...], code: int, message: str, small_corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = tokenriver(capsys, words[0], small_corpus, *SHAPE, *words[1:])
    assert ran.code == code
    assert message in " ".join(ran.err.replace("│", " ").split())
