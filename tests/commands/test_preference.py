"""`tokenriver preference`: lines or a corpus, for people and for machines."""

import json
from pathlib import Path

import pytest

import tokenriver as tr
from command_line import tokenriver

ASKED = "\n\nHuman: q\n\nAssistant:"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rows = [{"chosen": f"{ASKED} a{n}", "rejected": f"{ASKED} b"} for n in range(3)]
    rows += [{"chosen": ASKED, "rejected": f"{ASKED} b"}, {"chosen": "a", "rejected": "b", "prompt": "p", "\x1b": "s"}]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_lines(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["preference", source, "-o", tmp_path / "out.jsonl", "--dataset", "hh", "--max-bad", "1"]
    ran = tokenriver(capsys, *words)
    assert (ran.code, ran.err) == (0, "")
    for shown in ("3 examples of 5 rows", "dropped, empty-answer", "bad, other-dataset", "of hh", "out.dropped.jsonl"):
        assert shown in ran.out
    value = tokenriver(capsys, *words, "--json", "--max-per-dataset", "2", "--shuffle", "0").json()
    assert (value["rows"], value["kept"], value["datasets"]) == (5, 2, {"hh": 2})
    assert value["dropped"] == {"beyond-max-rows": 1, "empty-answer": 1}


def test_a_corpus(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["preference", source, "-o", tmp_path / "c", "--tokenizer", "byte"]
    ran = tokenriver(capsys, *words)
    assert (ran.code, ran.err) == (0, "")
    for shown in ("4 examples of 5 rows", "of strings", "longest row", "trained", "fields not taken", "\\x1b (1)"):
        assert shown in ran.out
    value = tokenriver(capsys, *words, "--json").json()
    assert value["kept"] == tr.PairLoader(tr.open_corpus(tmp_path / "c"), max_length=99, global_batch=1).num_pairs
    ran = tokenriver(capsys, "info", tmp_path / "c")
    assert ran.code == 0
    for shown in ("rows read", "dropped: empty-answer"):
        assert shown in ran.out
    assert tokenriver(capsys, "verify", tmp_path / "c").code == 0
    ran = tokenriver(capsys, "batches", tmp_path / "c", "--seq-len", "8", "--batch-size", "1")
    assert ran.code == 1
    assert "read it with PairLoader" in ran.err


def test_a_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"prompt": f"p{n % 20}", "chosen": f"a{n}", "rejected": "b"} for n in range(40)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ["preference", tmp_path / "in.jsonl", "--tokenizer", "byte", "--val-fraction", "0.3", "-o"]
    value = tokenriver(capsys, *words, tmp_path / "out.jsonl", "--json").json()
    assert value["splits"]["train"] + value["splits"]["val"] == value["kept"] == 40
    sides = [
        {json.loads(line)["prompt"] for line in (tmp_path / name).read_text().splitlines()}
        for name in ("out.jsonl", "out.val.jsonl")
    ]
    assert not sides[0] & sides[1]
    assert len(sides[0]) + len(sides[1]) == 20
    ran = tokenriver(capsys, *words, tmp_path / "c")
    for split, count in value["splits"].items():
        assert f"pairs of {split}" in ran.out
        corpus = tr.open_corpus(tmp_path / "c", split=split)
        assert tr.PairLoader(corpus, max_length=99, global_batch=1).num_pairs == count
    # a second run finds the corpus and says the same
    assert tokenriver(capsys, *words, tmp_path / "c", "--json").json()["splits"] == value["splits"]


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["none.jsonl", "-o", "x.jsonl"], 1, "no such file"),
        (["{source}"], 2, "Missing option"),
        (["{source}", "-o", "x", "--template", "none-such"], 1, "none-such"),
        (["{source}", "-o", "x", "--tokenizer", "no_such"], 1, "no_such"),
        (["{source}", "-o", "x.jsonl", "--dataset", "shp"], 2, "--dataset"),
    ],
)
def test_refusals(
    words: list[str],
    code: int,
    what: str,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(source.parent)
    ran = tokenriver(capsys, "preference", *(word.format(source=source) for word in words))
    assert (ran.code, ran.out) == (code, "")
    assert what in ran.err
    assert list(source.parent.iterdir()) == [source]
