"""Estimates of a build: exact where all is read, close where it is sampled, honest about what a sample cannot show."""

import gzip
import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import tokenriver as tr
from small_builds import small_build, some_texts, write_rows
from tokenriver.errors import InputError


def _varied(number: int, rows: int, tail: str = "") -> list[str]:
    """Texts whose lengths and characters differ, that hardly compress."""
    draw = np.random.default_rng(number)
    sizes = draw.integers(0, 700, rows).tolist()
    return [f"{i} " + draw.bytes(size).hex() + "é" * (i % 3) + tail for i, size in enumerate(sizes)]


def _compressed(path: Path, data: bytes) -> Path:
    pack = gzip.compress if path.suffix == ".gz" else zstandard.compress
    path.write_bytes(pack(data))
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("framing", ["eos-after", "none"])
def test_what_is_read_whole_is_exact(ending: str, framing: str, tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        data = write_rows(tmp_path / "rows", _varied(number, 150)).read_bytes()
        path = tmp_path / f"{number}.jsonl{ending}"
        paths.append(_compressed(path, data) if ending else path)
        path.write_bytes(path.read_bytes() if ending else data)
    found = tr.estimate(paths, tokenizer="byte", framing=framing)
    small_build(paths, tmp_path / "c", framing=framing, unit_bytes=1 << 20)
    corpus = tr.open_corpus(tmp_path / "c")
    assert found.ids.low == pytest.approx(found.ids.high)
    assert found.ids.mid == pytest.approx(corpus.num_tokens)
    assert found.documents.mid == pytest.approx(450)
    assert found.bytes_per_token.mid == pytest.approx(1)
    assert found.sampled_bytes == found.input_bytes == sum(path.stat().st_size for path in paths)
    disk = sum(path.stat().st_size for path in (tmp_path / "c").iterdir() if path.name.startswith("tokens"))
    assert found.disk_bytes.mid == pytest.approx(disk, abs=2000)
    assert (found.notes, found.build_seconds) == ((), None)


@pytest.mark.parametrize("separator", [None, "blank-line", "|"])
@pytest.mark.parametrize("ending", ["", ".zst"])
def test_plain_text_read_whole_is_exact(separator: str | None, ending: str, tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        data = {None: " ", "blank-line": "\n\n", "|": "|"}[separator].join(_varied(number, 60, "x")).encode()
        path = tmp_path / f"{number}.txt{ending}"
        path.write_bytes(zstandard.compress(data) if ending else data)
        paths.append(path)
    found = tr.estimate(paths, tokenizer="gpt2", separator=separator)
    small_build(paths, tmp_path / "c", tokenizer="gpt2", separator=separator, unit_bytes=1 << 20)
    corpus = tr.open_corpus(tmp_path / "c")
    assert found.ids.low == pytest.approx(found.ids.high)
    assert found.documents.mid == pytest.approx(corpus.documents.count)
    assert found.ids.mid == pytest.approx(corpus.num_tokens)


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".txt"])
def test_the_interval_holds_what_is_there(ending: str, tmp_path: Path) -> None:
    """Of files that are all read in part, nearly all have the truth inside their bounds, and none is far off. (Bytes of
    plain text are ids, so it has no spread; of a stream the bounds are those of its head.)"""
    held = 0
    for number in range(3 if "z" in ending else 8):
        texts = _varied(number, 2500)
        rows = write_rows(tmp_path / "rows", texts).read_bytes()
        path = tmp_path / f"a{ending}"
        data = "".join(f"{text}|" for text in texts).encode() if ending == ".txt" else rows
        path.write_bytes(data)
        if ending.endswith(("gz", "zst")):
            _compressed(path, data)
        found = tr.estimate(path, tokenizer="byte", separator="|", sample_bytes=1 << 18)
        truth = sum(len(text.encode()) + 1 for text in texts)
        assert found.sampled_bytes < 0.8 * found.input_bytes
        assert 0.7 * truth < found.ids.low <= found.ids.mid <= found.ids.high < 1.3 * truth
        assert found.ids.mid == pytest.approx(truth, rel=0.02 if "z" in ending else 0.15)
        assert found.text_bytes.mid == pytest.approx(truth - 2500, rel=0.15)
        held += "z" in ending or round(found.ids.low) <= truth <= round(found.ids.high)
    assert held >= (3 if "z" in ending else 6)


