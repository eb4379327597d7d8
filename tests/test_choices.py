"""Records -> a file of examples: every row counted, llm.c's bytes, the same file by any way in, and refusals."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import tokenriver as tr
from choice_cases import HELLASWAG, LLMC_SHA256, MMLU, as_lists, made, write_lines
from tokenriver.digests import sha256_file
from tokenriver.types import Ids, Int64, Tokenizer

PLAIN = {"context": "a", "choices": ["b", "c", "d"], "label": 2}


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return tr.load_tokenizer("gpt2")


def build(folder: Path, rows: list[Any], **options: object) -> tuple[tr.ChoiceReport, tr.ChoiceExamples]:
    given: dict[str, Any] = {"tokenizer": "byte", **options}
    report = tr.build_choices(write_lines(folder / "in.jsonl", rows), folder / "out", **given)
    return report, tr.open_choices(folder / "out")


def test_llmcs_file_to_the_byte(gpt2: Tokenizer, tmp_path: Path) -> None:
    build(tmp_path, HELLASWAG, tokenizer=gpt2, format="llmc")
    assert sha256_file(tmp_path / "out") == LLMC_SHA256
    build(tmp_path, HELLASWAG, tokenizer=gpt2)
    tr.write_choices(tr.open_choices(tmp_path / "out"), tmp_path / "again.bin", format="llmc")
    assert sha256_file(tmp_path / "again.bin") == LLMC_SHA256


def test_every_row_is_an_example_or_has_a_reason(tmp_path: Path) -> None:
    rows = [
        HELLASWAG[0],
        b"",
        MMLU,
        b"{",
        b"[1]",
        b"\xff",
        {**PLAIN, "label": 3},
        PLAIN,
        b" \r",
        b'{"context": "\\ud800", "choices": ["x", "y"], "label": 0}',
    ]
    report, examples = build(tmp_path, rows, max_bad=1)
    balance = report.balance
    assert balance == {
        "rows": 10,
        "examples": {"hellaswag": 1, "mmlu": 1, "plain": 2},
        "bad_rows": {"invalid-utf8": 1, "label-out-of-range": 1, "not-an-object": 1, "not-json": 1},
        "notes": {"blank": 2, "lone-surrogate": 1},
    }
    assert examples.about["balance"] == balance
    assert examples.records.tolist() == [0, 2, 7, 9]
    assert bytes(examples.pieces(3)[0].tolist()).decode() == "\ufffd"
    assert [json.loads(line) for line in (tmp_path / "out.bad_rows.jsonl").read_text().splitlines()] == [
        {"file": "in.jsonl", "line": line, "reason": reason}
        for line, reason in ((4, "not-json"), (5, "not-an-object"), (6, "invalid-utf8"), (7, "label-out-of-range"))
    ]
    assert examples.name(2) == "example 2 (in.jsonl line 8)"
    build(tmp_path, [PLAIN])
    assert not (tmp_path / "out.bad_rows.jsonl").exists()


def test_the_same_examples_by_any_way_in(tmp_path: Path) -> None:
    rows = [{**row, "label": str(row["label"])} for row in HELLASWAG]
    data = write_lines(tmp_path / "a.jsonl", rows).read_bytes()
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(data))
    (tmp_path / "c.jsonl.zst").write_bytes(zstandard.compress(data))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "d.parquet", row_group_size=3)
    found = []
    for path in sorted(tmp_path.iterdir()):
        tr.build_choices(path, tmp_path / "out", tokenizer="byte")
        examples = tr.open_choices(tmp_path / "out")
        assert (examples.about["sources"]["path"], examples.about["sources"]["records"]) == ([path.name], [7])
        found.append((as_lists(examples), examples.records.tolist(), examples.choice_bytes))
    assert all(str(one) == str(found[0]) for one in found)
    report = tr.build_choices(sorted(tmp_path.glob("*.*")), tmp_path / "out", tokenizer="byte")
    assert report.lengths["examples"] == 28
    assert tr.open_choices(tmp_path / "out").sources.tolist() == [n for n in range(4) for _ in range(7)]


def test_parquet_of_the_hub(tmp_path: Path) -> None:
    table = pa.table(
        {"question": ["2 + 2?", None], "subject": ["x", "y"], "choices": [MMLU["choices"]] * 2, "answer": [1, 0]}
    )
    pq.write_table(table, tmp_path / "in.parquet")
    report = tr.build_choices(tmp_path / "in.parquet", tmp_path / "out", tokenizer="byte", max_bad=1)
    assert report.balance["bad_rows"] == {"null": 1}
    assert bytes(tr.open_choices(tmp_path / "out").pieces(0)[2].tolist()) == b" B"


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    build(tmp_path, [*HELLASWAG, MMLU, PLAIN])
    first = (tmp_path / "out").read_bytes()
    build(tmp_path, [*HELLASWAG, MMLU, PLAIN])
    assert (tmp_path / "out").read_bytes() == first


def test_text_that_spells_a_control_token_is_text(gpt2: Tokenizer, tmp_path: Path) -> None:
    row = {"context": "a<|endoftext|>", "choices": ["<|endoftext|>", "b"], "label": 0}
    examples = build(tmp_path, [row], tokenizer=gpt2)[1]
    assert 50256 not in examples.ids
    assert [gpt2.decode(piece) for piece in examples.pieces(0)] == ["a<|endoftext|>", " <|endoftext|>", " b"]


def test_a_choice_never_merges_with_its_context(gpt2: Tokenizer, tmp_path: Path) -> None:
    """The whole text has one token across the join; encoded apart no choice is left without an id."""
    rows: list[dict[str, Any]] = [
        {"context": context, "choices": [right, "zz"], "label": 0}
        for context, right in (("Ans", "wer"), ("hello wor", "ld"))
    ]
    examples = build(tmp_path, rows, tokenizer=gpt2, join="")[1]
    for number, row in enumerate(rows):
        assert [gpt2.decode(piece) for piece in examples.pieces(number)] == [row["context"], *row["choices"]]


def test_lengths_are_told(tmp_path: Path) -> None:
    lengths = build(tmp_path, [PLAIN, {**PLAIN, "context": "abcd", "choices": ["x", "yyyy"], "label": 0}])[0].lengths
    assert lengths["choices_an_example"] == {"min": 2, "median": 3, "max": 3}
    assert lengths["context_ids"] == {"min": 1, "median": 4, "max": 4}
    assert lengths["row_ids"]["max"] == 9
    assert lengths["scored_ids"] == 3 * 2 + 2 + 5
    assert lengths["scored_share"] == 13 / (13 + 3 + 8)


def test_bad_rows_have_their_limit(tmp_path: Path) -> None:
    bad = {**PLAIN, "label": 9}
    build(tmp_path, [PLAIN, *[bad] * 9])
    with pytest.raises(
        tr.InputError, match=r"got 10 bad rows of 11 \(10 label-out-of-range\), expected at most 1.00%.*line 2"
    ):
        build(tmp_path, [PLAIN, *[bad] * 10])
    build(tmp_path, [PLAIN, *[bad] * 10], max_bad=0.95)
    with pytest.raises(tr.InputError, match=r"in.jsonl: line 2: got label-out-of-range, expected no bad row"):
        build(tmp_path, [PLAIN, bad], on_bad="fail")
    with pytest.raises(tr.InputError, match=r"got 1 rows, none with an example \(1 label-out-of-range\)"):
        build(tmp_path, [bad])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "hdf5"}, "format: got 'hdf5', expected native or llmc"),
        ({"style": "arc"}, "style: got 'arc'"),
        ({"on_bad": "stop"}, "on_bad: got 'stop'"),
        ({"max_bad": 2}, "max_bad: got 2"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(tr.InputError, match=message):
        build(tmp_path, [PLAIN], **options)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_only_files_of_examples_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"a diary")
    with pytest.raises(tr.InputError, match="no file of examples"):
        build(tmp_path, [PLAIN])
    assert (tmp_path / "out").read_bytes() == b"a diary"
    path = write_lines(tmp_path / "x.jsonl", [PLAIN])
    with pytest.raises(tr.InputError, match="is one of the inputs"):
        tr.build_choices(path, path, tokenizer="byte")
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(tr.InputError, match="kind: got text, expected records"):
        tr.build_choices(tmp_path / "a.txt", tmp_path / "new", tokenizer="byte")


ONE = ([1], [[2], [3], [4], [5]], 0)


def many(count: int, last: list[int]) -> tr.ChoiceExamples:
    """So many times ONE, the last one with another context."""
    ids = np.tile(np.arange(1, 6, dtype=np.uint32), count)
    ends = np.arange(1, 5 * count + 1)
    ends[-5:] += len(last) - 1
    return made(
        [ONE],
        labels=np.zeros(count, np.int64),
        choice_ends=np.arange(4, 4 * count + 4, 4),
        piece_ends=ends,
        ids=np.concatenate([ids[:-5], np.array(last, np.uint32), ids[-4:]]),
        records=np.arange(count),
        sources=np.zeros(count, np.int32),
        choice_bytes=np.ones(4 * count, np.int64),
    )


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (made([ONE, ([1], [[2], [3]], 0)]), "example 1: choices: got 2, expected 4"),
        (made([ONE, ([1], [[2], [3], [65535], [4]], 0)]), "example 1: id: got 65535, expected at most 65534"),
        (many(65536, [1]), "examples: got 65536, expected at most 65535"),
        (many(2, [1] * 32754), "example 1: record: got 65536 bytes, expected at most 65535"),
    ],
)
def test_what_llmcs_file_cannot_hold(examples: tr.ChoiceExamples, message: str, tmp_path: Path) -> None:
    with pytest.raises(tr.LimitError, match=f"{message} in llm.c's file; leave it out, or use the native format"):
        tr.write_choices(examples, tmp_path / "out", format="llmc")
    assert not list(tmp_path.iterdir())
    tr.write_choices(examples, tmp_path / "out")
    assert len(tr.open_choices(tmp_path / "out")) == len(examples)


def test_what_llmcs_file_just_holds(tmp_path: Path) -> None:
    examples = many(65535, [65534] * 32753)
    tr.write_choices(examples, tmp_path / "out", format="llmc")
    found = tr.open_choices(tmp_path / "out")
    assert np.array_equal(found.ids, examples.ids)
    assert np.array_equal(found.labels, examples.labels)
    assert found.choice_bytes is None


def test_progress_goes_through_all_inputs(tmp_path: Path) -> None:
    paths = [write_lines(tmp_path / f"{name}.jsonl", [PLAIN] * 3) for name in "ab"]
    size, seen = sum(path.stat().st_size for path in paths), list[tuple[int, int]]()
    tr.build_choices(paths, tmp_path / "out", tokenizer="byte", progress=lambda *at: seen.append(at))
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)
    assert {total for _, total in seen} == {size}


class Picky:
    """Bytes as ids, but nothing for a text with a z, and no text at all with a !."""

    name, fingerprint, vocab_size = "picky", "0" * 64, 256

    def encode_batch(self, texts: Sequence[str]) -> tuple[Ids, Int64]:
        if any("!" in text for text in texts):
            raise tr.InputError("text: got '!'")
        rows = [b"" if "z" in text else text.encode() for text in texts]
        return np.frombuffer(b"".join(rows), np.uint8).astype(np.uint32), np.array([len(row) for row in rows], np.int64)

    def check(self, texts: Sequence[bytes], ids: Ids, lengths: Int64) -> None:
        if b"" in [text.strip(b"?") for text in texts] or int(lengths.sum()) != len(ids):
            raise tr.MismatchError("encoder check: ids differ")


def test_a_text_without_ids_is_a_bad_row(tmp_path: Path) -> None:
    rows = [PLAIN, {**PLAIN, "context": "z"}, {**PLAIN, "choices": ["b", "c", "z"]}, {**PLAIN, "context": "e"}]
    report, examples = build(tmp_path, rows, tokenizer=Picky())
    assert report.balance["bad_rows"] == {"no-ids": 2}
    assert report.balance["examples"] == {"plain": 2}
    assert examples.records.tolist() == [0, 3]
    assert [bytes(piece.tolist()) for piece in examples.pieces(1)] == [b"e", b" b", b" c", b" d"]
    lines = (tmp_path / "out.bad_rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in lines] == [2, 3]
    with pytest.raises(tr.InputError, match=r"none with an example \(1 no-ids\)"):
        build(tmp_path, [{**PLAIN, "context": "z"}], tokenizer=Picky())


def test_a_text_that_the_tokenizer_refuses_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(tr.InputError, match=r"in.jsonl: line 3: text: got '!'"):
        build(tmp_path, [PLAIN, PLAIN, {**PLAIN, "choices": ["!", "b"], "label": 0}, PLAIN], tokenizer=Picky())


def test_ids_are_compared_with_the_reference_encoders(tmp_path: Path) -> None:
    with pytest.raises(tr.MismatchError, match="encoder check"):
        build(tmp_path, [PLAIN, {**PLAIN, "context": "?"}], tokenizer=Picky())
    assert not (tmp_path / "out").exists()