def test_the_same_inputs_give_the_same_numbers(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", _varied(1, 900))
    assert tr.estimate(path, sample_bytes=1 << 18) == tr.estimate(str(path), sample_bytes=1 << 18)


def test_time_is_measured_by_a_clock_alone(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", some_texts(50))
    ticks = count()
    found = tr.estimate(path, tokenizer="byte", clock=lambda: float(next(ticks)))
    assert found.build_seconds is not None
    assert found.build_seconds.mid == pytest.approx(1)


def test_a_head_of_a_stream_says_so(tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in _varied(3, 2500))
    path = _compressed(tmp_path / "a.jsonl.gz", rows)
    (note,) = tr.estimate(path, tokenizer="byte", sample_bytes=1).notes
    assert "gzip: only the first bytes of compressed files can be read" in note


def test_files_that_differ_widen_the_bounds(tmp_path: Path) -> None:
    """Of many streams only some are read; the parts of one say little about the others."""
    alike, different = [], []
    for number in range(12):
        data = write_rows(tmp_path / "rows", ["a" * 50 + bytes([n % 251]).hex() for n in range(2000)]).read_bytes()
        alike.append(_compressed(tmp_path / f"a{number}.jsonl.gz", data))
        data = write_rows(tmp_path / "rows", _varied(number, 60) if number % 2 else ["a"] * 3000).read_bytes()
        different.append(_compressed(tmp_path / f"b{number}.jsonl.gz", data))
    spread = [
        found.ids.high / found.ids.mid for found in (tr.estimate(p, tokenizer="byte") for p in (alike, different))
    ]
    assert spread[0] < 1.001
    assert spread[1] > 1.05


def test_bad_rows_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "abc"}\nno json\n{"text": null}\n{"text": "d"}\n')
    found = tr.estimate(path, tokenizer="byte")
    assert found.notes == ("2 of 4 rows in the sample are bad; a build counts and lists them",)
    assert found.ids.mid == pytest.approx(6)
    (tmp_path / "b.txt").write_bytes(b"\xff" * 400_000 + b"a" * 200_000)
    (note,) = tr.estimate(tmp_path / "b.txt", tokenizer="byte", sample_bytes=1).notes
    assert "bytes in the sample are not UTF-8" in note


def test_empty_texts_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    for name, text in (("a.txt", ""), ("b.txt", "abc"), ("c.txt", "")):
        (tmp_path / name).write_text(text)
    assert tr.estimate(tmp_path, tokenizer="byte").ids.mid == pytest.approx(4)


def test_a_row_larger_than_the_sample(tmp_path: Path) -> None:
    texts = ["a" * 700_000, "b"]
    found = tr.estimate(write_rows(tmp_path / "a.jsonl", texts), tokenizer="byte", sample_bytes=1)
    assert found.ids.low <= 700_003 <= found.ids.high
    data = (tmp_path / "a.jsonl").read_bytes() * 3
    found = tr.estimate(_compressed(tmp_path / "b.jsonl.zst", data), tokenizer="byte", sample_bytes=1)
    assert found.ids.mid == pytest.approx(3 * 700_003)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"sample_bytes": 0}, "sample_bytes: got 0"),
        ({"framing": "middle"}, "framing: got 'middle'"),
        ({"text_field": "txt"}, "expected some in the field 'txt'; the first rows have the fields text"),
        ({"separator": ""}, "separator: got an empty text"),
        ({"tokenizer": "no_such_encoding"}, "no_such_encoding"),
    ],
)
def test_refusals(options: dict[str, Any], what: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ["abc"])
    with pytest.raises(InputError, match=what):
        tr.estimate(path, **{"tokenizer": "byte", **options})


def _table(path: Path, texts: Sequence[str | None], rows: int, packing: str | None = "zstd") -> Path:
    """A Parquet file of row groups, or an Arrow stream of record batches, of so many rows each."""
    table = pa.table({"id": range(len(texts)), "text": pa.array(texts, pa.string())})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows, compression=packing)
    else:
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return path


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize("rows", [7, 1000])
def test_tables_read_whole_are_exact(ending: str, rows: int, tmp_path: Path) -> None:
    paths = [_table(tmp_path / f"{n}{ending}", _varied(n, 150) if n != 1 else [], rows) for n in range(3)]
    found = tr.estimate(paths, tokenizer="byte")
    small_build(paths, tmp_path / "c", unit_bytes=1 << 20)
    corpus = tr.open_corpus(tmp_path / "c")
    assert found.ids.low == pytest.approx(found.ids.high)
    assert found.ids.mid == pytest.approx(corpus.num_tokens)
    assert found.documents.mid == pytest.approx(300)
    assert found.sampled_bytes == found.input_bytes == sum(path.stat().st_size for path in paths)
    assert found.notes == ()


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize("rows", [30, 900, 4000])
def test_the_interval_of_a_table_holds_what_is_there(ending: str, rows: int, tmp_path: Path) -> None:
    held = 0
    for number in range(3):
        texts = _varied(number, 3000)
        truth = sum(len(text.encode()) + 1 for text in texts)
        path = _table(tmp_path / f"a{ending}", texts, rows, None)
        found = tr.estimate(path, tokenizer="byte", sample_bytes=1 << 18)
        assert found.stretches == pytest.approx(64, abs=6)
        assert found.sampled_bytes < 0.3 * found.input_bytes
        assert found.ids.mid == pytest.approx(truth, rel=0.1)
        assert 0.7 * truth < found.ids.low <= found.ids.mid <= found.ids.high < 1.3 * truth
        held += found.ids.low <= truth <= found.ids.high
        assert ("only the first rows" in "".join(found.notes)) == (rows > 30)
    assert held >= 2


def test_tables_of_row_groups_that_differ(tmp_path: Path) -> None:
    """A row group counts by its bytes, not by its number."""
    texts = [*["a" * 2000] * 1500, *["b"] * 1500]
    found = tr.estimate(_table(tmp_path / "a.parquet", texts, 100, None), tokenizer="byte", sample_bytes=1 << 18)
    assert found.text_bytes.mid == pytest.approx(1500 * 2001, rel=0.1)


def test_bad_rows_of_tables_are_told(tmp_path: Path) -> None:
    path = _table(tmp_path / "a.parquet", ["abc", None, "", "d"], 2)
    found = tr.estimate(path, tokenizer="byte")
    assert found.notes == ("1 of 4 rows in the sample are bad; a build counts and lists them",)
    assert found.ids.mid == pytest.approx(6)


def test_tables_without_texts_are_refused(tmp_path: Path) -> None:
    path = _table(tmp_path / "a.parquet", ["abc"], 1)
    with pytest.raises(InputError, match=r"column 'txt': got no such column; the columns are id, text"):
        tr.estimate(path, tokenizer="byte", text_field="txt")
    for texts in ([], [None]):
        with pytest.raises(InputError, match="text: got none in the sample"):
            tr.estimate(_table(tmp_path / "b.parquet", texts, 1), tokenizer="byte")
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(20) + b"PAR1")
    with pytest.raises(InputError, match=r"a\.parquet: damaged or not readable"):
        tr.estimate(tmp_path / "a.parquet", tokenizer="byte")
